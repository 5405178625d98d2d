/*
 * WebSocket /api/run: runs a command in a new sandbox, with streamed input and output. The sandbox
 * is destroyed when the connection closes, unless the client asked for "keep".
 */
#include <string.h>
#include "api/rest/exec/run.h"
#include "api/rest/exec/ws_exec.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

struct ws_run {
    struct atoll_ws_exec x; /* first */
    struct atoll_run run;
    bool running; /* finished() has not been called yet */
    struct atoll_buf result;
};

static struct ws_run *of_run(struct atoll_run *run)
{
    return ATOLL_CONTAINER_OF(run, struct ws_run, run);
}

static void run_started(struct atoll_run *run, struct atoll_exec *exec)
{
    struct ws_run *s = of_run(run);

    memcpy(s->x.sandbox_id, run->sandbox_id, sizeof(s->x.sandbox_id));
    atoll_ws_exec_bind(&s->x, exec, run->input.open);
}

static void run_progress(struct atoll_run *run, const char *text)
{
    atoll_ws_exec_progress(&of_run(run)->x, text);
}

static void run_finished(struct atoll_run *run, const struct atoll_error *error)
{
    struct ws_run *s = of_run(run);

    s->running = false;
    if (error)
        atoll_ws_exec_fail(&s->x, error);
    else
        atoll_ws_exec_finish(&s->x, &s->result);
    atoll_ws_exec_release(&s->x);
}

static const struct atoll_run_ops run_ops = {
    .takes_input = true,
    .started = run_started,
    .progress = run_progress,
    .finished = run_finished,
};

static void start(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n)
{
    struct ws_run *s = (struct ws_run *)x;

    s->running = true;
    atoll_ws_exec_hold(x);
    atoll_run_begin(&s->run, &run_ops, x->engine, x->tenant, bytes, n);
}

static void ended(struct atoll_ws_exec *x, const struct atoll_exec_result *result)
{
    struct ws_run *s = (struct ws_run *)x;
    struct atoll_json_out out;

    atoll_json_out_init(&out, &s->result);
    atoll_json_open(&out, NULL, '{');
    atoll_view_result(&out, "result", result);
    atoll_json_close(&out, '}');
    atoll_exec_pump_close(&x->pump);
    atoll_run_end(&s->run);
}

static void gone(struct atoll_ws_exec *x)
{
    struct ws_run *s = (struct ws_run *)x;

    if (s->running)
        atoll_run_abandon(&s->run);
}

static void free_stream(struct atoll_ws_exec *x)
{
    struct ws_run *s = (struct ws_run *)x;

    atoll_run_done(&s->run);
    atoll_buf_done(&s->result);
    free(s);
}

static const struct atoll_ws_exec_ops ops = {
    .max_message = ATOLL_BODY_FILES,
    .start = start,
    .ended = ended,
    .gone = gone,
    .free = free_stream,
};

void atoll_rest_ws_run(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct ws_run *s = atoll_api_alloc(sizeof(*s));

    atoll_buf_init(&s->result, (size_t)64 * 1024);
    atoll_ws_exec_accept(&s->x, &ops, call);
}
