/*
 * POST …/execs: starts a command. With ?wait=true the response is its result, with ?stream=true its
 * output as it is produced; otherwise its id, immediately.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/idempotency.h"
#include "api/kit/collect.h"
#include "api/rest/exec/exec_output.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

struct start {
    struct atoll_api_call *call;
    bool wait, stream;
    struct atoll_body body;
    struct atoll_rest_input input; /* borrowed from body */
    struct atoll_collect collect;
    char exec_id[33];
};

static void start_free(struct start *s)
{
    atoll_collect_done(&s->collect);
    atoll_body_done(&s->body);
    free(s);
}

static void ended(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error)
{
    struct start *s = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_api_reply_begin(s->call, error, &buf, &out)) {
        atoll_json_open(&out, NULL, '{');
        atoll_json_text(&out, "exec_id", s->exec_id);
        atoll_collect_write(&s->collect, &out);
        atoll_view_result(&out, "result", result);
        atoll_json_close(&out, '}');
        atoll_api_reply(s->call, 200, &out);
    }
    start_free(s);
}

/* The client disconnected while waiting; the command continues. */
static void stop_waiting(struct atoll_api_call *call)
{
    start_free(call->state);
    atoll_api_drop(call);
}

static void reply_started(struct start *s)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "exec_id", s->exec_id);
    atoll_json_close(&out, '}');
    atoll_api_reply(s->call, 201, &out);
    start_free(s);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct start *s = arg;
    struct atoll_exec_view view;

    if (error) {
        atoll_api_fail(s->call, error);
        start_free(s);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)snprintf(s->exec_id, sizeof(s->exec_id), "%s", view.id);
    atoll_rest_input_send(exec, &s->input);
    if (s->stream && s->call->req) {
        atoll_exec_output_send(s->call, exec,
                               &(struct atoll_exec_output){.follow = true, .announce = true});
        start_free(s);
        return;
    }
    if (!s->wait || (!s->call->req && !s->call->idempotency)) {
        reply_started(s);
        return;
    }
    s->call->state = s;
    /* With an Idempotency-Key the result is kept for a retry, even if this client disconnects. */
    if (!s->call->idempotency)
        s->call->on_gone = stop_waiting;
    atoll_collect_start(&s->collect, s->call->api->config.loop, exec, ended, s);
}

static int parse_start(struct start *s, const uint8_t *bytes, size_t n,
                       struct atoll_exec_start *ret_start, struct atoll_error *err)
{
    struct atoll_rest_exec request = {0};
    int r = atoll_api_query_flag(s->call, "wait", &s->wait, err);

    if (r == 0)
        r = atoll_api_query_flag(s->call, "stream", &s->stream, err);
    if (r == 0)
        r = atoll_body_decode(&s->body, bytes, n, atoll_rest_exec_fields, &request, err);
    if (r == 0)
        r = atoll_rest_exec_check(&request, ret_start, &s->input, err);
    if (r == 0 && s->wait && s->input.open)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "\"stdin\":true and ?wait=true exclude each other: give the input as a "
                       "string, or use the WebSocket …/execs/stream");
    if (r == 0 && s->stream && (s->wait || s->call->idempotency))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "?stream=true excludes ?wait=true and an Idempotency-Key; start "
                       "the command with the key, and read …/execs/EXEC/output");
    return r;
}

void atoll_rest_exec_start(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_exec_start start;
    struct atoll_error error;
    struct start *s;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    s = atoll_api_alloc(sizeof(*s));
    s->call = call;
    if (parse_start(s, bytes, n, &start, &error) == 0) {
        atoll_engine_exec(call->engine, call->params.id, &start, started, s);
        return;
    }
    atoll_api_fail(call, &error);
    start_free(s);
}
