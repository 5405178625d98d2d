#include "api/rest/task/end_wait.h"
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"

struct waiting {
    struct atoll_api_call *call;
    const struct atoll_end_source *source;
    void *watch; /* owned */
    char id[ATOLL_ID_LEN + 1];
};

static void waiting_free(struct waiting *w)
{
    w->source->unwatch(w->watch);
    free(w);
}

static void waiter_gone(struct atoll_api_call *call)
{
    waiting_free(call->state);
    atoll_api_drop(call);
}

static void may_have_ended(void *arg)
{
    struct waiting *w = arg;
    struct atoll_api_call *call = w->call;
    const struct atoll_end_source *source = w->source;
    char id[ATOLL_ID_LEN + 1];

    if (!source->ended(call, w->id))
        return;
    memcpy(id, w->id, sizeof(id));
    call->on_gone = NULL;
    waiting_free(w);
    source->reply(call, 200, id);
}

void atoll_rest_wait_end(struct atoll_api_call *call, const struct atoll_end_source *source,
                         const char *id)
{
    struct waiting *w = atoll_api_alloc(sizeof(*w));
    struct atoll_error error;

    w->call = call;
    w->source = source;
    (void)snprintf(w->id, sizeof(w->id), "%s", id);
    if (source->watch(call, id, may_have_ended, w, &w->watch, &error) < 0) {
        free(w);
        atoll_api_fail(call, &error);
        return;
    }
    call->state = w;
    call->on_gone = waiter_gone;
    may_have_ended(w);
}
