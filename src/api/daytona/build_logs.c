/*
 * Logs of builds as text: of a snapshot, or of a sandbox that is made from a Dockerfile. With follow=true
 * until the build has ended. A client that reads slowly gets the rest later: the log is on disk.
 */
#include <stdio.h>
#include <string.h>
#include "api/daytona/builds.h"
#include "engine/json_memory.h"
#include "net/http_server.h"

#define PIECE ((size_t)64 * 1024)

struct log {
    struct atoll_api_call *call;
    struct atoll_make_watch *watch; /* owned */
    char id[ATOLL_VERSION_ID_LEN + 1];
    uint64_t offset;
    bool follow;
    char piece[PIECE];
};

static void log_free(struct log *l)
{
    atoll_make_unwatch(l->watch);
    free(l);
}

static void client_gone(struct atoll_api_call *call)
{
    log_free(call->state);
    atoll_api_drop(call);
}

static void end(struct log *l)
{
    struct atoll_api_call *call = l->call;

    call->on_gone = NULL;
    log_free(l);
    atoll_api_end(call);
}

/* The state is read before the log: what an ended build wrote is there. */
static bool has_ended(const struct log *l)
{
    struct atoll_make_view view;
    struct atoll_error error;

    return atoll_make_find(l->call->engine, NULL, l->id, &view, &error) < 0 ||
           view.state >= ATOLL_MAKE_READY;
}

/* One entry of the log (engine/build/build.h) as a line of text. False: the client is gone. */
static bool send_entry(struct log *l, const char *line, size_t n)
{
    json_error_t why;
    json_t *entry = atoll_json_load(line, n, 0, &why);
    const char *text = json_string_value(json_object_get(entry, "text"));
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    char head[64] = "";
    int r = 0;

    if (kind && strcmp(kind, "step") == 0)
        (void)snprintf(head, sizeof(head), "Step %lld/%lld : ",
                       (long long)json_integer_value(json_object_get(entry, "step")),
                       (long long)json_integer_value(json_object_get(entry, "of")));
    if (text)
        r = atoll_http_write(l->call->req, head, strlen(head));
    if (text && r >= 0)
        r = atoll_http_write(l->call->req, text, strlen(text));
    if (text && r >= 0)
        r = atoll_http_write(l->call->req, "\n", 1);
    json_decref(entry);
    return r >= 0;
}

/* The whole lines of the piece; returns their length. */
static size_t send_lines(struct log *l, size_t n)
{
    size_t at = 0;
    const char *newline;

    while ((newline = memchr(l->piece + at, '\n', n - at))) {
        size_t len = (size_t)(newline - l->piece) - at;
        if (!send_entry(l, l->piece + at, len))
            return 0;
        at += len + 1;
    }
    return at == 0 && n == PIECE ? n : at; /* a line that is longer than the piece is left out */
}

static void send(void *arg)
{
    struct log *l = arg;
    bool ended = has_ended(l);
    struct atoll_error error;
    size_t sent;
    ssize_t n;

    do {
        if (atoll_http_pending(l->call->req) > ATOLL_HTTP_HIGH_WATER)
            return; /* continues when the client has read */
        n = atoll_make_log(l->call->engine, l->id, l->offset, l->piece, sizeof(l->piece), &error);
        sent = n > 0 ? send_lines(l, (size_t)n) : 0;
        l->offset += sent;
    } while (sent > 0);
    if (ended || !l->follow || n < 0)
        end(l);
}

static void drained(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    send(arg);
}

static void send_log(struct atoll_api_call *call, const char *build)
{
    struct atoll_error error;
    struct log *l;
    bool follow;

    if (atoll_api_query_flag(call, "follow", &follow, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    l = atoll_api_alloc(sizeof(*l));
    l->call = call;
    (void)snprintf(l->id, sizeof(l->id), "%s", build);
    l->follow = follow && atoll_make_watch(call->engine, l->id, send, l, &l->watch, &error) == 0;
    call->state = l;
    call->on_gone = client_gone;
    atoll_api_begin(call, 200, "text/plain; charset=utf-8", -1);
    atoll_http_on_drain(call->req, drained, l);
    send(l);
}

/* The build of what the path names; false: the call has been answered. */

static bool find_of_sandbox(struct atoll_api_call *call, char out[ATOLL_VERSION_ID_LEN + 1])
{
    const struct atoll_daytona_waiting *w =
        atoll_daytona_waiting_find(call->api, call->caller.tenant, call->params.id);
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    json_t *facts = sandbox ? atoll_daytona_facts(sandbox) : NULL;

    (void)snprintf(out, ATOLL_VERSION_ID_LEN + 1, "%s",
                   w ? atoll_daytona_waiting_build(w) : atoll_daytona_fact_text(facts, "buildId"));
    json_decref(facts);
    if (!*out)
        atoll_daytona_refuse(call, 404, NULL, "Sandbox %.64s has no build", call->params.id);
    return *out;
}

static bool find_of_snapshot(struct atoll_api_call *call, char out[ATOLL_VERSION_ID_LEN + 1])
{
    struct atoll_error error;

    if (atoll_daytona_snapshot_build(call, call->params.template, out, &error) == 0)
        return true;
    atoll_api_fail(call, &error);
    return false;
}

static void reply_url(struct atoll_api_call *call, const char *kind, const char *id)
{
    char origin[ATOLL_DAYTONA_ORIGIN_MAX], url[ATOLL_DAYTONA_ORIGIN_MAX + 128];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_daytona_origin(call->api, call->req, origin);
    (void)snprintf(url, sizeof(url), "%s" ATOLL_DAYTONA_BASE "/%s/%s/build-logs", origin, kind, id);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "url", url);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_sandbox_logs_url(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                    size_t n ATOLL_UNUSED)
{
    char build[ATOLL_VERSION_ID_LEN + 1];

    if (find_of_sandbox(call, build))
        reply_url(call, "sandbox", call->params.id);
}

void atoll_daytona_sandbox_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    char build[ATOLL_VERSION_ID_LEN + 1];

    if (find_of_sandbox(call, build))
        send_log(call, build);
}

void atoll_daytona_snapshot_logs_url(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                     size_t n ATOLL_UNUSED)
{
    char build[ATOLL_VERSION_ID_LEN + 1];

    if (find_of_snapshot(call, build))
        reply_url(call, "snapshots", build);
}

void atoll_daytona_snapshot_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    char build[ATOLL_VERSION_ID_LEN + 1];

    if (find_of_snapshot(call, build))
        send_log(call, build);
}
