#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/body_pump.h"
#include "api/rest/collect.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

struct atoll_exec *atoll_rest_find_exec(struct atoll_engine *engine, const char *sandbox_id,
                                        const char *exec_id, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(engine, sandbox_id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, exec_id) : NULL;

    if (!sandbox)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s does not exist", sandbox_id);
    else if (!exec)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s has no exec %s", sandbox_id,
                         exec_id);
    return exec;
}

/* The exec the route names, or NULL and the call has been answered. */
static struct atoll_exec *find_or_fail(struct atoll_api_call *call)
{
    struct atoll_error error;
    struct atoll_exec *exec =
        atoll_rest_find_exec(call->engine, call->params.id, call->params.exec, &error);

    if (!exec)
        atoll_api_fail(call, &error);
    return exec;
}

/* Starting one, and with ?wait=true also staying until it has ended. */

struct start {
    struct atoll_api_call *call;
    bool wait;
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

    if (error) {
        atoll_api_fail(s->call, error);
    } else {
        atoll_api_reply_init(&buf, &out);
        atoll_json_open(&out, NULL, '{');
        atoll_json_text(&out, "exec_id", s->exec_id);
        atoll_collect_write(&s->collect, &out);
        atoll_view_result(&out, "result", result);
        atoll_json_close(&out, '}');
        atoll_api_reply(s->call, 200, &out);
    }
    start_free(s);
}

/* Nobody waits for the end any more; the command goes on. */
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
    if (!s->wait || !s->call->req) {
        reply_started(s);
        return;
    }
    s->call->state = s;
    s->call->on_gone = stop_waiting;
    atoll_collect_start(&s->collect, exec, ended, s);
}

static int parse_start(struct start *s, const uint8_t *bytes, size_t n,
                       struct atoll_exec_start *ret_start, struct atoll_error *err)
{
    struct atoll_rest_exec request = {0};
    struct atoll_field_set set = {atoll_rest_exec_fields, &request};
    int r = atoll_api_query_flag(s->call, "wait", &s->wait, err);

    if (r == 0)
        r = atoll_body_parse(&s->body, bytes, n, err);
    if (r == 0)
        r = atoll_fields_decode(&s->body, s->body.root, "", &set, 1, err);
    if (r == 0)
        r = atoll_rest_exec_check(&request, ret_start, &s->input, err);
    if (r == 0 && s->wait && s->input.open)
        r = atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "\"stdin\":true and ?wait=true exclude each other: whoever waits cannot send "
            "input; give it as a string, or use the WebSocket …/execs/stream");
    return r;
}

void atoll_rest_exec_start(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct start *s = atoll_api_alloc(sizeof(*s));
    struct atoll_exec_start start;
    struct atoll_error error;

    s->call = call;
    if (parse_start(s, bytes, n, &start, &error) == 0) {
        atoll_engine_exec(call->engine, call->params.id, &start, started, s);
        return;
    }
    atoll_api_fail(call, &error);
    start_free(s);
}

/* Looking. */

void atoll_rest_exec_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, &error);
    struct atoll_exec *exec;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t pos = 0;

    if (!sandbox) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "execs", '[');
    while ((exec = atoll_sandbox_next_exec(sandbox, &pos)))
        atoll_view_exec(&out, NULL, exec);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_exec_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    const struct atoll_exec *exec = find_or_fail(call);
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!exec)
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_view_exec(&out, NULL, exec);
    atoll_api_reply(call, 200, &out);
}

/* Acting on one that runs. */

void atoll_rest_exec_signal(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_rest_signal request = {0};
    struct atoll_field_set set = {atoll_rest_signal_fields, &request};
    struct atoll_exec *exec;
    struct atoll_body body;
    struct atoll_error error;
    int signo = 0;
    int r = atoll_body_parse(&body, bytes, n, &error);

    if (r == 0)
        r = atoll_fields_decode(&body, body.root, "", &set, 1, &error);
    if (r == 0)
        r = atoll_rest_signal_check(&request, &signo, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if ((exec = find_or_fail(call)))
        atoll_exec_signal(exec, signo, request.tree, ATOLL_REST_WHO, atoll_rest_done, call);
    atoll_body_done(&body);
}

void atoll_rest_exec_resize(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_rest_size size = {0};
    struct atoll_field_set set = {atoll_rest_size_fields, &size};
    struct atoll_exec *exec;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_parse(&body, bytes, n, &error);

    if (r == 0)
        r = atoll_fields_decode(&body, body.root, "", &set, 1, &error);
    if (r == 0)
        r = atoll_rest_size_check(&size, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if ((exec = find_or_fail(call)))
        atoll_exec_resize(exec, size.cols, size.rows, atoll_rest_done, call);
    atoll_body_done(&body);
}

/* Input, of any length. */

struct input {
    struct atoll_api_call *call;
    struct atoll_body_pump pump;
    bool close;
};

static void write_input(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                        void *done_arg)
{
    struct input *in = arg;
    struct atoll_error error;
    struct atoll_exec *exec =
        atoll_rest_find_exec(in->call->engine, in->call->params.id, in->call->params.exec, &error);

    if (exec)
        atoll_exec_write(exec, bytes, n, false, done, done_arg);
    else
        done(done_arg, &error);
}

static void input_ended(void *arg, const struct atoll_error *error)
{
    struct input *in = arg;
    struct atoll_api_call *call = in->call;
    struct atoll_exec *exec;

    if (error)
        atoll_api_fail(call, error);
    else if (!in->close)
        atoll_api_reply_empty(call, 204);
    else if ((exec = find_or_fail(call)))
        atoll_exec_write(exec, NULL, 0, true, atoll_rest_done, call);
    free(in);
}

void atoll_rest_exec_stdin(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct input *in;
    bool close;

    if (atoll_api_query_flag(call, "close", &close, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (!find_or_fail(call))
        return;
    in = atoll_api_alloc(sizeof(*in));
    in->call = call;
    in->close = close;
    atoll_body_pump_start(&in->pump, call, write_input, input_ended, in);
}
