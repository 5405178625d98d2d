/*
 * POST /api/run: creates a sandbox, runs a command and returns the result, in one request. The
 * sandbox is destroyed before the response is sent, and also when the client disconnects earlier.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/collect.h"
#include "api/lease.h"
#include "api/rest/exec/run.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

struct run_post {
    struct atoll_run run; /* first */
    struct atoll_api_call *call;
    struct atoll_collect collect;
    struct atoll_buf reply;
    struct atoll_json_out out;
};

static void client_gone(struct atoll_api_call *call)
{
    struct run_post *p = call->state;

    atoll_collect_done(&p->collect);
    p->run.keep = false; /* the response was to carry the sandbox's id */
    atoll_run_abandon(&p->run);
}

static void ended(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error)
{
    struct run_post *p = arg;

    if (error) {
        p->run.error = *error;
        p->run.keep = false;
    } else {
        atoll_json_open(&p->out, NULL, '{');
        atoll_json_text(&p->out, "sandbox_id", p->run.sandbox_id);
        atoll_json_text(&p->out, "exec_id", p->run.exec_id);
        atoll_collect_write(&p->collect, &p->out);
        atoll_view_result(&p->out, "result", result);
        atoll_json_close(&p->out, '}');
    }
    atoll_collect_done(&p->collect);
    atoll_run_end(&p->run);
}

static void started(struct atoll_run *run, struct atoll_exec *exec)
{
    struct run_post *p = (struct run_post *)run;

    atoll_collect_start(&p->collect, p->call->api->config.loop, exec, ended, p);
}

static void finished(struct atoll_run *run, const struct atoll_error *error)
{
    struct run_post *p = (struct run_post *)run;

    p->call->on_gone = NULL;
    if (error) {
        atoll_api_fail(p->call, error);
    } else {
        if (run->keep && run->leased)
            atoll_api_lease(p->call, run->sandbox_id);
        atoll_api_reply(p->call, 200, &p->out);
    }
    atoll_buf_done(&p->reply);
    atoll_run_done(run);
    free(p);
}

static const struct atoll_run_ops ops = {.started = started, .finished = finished};

void atoll_rest_run(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct run_post *p = atoll_api_alloc(sizeof(*p));

    p->call = call;
    atoll_api_reply_init(&p->reply, &p->out);
    call->state = p;
    call->on_gone = client_gone;
    atoll_run_begin(&p->run, &ops, call->engine, call->caller.tenant, bytes, n);
}
