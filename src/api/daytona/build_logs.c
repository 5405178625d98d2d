/*
 * Logs of builds as text: of a snapshot, or of a sandbox that is made from a Dockerfile. With follow=true
 * until the build has ended.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/builds.h"
#include "api/kit/log_feed.h"
#include "engine/json_memory.h"

/* One entry of the log (engine/build/build.h) as a line of text. False: the client is gone. */
static bool send_entry(struct atoll_http_request *req, const char *line, size_t n)
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
        r = atoll_http_write(req, head, strlen(head));
    if (text && r >= 0)
        r = atoll_http_write(req, text, strlen(text));
    if (text && r >= 0)
        r = atoll_http_write(req, "\n", 1);
    json_decref(entry);
    return r >= 0;
}

/* The whole lines of the piece; a line that is longer than a piece is left out. */
static ssize_t write_lines(struct atoll_http_request *req, const char *piece, size_t n)
{
    size_t at = 0;
    const char *newline;

    while ((newline = memchr(piece + at, '\n', n - at))) {
        size_t len = (size_t)(newline - piece) - at;
        if (!send_entry(req, piece + at, len))
            return -EPIPE;
        at += len + 1;
    }
    return (ssize_t)(at == 0 && n == ATOLL_LOG_PIECE ? n : at);
}

static void send_log(struct atoll_api_call *call, const char *build)
{
    struct atoll_log_feed log = {.source = &atoll_build_log_source,
                                 .id = build,
                                 .content_type = "text/plain; charset=utf-8",
                                 .write = write_lines};
    struct atoll_error error;
    int r = atoll_api_query_flag(call, "follow", &log.follow, &error);

    if (r == 0 && log.follow && atoll_log_feed_send(call, &log, &error) == 0)
        return;
    log.follow = false; /* what cannot be followed is sent as far as it is */
    if (r == 0)
        r = atoll_log_feed_send(call, &log, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
}

/* The build of what the path names; false: the call has been answered. */

static bool find_of_sandbox(struct atoll_api_call *call, char out[ATOLL_VERSION_ID_LEN + 1])
{
    const struct atoll_daytona_waiting *w =
        atoll_daytona_waiting_find(call->api, call->caller.tenant, call->params.id);
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    json_t *facts = sandbox ? atoll_daytona_facts(sandbox) : NULL;

    (void)snprintf(out, ATOLL_VERSION_ID_LEN + 1, "%s",
                   w ? atoll_daytona_waiting_build(w) : atoll_fact_text(facts, "buildId"));
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
    char origin[ATOLL_ORIGIN_MAX], url[ATOLL_ORIGIN_MAX + 128];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_origin(call->api, call->req, origin);
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
