/*
 * Installs our agent in a sandbox of the service. An agent with the right hash is reused, else it
 * is uploaded; a small script starts it as root.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include "base/fd.h"
#include "provider/e2b/e2b_internal.h"

#define AGENT_MAX ((off_t)64 * 1024 * 1024)
#define PLACE "/var/lib/atoll/agent"
#define WHAT "start the agent"
#define EXIT_MISSING 3

/* $1: the hash. Looks where we upload it, and where an installed Atoll has it. */
static const char script[] =
    "for f in " PLACE " /usr/local/libexec/atoll/atoll-agent /usr/libexec/atoll/atoll-agent; do\n"
    "  if [ -f \"$f\" ]; then\n"
    "    h=$(sha256sum <\"$f\"); [ \"${h%% *}\" = \"$1\" ] && break\n"
    "  fi\n"
    "  f=\n"
    "done\n"
    "[ -n \"$f\" ] || exit 3\n"
    "[ -x \"$f\" ] || chmod 755 \"$f\" || exit 1\n"
    "mkdir -p -m 700 " ATOLL_E2B_RUN_DIR " && ln -sfn \"$f\" " ATOLL_E2B_AGENT " || exit 1\n"
    "exec " ATOLL_E2B_AGENT " --listen " ATOLL_E2B_SOCKET " --no-fds --in-container '' --detach\n";

/* The file. */

static int pack(const void *bytes, size_t n, void **ret, size_t *ret_len)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n};
    size_t cap;
    uint8_t *out;

    /* 16: with a gzip header. */
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    cap = deflateBound(&z, (uLong)n);
    out = malloc(cap);
    z.next_out = out;
    z.avail_out = (uInt)cap;
    if (!out || deflate(&z, Z_FINISH) != Z_STREAM_END) {
        (void)deflateEnd(&z);
        free(out);
        return -ENOMEM;
    }
    *ret_len = cap - z.avail_out;
    *ret = out;
    (void)deflateEnd(&z);
    return 0;
}

static int hash(const void *bytes, size_t n, char text[65])
{
    uint8_t digest[32];
    unsigned len = 0;

    if (EVP_Digest(bytes, n, digest, &len, EVP_sha256(), NULL) != 1 || len != sizeof(digest))
        return -EIO;
    for (size_t i = 0; i < sizeof(digest); i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

static int load(struct atoll_e2b_provider *p, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(p->agent_path, O_RDONLY | O_CLOEXEC);
    ATOLL_AUTOFREE void *bytes = NULL;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "%s", p->agent_path);
    if (st.st_size <= 0 || st.st_size > AGENT_MAX)
        return atoll_fail_errno(err, EFBIG, "%s", p->agent_path);
    bytes = malloc((size_t)st.st_size);
    r = bytes ? atoll_fd_read_all(fd, bytes, (size_t)st.st_size) : -ENOMEM;
    if (r == 0)
        r = hash(bytes, (size_t)st.st_size, p->agent_sha256);
    if (r == 0)
        r = pack(bytes, (size_t)st.st_size, &p->agent_packed, &p->agent_packed_len);
    return r < 0 ? atoll_fail_errno(err, -r, "%s", p->agent_path) : 0;
}

/* Read once: a new agent file is used by the next daemon only. */
static int have_agent(struct atoll_e2b_provider *p, struct atoll_error *err)
{
    int r;

    (void)pthread_mutex_lock(&p->agent_lock);
    r = p->agent_packed ? 0 : load(p, err);
    (void)pthread_mutex_unlock(&p->agent_lock);
    return r;
}

/* Requests to the sandbox. */

static int upload(struct atoll_e2b_provider *p, const struct atoll_sync_call *call, const char *url,
                  const struct curl_slist *headers, struct atoll_error *err)
{
    ATOLL_E2B_AUTOANSWER struct atoll_e2b_answer answer = {0};
    ATOLL_E2B_AUTOSLIST struct curl_slist *all = NULL;
    ATOLL_AUTOFREE char *whole = NULL;
    struct atoll_e2b_ask ask = {.method = "POST",
                                .ca = p->ca_file,
                                .body = p->agent_packed,
                                .body_len = p->agent_packed_len};
    int r = 0;

    for (; r == 0 && headers; headers = headers->next)
        r = atoll_e2b_header(&all, err, "%s", headers->data);
    if (r == 0)
        r = atoll_e2b_header(&all, err, "Content-Type: application/octet-stream");
    if (r == 0)
        r = atoll_e2b_header(&all, err, "Content-Encoding: gzip");
    if (r == 0)
        r = atoll_e2b_header(&all, err, "Expect:");
    if (r < 0)
        return r;
    if (asprintf(&whole, "%s/files?path=" PLACE "&username=root", url) < 0) {
        whole = NULL;
        return atoll_fail_errno(err, ENOMEM, WHAT);
    }
    ask.url = whole;
    ask.headers = all;
    r = atoll_e2b_http_ask(p->http, call, WHAT, &ask, &answer, err);
    if (r == 0 && (answer.status < 200 || answer.status > 299))
        r = atoll_e2b_api_refused(p, WHAT, &answer, err);
    return r;
}

/* Result of the script. */
struct outcome {
    bool exited;
    int code;
    enum atoll_error_kind kind;
    char text[200];
};

static int on_event(void *arg, const struct atoll_e2b_event *event)
{
    struct outcome *o = arg;

    switch (event->type) {
    case ATOLL_E2B_EVENT_STDERR:
        (void)snprintf(o->text, sizeof(o->text), "%.*s",
                       (int)ATOLL_MIN(event->len, sizeof(o->text) - 1), (const char *)event->bytes);
        break;
    case ATOLL_E2B_EVENT_EXIT:
        o->exited = true;
        o->code = event->code;
        break;
    case ATOLL_E2B_EVENT_END:
        o->kind = event->kind;
        if (event->kind != ATOLL_ERR_NONE)
            (void)snprintf(o->text, sizeof(o->text), "%s", event->text);
        break;
    default:
        break;
    }
    return 0;
}

static int read_outcome(struct atoll_e2b_answer *answer, struct outcome *ret,
                        struct atoll_error *err)
{
    struct atoll_e2b_events events;
    int r;

    *ret = (struct outcome){0};
    atoll_e2b_events_init(&events);
    r = atoll_e2b_events_feed(&events, atoll_buf_head(&answer->body), atoll_buf_size(&answer->body),
                              on_event, ret);
    if (r == 0 && ret->kind != ATOLL_ERR_NONE)
        r = atoll_fail(err, ret->kind, EREMOTEIO, WHAT ": %s", ret->text);
    else if (r < 0 || !ret->exited)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO,
                       WHAT ": the E2B service's answer is not the stream of a process");
    atoll_e2b_events_done(&events);
    return r;
}

