#include "api/kit/exec_kill.h"

#include <signal.h>
#include <stdlib.h>

#define KILL_MS 2000

struct killing {
    struct atoll_api_call *call;
    struct atoll_reader *reader; /* owned; for the end only */
    struct atoll_timer deadline;
    bool signaled, ended;
    atoll_done_fn *done;
};

static void killing_free(struct killing *k)
{
    (void)atoll_reader_close(k->reader);
    atoll_timer_cancel(&k->deadline);
    free(k);
}

static void killed(void *arg)
{
    struct killing *k = arg;
    struct atoll_api_call *call = k->call;
    atoll_done_fn *done = k->done;

    killing_free(k);
    call->on_gone = NULL;
    done(call, NULL);
}

static void look_for_end(void *arg)
{
    struct killing *k = arg;
    struct atoll_reader_item item = {0};
    int r = 1;

    while (!k->ended && r > 0) {
        r = atoll_reader_next(k->reader, &item);
        k->ended = r < 0 || (r > 0 && item.kind == ATOLL_READ_END);
    }
    if (k->ended && k->signaled)
        killed(k);
}

static void client_gone(struct atoll_api_call *call)
{
    killing_free(call->state);
    atoll_api_drop(call);
}

static void on_signaled(void *arg, const struct atoll_error *error)
{
    struct killing *k = arg;
    struct atoll_api_call *call = k->call;
    atoll_done_fn *done = k->done;

    if (error || !call->req) {
        killing_free(k);
        done(call, error);
        return;
    }
    k->signaled = true;
    call->state = k;
    call->on_gone = client_gone;
    atoll_timer_set(&k->deadline, atoll_http_loop(call->req), KILL_MS, killed, k);
    look_for_end(k);
}

void atoll_exec_kill(struct atoll_api_call *call, struct atoll_exec *exec, bool tree,
                     const char *who, atoll_done_fn *done)
{
    struct killing *k = atoll_api_alloc(sizeof(*k));
    struct atoll_error error;

    k->call = call;
    k->done = done;
    if (atoll_reader_open(exec, ATOLL_READ_FROM_END, ATOLL_READ_FROM_END, look_for_end, k,
                          &k->reader, &error) < 0) {
        free(k);
        done(call, &error);
        return;
    }
    atoll_exec_signal(exec, SIGKILL, tree, who, on_signaled, k);
}
