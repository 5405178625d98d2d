/*
 * WebSocket …/execs/stream: starts a command in a sandbox and carries its input and output. If the
 * client disconnects, the command continues; …/output returns the rest of its output.
 */
#include "api/rest/exec/ws_exec.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

struct ws_exec_start {
    struct atoll_ws_exec x; /* first */
    struct atoll_body body;
    struct atoll_rest_input input; /* borrowed from body */
};

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct ws_exec_start *s = arg;

    if (error) {
        atoll_ws_exec_fail(&s->x, error);
    } else {
        atoll_rest_input_send(exec, &s->input);
        if (s->x.ws)
            atoll_ws_exec_bind(&s->x, exec, s->input.open);
    }
    atoll_body_done(&s->body);
    atoll_ws_exec_release(&s->x);
}

static void start(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n)
{
    struct ws_exec_start *s = (struct ws_exec_start *)x;
    struct atoll_rest_exec request = {0};
    struct atoll_exec_start what;
    struct atoll_error error;
    int r = atoll_body_decode(&s->body, bytes, n, atoll_rest_exec_fields, &request, &error);

    if (r == 0)
        r = atoll_rest_exec_check(&request, &what, &s->input, &error);
    if (r < 0) {
        atoll_ws_exec_fail(x, &error);
        return;
    }
    atoll_ws_exec_hold(x);
    atoll_engine_exec(x->engine, x->sandbox_id, &what, started, s);
}

static void free_stream(struct atoll_ws_exec *x)
{
    struct ws_exec_start *s = (struct ws_exec_start *)x;

    atoll_body_done(&s->body);
    free(s);
}

static const struct atoll_ws_exec_ops ops = {
    .max_message = ATOLL_BODY_JSON,
    .start = start,
    .ended = atoll_ws_exec_report,
    .gone = atoll_ws_exec_let_go,
    .free = free_stream,
};

void atoll_rest_ws_exec(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    struct ws_exec_start *s = atoll_api_alloc(sizeof(*s));

    atoll_ws_exec_accept(&s->x, &ops, call);
}
