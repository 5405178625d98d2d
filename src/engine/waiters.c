#include <stdlib.h>
#include "base/memory.h"
#include "engine/engine_internal.h"

struct waiter {
    struct atoll_list node;
    atoll_done_fn *done;
    void *arg;
};

void atoll_done_ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

void atoll_waiters_add(struct atoll_list *list, atoll_done_fn *done, void *arg)
{
    struct waiter *w = atoll_alloc(sizeof(*w));

    *w = (struct waiter){.done = done, .arg = arg};
    atoll_list_push_back(list, &w->node);
}

void atoll_waiters_drop(struct atoll_list *list)
{
    ATOLL_LIST_FOREACH (list, node) {
        atoll_list_remove(node);
        free(ATOLL_CONTAINER_OF(node, struct waiter, node));
    }
}

void atoll_waiters_tell(struct atoll_list *list, const struct atoll_error *error)
{
    struct atoll_list now;

    /* A callback may add itself again: it is called next time. */
    atoll_list_init(&now);
    ATOLL_LIST_FOREACH (list, node) {
        atoll_list_remove(node);
        atoll_list_push_back(&now, node);
    }
    ATOLL_LIST_FOREACH (&now, node) {
        struct waiter *w = ATOLL_CONTAINER_OF(node, struct waiter, node);
        w->done(w->arg, error);
        free(w);
    }
}
