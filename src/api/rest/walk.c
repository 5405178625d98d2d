#include "api/rest/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include "api/rest/rest_internal.h"

struct atoll_rest_walk {
    struct atoll_api_call *call;
    int64_t after_unix_ms;
    char after_id[ATOLL_ID_LEN + 1];
    size_t step;
    atoll_rest_walk_fn *each;
    void (*done)(void *arg);
    void *arg;
    struct atoll_timer timer;
};

static void go_on(void *arg)
{
    struct atoll_rest_walk *w = arg;
    const char *tenant = atoll_api_list_tenant(w->call);

    for (size_t i = 0; i < w->step; i++) {
        struct atoll_sandbox *sandbox =
            atoll_engine_after(w->call->engine, tenant, w->after_unix_ms, w->after_id);
        struct atoll_sandbox_view view;

        if (sandbox) {
            atoll_sandbox_get(sandbox, &view);
            w->after_unix_ms = view.created_unix_ms;
            (void)snprintf(w->after_id, sizeof(w->after_id), "%s", view.id);
        }
        if (!sandbox || !w->each(w->arg, sandbox)) {
            w->done(w->arg);
            free(w);
            return;
        }
    }
    atoll_timer_set(&w->timer, atoll_http_loop(w->call->req), 0, go_on, w);
}

void atoll_rest_walk(struct atoll_api_call *call, int64_t after_unix_ms, const char *after_id,
                     size_t step, atoll_rest_walk_fn *each, void (*done)(void *arg), void *arg)
{
    struct atoll_rest_walk *w = atoll_api_alloc(sizeof(*w));

    w->call = call;
    w->after_unix_ms = after_unix_ms;
    (void)snprintf(w->after_id, sizeof(w->after_id), "%s", after_id);
    w->step = step;
    w->each = each;
    w->done = done;
    w->arg = arg;
    go_on(w);
}