static int run_script(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                      const char *url, const struct curl_slist *headers, struct outcome *ret,
                      struct atoll_error *err)
{
    const char *args[] = {"-c", script, "sh", p->agent_sha256, NULL};
    ATOLL_AUTOFREE char *message = atoll_e2b_dump(atoll_e2b_start_message("/bin/sh", args, false));
    ATOLL_E2B_AUTOANSWER struct atoll_e2b_answer answer = {0};
    ATOLL_E2B_AUTOSLIST struct curl_slist *all = NULL;
    ATOLL_AUTOFREE char *whole = NULL;
    struct atoll_e2b_ask ask = {.method = "POST", .ca = p->ca_file};
    struct atoll_buf body;
    int r = 0;

    for (; r == 0 && headers; headers = headers->next)
        r = atoll_e2b_header(&all, err, "%s", headers->data);
    if (r == 0)
        r = atoll_e2b_header(&all, err, "Content-Type: application/connect+json");
    if (r == 0)
        r = atoll_e2b_header(&all, err, "Connect-Protocol-Version: 1");
    if (r < 0)
        return r;
    atoll_buf_init(&body, ATOLL_E2B_MESSAGE_MAX);
    if (!message || atoll_e2b_envelope(&body, message) < 0 ||
        asprintf(&whole, "%s/process.Process/Start", url) < 0) {
        whole = NULL;
        atoll_buf_done(&body);
        return atoll_fail_errno(err, ENOMEM, WHAT);
    }
    ask.url = whole;
    ask.headers = all;
    ask.body = atoll_buf_head(&body);
    ask.body_len = atoll_buf_size(&body);
    r = atoll_e2b_http_ask(p->http, call, WHAT, &ask, &answer, err);
    if (r == 0 && answer.status != 200)
        r = atoll_e2b_api_refused(p, WHAT, &answer, err);
    if (r == 0)
        r = read_outcome(&answer, ret, err);
    atoll_buf_done(&body);
    return r;
}

int atoll_e2b_agent_start(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_e2b_remote *remote, struct atoll_error *err)
{
    ATOLL_E2B_AUTOSLIST struct curl_slist *headers = NULL;
    ATOLL_AUTOFREE char *url = NULL;
    struct outcome outcome;
    int r = have_agent(p, err);

    if (r == 0)
        r = atoll_e2b_envd(p, remote, &url, &headers, err);
    if (r == 0)
        r = run_script(p, call, url, headers, &outcome, err);
    if (r == 0 && outcome.code == EXIT_MISSING) {
        r = upload(p, call, url, headers, err);
        if (r == 0)
            r = run_script(p, call, url, headers, &outcome, err);
    }
    if (r == 0 && outcome.code != 0)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOEXEC,
                       "the agent does not start in the E2B sandbox (status %d): %.160s; the "
                       "template needs /bin/sh and sha256sum",
                       outcome.code, outcome.text);
    return r;
}

int atoll_e2b_agent_dial(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                         const struct atoll_e2b_remote *remote, int *ret_fd,
                         struct atoll_error *err)
{
    static const char *const args[] = {"--relay", ATOLL_E2B_SOCKET, NULL};
    ATOLL_E2B_AUTOSLIST struct curl_slist *headers = NULL;
    ATOLL_AUTOFREE char *url = NULL;
    int r = atoll_e2b_envd(p, remote, &url, &headers, err);

    if (r < 0)
        return r;
    return atoll_e2b_pump_open(p->pump, call,
                               &(struct atoll_e2b_open){.handle = remote->handle,
                                                        .url = url,
                                                        .headers = headers,
                                                        .cmd = ATOLL_E2B_AGENT,
                                                        .args = args},
                               ret_fd, err);
}
