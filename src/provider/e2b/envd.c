/*
 * Requests to envd, E2B's daemon in each sandbox: processes and files as root.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"
#include "provider/e2b/e2b_internal.h"

#define WHAT "start the agent"
#define REQUEST_MS 60000
#define UPLOAD_TRIES 4
#define KEEPALIVE_S 30
#define KEEPALIVE_HEADER "Keepalive-Ping-Interval: " ATOLL_STRINGIFY(KEEPALIVE_S)
#define SILENCE_MS (3 * KEEPALIVE_S * 1000)

/* Domains of the service that use one host for all sandboxes. */
static bool has_shared_host(const char *domain)
{
    static const char *const shared[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(shared); i++)
        if (strcmp(domain, shared[i]) == 0)
            return true;
    return false;
}

static int make_url(const struct atoll_e2b_provider *p, const struct atoll_e2b_remote *remote,
                    char **ret)
{
    const char *domain = remote->domain[0] ? remote->domain : p->domain;

    if (p->sandbox_url)
        return asprintf(ret, "%s", p->sandbox_url);
    if (has_shared_host(domain))
        return asprintf(ret, "https://sandbox.%s", domain);
    return asprintf(ret, "https://%d-%s.%s", ATOLL_E2B_ENVD_PORT, remote->of.handle, domain);
}

/* One sandbox's envd. */
struct envd {
    struct atoll_e2b_provider *p;
    char *url;                  /* owned */
    struct curl_slist *headers; /* owned; of every request */
};

static void envd_done(struct envd *e)
{
    free(e->url);
    curl_slist_free_all(e->headers);
}
#define AUTOENVD ATOLL_CLEANUP(envd_done)

static int envd_init(struct envd *e, struct atoll_e2b_provider *p,
                     const struct atoll_e2b_remote *remote, struct atoll_error *err)
{
    char root[12];
    int r;

    *e = (struct envd){.p = p};
    atoll_base64_text(root, "root:", 5);
    r = atoll_remote_header(&e->headers, err, "E2b-Sandbox-Id: %s", remote->of.handle);
    if (r == 0)
        r = atoll_remote_header(&e->headers, err, "E2b-Sandbox-Port: %d", ATOLL_E2B_ENVD_PORT);
    if (r == 0)
        r = atoll_remote_header(&e->headers, err, "Authorization: Basic %s", root);
    if (r == 0 && remote->token[0])
        r = atoll_remote_header(&e->headers, err, "X-Access-Token: %s", remote->token);
    if (r == 0 && make_url(p, remote, &e->url) < 0) {
        e->url = NULL;
        r = atoll_fail_errno(err, ENOMEM, "address");
    }
    return r;
}

/* The headers of envd and `count` more lines. */
static int headers_with(const struct envd *e, const char *const *lines, size_t count,
                        struct curl_slist **ret, struct atoll_error *err)
{
    int r = atoll_remote_headers(ret, e->headers, err);

    for (size_t i = 0; r == 0 && i < count; i++)
        r = atoll_remote_header(ret, err, "%s", lines[i]);
    return r;
}

/* Sends a POST; every status except 2xx is an error. */
static int post(const struct envd *e, const struct atoll_sync_call *call, const char *path,
                struct atoll_remote_request *request, struct atoll_remote_answer *ret,
                struct atoll_error *err)
{
    ATOLL_AUTOFREE char *url = NULL;
    int r;

    if (asprintf(&url, "%s%s", e->url, path) < 0) {
        url = NULL;
        return atoll_fail_errno(err, ENOMEM, WHAT);
    }
    request->what = WHAT;
    request->method = "POST";
    request->url = url;
    request->timeout_ms = REQUEST_MS;
    r = atoll_remote_http_ask(e->p->remote.api.http, call, request, ret, err);
    if (r == 0 && (ret->status < 200 || ret->status > 299))
        r = atoll_remote_api_refused(&e->p->remote.api, WHAT, ret, err);
    return r;
}

static int upload(void *arg, const struct atoll_sync_call *call, const char *path,
                  const void *bytes, size_t n, struct atoll_error *err)
{
    static const char *const lines[] = {"Content-Type: application/octet-stream",
                                        "Content-Encoding: gzip", "Expect:"};
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    ATOLL_AUTOFREE char *where = NULL;
    int r = headers_with(arg, lines, ATOLL_ARRAY_LEN(lines), &headers, err);

    if (r < 0)
        return r;
    if (asprintf(&where, "/files?path=%s&username=root", path) < 0) {
        where = NULL;
        return atoll_fail_errno(err, ENOMEM, WHAT);
    }
    return post(arg, call, where,
                &(struct atoll_remote_request){
                    .headers = headers, .body = bytes, .body_len = n, .tries = UPLOAD_TRIES},
                &answer, err);
}

