#include "provider/by_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

/* State of one sandbox, from the list. */

struct inspecting {
    char id[ATOLL_ID_LEN + 1];
    bool found;
    struct atoll_provider_inspection inspection;
    atoll_provider_inspected_fn *done;
    void *arg;
};

static void match(void *arg, const char *id, const char *handle, bool alive)
{
    struct inspecting *l = arg;

    (void)handle;
    if (l->found || strcmp(id, l->id) != 0)
        return;
    l->found = true;
    l->inspection.state = alive ? ATOLL_INSPECT_ALIVE : ATOLL_INSPECT_EXITED;
}

static void on_inspected(void *arg, const struct atoll_error *error)
{
    struct inspecting *l = arg;

    if (l->inspection.state != ATOLL_INSPECT_ALIVE)
        (void)snprintf(l->inspection.cause, sizeof(l->inspection.cause), "%s",
                       l->found ? "its first process has ended"
                                : "its provider has no such sandbox");
    l->done(l->arg, error ? NULL : &l->inspection, error);
    free(l);
}

void atoll_inspect_by_list(struct atoll_provider *p, const struct atoll_spec *spec,
                           atoll_provider_inspected_fn *done, void *arg)
{
    struct inspecting *l = atoll_alloc(sizeof(*l));

    memcpy(l->id, spec->id, sizeof(l->id));
    l->inspection.state = ATOLL_INSPECT_GONE;
    l->done = done;
    l->arg = arg;
    p->ops->list(p, match, on_inspected, l);
}

/* Health: the provider answers. */

struct asking {
    atoll_provider_health_fn *done;
    void *arg;
};

static void ignore_one(void *arg, const char *id, const char *handle, bool alive)
{
    (void)arg;
    (void)id;
    (void)handle;
    (void)alive;
}

static void on_answered(void *arg, const struct atoll_error *error)
{
    struct asking *a = arg;

    a->done(a->arg, "", error);
    free(a);
}

void atoll_health_by_list(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct asking *a = atoll_alloc(sizeof(*a));

    *a = (struct asking){done, arg};
    p->ops->list(p, ignore_one, on_answered, a);
}