/* Running a program to its end. */

struct outcome {
    bool exited;
    enum atoll_error_kind kind;
    struct atoll_remote_exit exit;
};

static int on_outcome(void *arg, const struct atoll_e2b_event *event)
{
    struct outcome *o = arg;
    char *text = o->exit.text;

    if (event->type == ATOLL_E2B_EVENT_STDERR) {
        (void)snprintf(text, sizeof(o->exit.text), "%.*s",
                       (int)ATOLL_MIN(event->len, sizeof(o->exit.text) - 1),
                       (const char *)event->bytes);
    } else if (event->type == ATOLL_E2B_EVENT_EXIT) {
        o->exited = true;
        o->exit.code = event->code;
    } else if (event->type == ATOLL_E2B_EVENT_END) {
        o->kind = event->kind;
        if (event->kind != ATOLL_ERR_NONE)
            (void)snprintf(text, sizeof(o->exit.text), "%s", event->text);
    }
    return 0;
}

static int read_outcome(const struct atoll_remote_answer *answer, struct atoll_remote_exit *ret,
                        struct atoll_error *err)
{
    struct atoll_e2b_events events;
    struct outcome o = {0};
    int r;

    atoll_e2b_events_init(&events);
    r = atoll_e2b_events_feed(&events, atoll_buf_head(&answer->body), atoll_buf_size(&answer->body),
                              on_outcome, &o);
    atoll_e2b_events_done(&events);
    *ret = o.exit;
    if (r == 0 && o.kind != ATOLL_ERR_NONE)
        return atoll_fail(err, o.kind, EREMOTEIO, WHAT ": %s", o.exit.text);
    if (r < 0 || !o.exited)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO,
                          WHAT ": the answer of the E2B service is not the stream of a process");
    return 0;
}

/* The body of a request that starts a process. */
static int start_body(const char *const *argv, bool with_stdin, struct atoll_buf *ret,
                      struct atoll_error *err)
{
    ATOLL_AUTOFREE char *message =
        atoll_remote_dump(atoll_e2b_start_message(argv[0], argv + 1, with_stdin));

    atoll_buf_init(ret, ATOLL_E2B_MESSAGE_MAX);
    if (!message || atoll_e2b_envelope(ret, message) < 0)
        return atoll_fail_errno(err, ENOMEM, WHAT);
    return 0;
}

static int run(void *arg, const struct atoll_sync_call *call, const char *const *argv,
               struct atoll_remote_exit *ret, struct atoll_error *err)
{
    static const char *const lines[] = {"Content-Type: application/connect+json",
                                        "Connect-Protocol-Version: 1"};
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    struct atoll_buf body;
    int r = start_body(argv, false, &body, err);

    if (r == 0)
        r = headers_with(arg, lines, ATOLL_ARRAY_LEN(lines), &headers, err);
    if (r == 0)
        r = post(arg, call, "/process.Process/Start",
                 &(struct atoll_remote_request){.headers = headers,
                                                .body = atoll_buf_head(&body),
                                                .body_len = atoll_buf_size(&body)},
                 &answer, err);
    if (r == 0)
        r = read_outcome(&answer, ret, err);
    atoll_buf_done(&body);
    return r;
}

int atoll_e2b_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                          struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    AUTOENVD struct envd envd = {0};
    struct atoll_remote_exit exit;
    int r = envd_init(&envd, atoll_e2b_of(p), atoll_e2b_record(record), err);

    if (r < 0)
        return r;
    return atoll_remote_agent_start(
        p->agent, call,
        &(struct atoll_remote_installer){.run = run, .upload = upload, .arg = &envd}, &exit, err);
}

/* Streams. */

struct stream {
    struct atoll_e2b_events events;
    uint32_t pid;
    struct atoll_remote_stream *to; /* while it decodes */
};

static int on_event(void *arg, const struct atoll_e2b_event *event)
{
    struct stream *s = arg;

    switch (event->type) {
    case ATOLL_E2B_EVENT_START:
        s->pid = event->pid;
        atoll_remote_stream_opened(s->to);
        break;
    case ATOLL_E2B_EVENT_STDOUT:
        return atoll_remote_stream_output(s->to, event->bytes, event->len);
    case ATOLL_E2B_EVENT_EXIT:
        atoll_remote_stream_exited(s->to, event->code);
        break;
    case ATOLL_E2B_EVENT_END:
        if (event->kind != ATOLL_ERR_NONE)
            atoll_remote_stream_failed(s->to, event->kind, event->text);
        break;
    case ATOLL_E2B_EVENT_STDERR:
    case ATOLL_E2B_EVENT_ALIVE:
        break;
    }
    return 0;
}

static int decode(void *state, struct atoll_remote_stream *to, const void *bytes, size_t n)
{
    struct stream *s = state;

    s->to = to;
    return atoll_e2b_events_feed(&s->events, bytes, n, on_event, s);
}

static int input(void *state, struct atoll_buf *body, const void *bytes, size_t n)
{
    const struct stream *s = state;
    return atoll_e2b_input_message(body, s->pid, bytes, n);
}

static int append_json(struct atoll_buf *body, json_t *message)
{
    ATOLL_AUTOFREE char *text = atoll_remote_dump(message);
    return text ? atoll_buf_appends(body, text) : -ENOMEM;
}

static int end_input(void *state, struct atoll_buf *body)
{
    const struct stream *s = state;
    return append_json(body, atoll_e2b_close_message(s->pid));
}

static int kill_process(void *state, struct atoll_buf *body)
{
    const struct stream *s = state;
    return append_json(body, atoll_e2b_kill_message(s->pid));
}

static void stream_free(void *state)
{
    struct stream *s = state;

    atoll_e2b_events_done(&s->events);
    free(s);
}

static const struct atoll_remote_stream_ops stream_ops = {
    .decode = decode,
    .input = input,
    .end_input = end_input,
    .kill = kill_process,
    .free = stream_free,
};

/* The requests of a stream, as pump.h wants them. */
struct requests {
    struct envd envd;
    char *urls[ATOLL_REMOTE_REQUESTS];
    struct curl_slist *start_headers, *headers;
    struct atoll_buf body;
};

static void requests_done(struct requests *q)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(q->urls); i++)
        free(q->urls[i]);
    curl_slist_free_all(q->start_headers);
    curl_slist_free_all(q->headers);
    atoll_buf_done(&q->body);
    envd_done(&q->envd);
}

static int make_requests(struct requests *q, struct atoll_e2b_provider *p,
                         const struct atoll_e2b_remote *remote, struct atoll_error *err)
{
    static const char *const methods[] = {
        [ATOLL_REMOTE_START] = "Start",
        [ATOLL_REMOTE_INPUT] = "SendInput",
        [ATOLL_REMOTE_END] = "CloseStdin",
        [ATOLL_REMOTE_KILL] = "SendSignal",
    };
    static const char *const argv[] = {ATOLL_REMOTE_AGENT, "--relay", ATOLL_REMOTE_SOCKET, NULL};
    static const char *const of_stream[] = {"Content-Type: application/connect+json",
                                            "Connect-Protocol-Version: 1", KEEPALIVE_HEADER};
    static const char *const of_unary[] = {"Content-Type: application/json"};
    int r = envd_init(&q->envd, p, remote, err);

    if (r == 0)
        r = headers_with(&q->envd, of_stream, ATOLL_ARRAY_LEN(of_stream), &q->start_headers, err);
    if (r == 0)
        r = headers_with(&q->envd, of_unary, ATOLL_ARRAY_LEN(of_unary), &q->headers, err);
    if (r == 0)
        r = start_body(argv, true, &q->body, err);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(methods); i++)
        if (asprintf(&q->urls[i], "%s/process.Process/%s", q->envd.url, methods[i]) < 0) {
            q->urls[i] = NULL;
            r = atoll_fail_errno(err, ENOMEM, "address");
        }
    return r;
}

int atoll_e2b_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                         struct atoll_remote_sandbox *record, int *ret_fd, struct atoll_error *err)
{
    struct stream *s = calloc(1, sizeof(*s));
    struct requests q = {0};
    struct atoll_remote_open open = {
        .handle = record->handle, .silence_ms = SILENCE_MS, .ops = &stream_ops, .state = s};
    int r = s ? make_requests(&q, atoll_e2b_of(p), atoll_e2b_record(record), err)
              : atoll_fail_errno(err, ENOMEM, "stream");

    if (r == 0) {
        atoll_e2b_events_init(&s->events);
        for (size_t i = 0; i < ATOLL_REMOTE_REQUESTS; i++)
            open.to[i].url = q.urls[i];
        open.start_headers = q.start_headers;
        open.headers = q.headers;
        open.start_body = atoll_buf_head(&q.body);
        open.start_body_len = atoll_buf_size(&q.body);
        r = atoll_remote_pump_open(p->pump, call, &open, ret_fd, err);
    } else {
        free(s);
    }
    requests_done(&q);
    return r;
}
