/*
 * Other limits of memory and CPU for a sandbox that exists. They are promised when the provider is asked,
 * and taken back if it fails. A sandbox that is stopped gets them when it starts.
 */
#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "engine/engine_internal.h"

struct resizing {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_limits was;
    atoll_done_fn *done;
    void *arg;
};

static void apply(struct atoll_sandbox *s, const struct atoll_limits *limits)
{
    s->spec.limits.memory_bytes = limits->memory_bytes;
    s->spec.limits.cpu_millis = limits->cpu_millis;
    atoll_tenant_recount(s);
}

static void on_set(void *arg, const struct atoll_error *error)
{
    struct resizing *r = arg;
    struct atoll_sandbox *s = atoll_engine_find(r->engine, r->id);

    if (s) {
        s->resizing = false;
        if (error)
            apply(s, &r->was);
        atoll_persist_sandbox_later(s);
    }
    r->done(r->arg, error);
    free(r);
}

static int check(const struct atoll_sandbox *s, const struct atoll_limits *limits,
                 struct atoll_error *err)
{
    enum atoll_sandbox_state state = atoll_sandbox_state(s);
    bool runs = state == ATOLL_SANDBOX_RUNNING;

    if (!runs && state != ATOLL_SANDBOX_STOPPED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "limits can be changed while a sandbox runs or is stopped");
    if (s->resizing)
        return atoll_fail(err, ATOLL_ERR_ABORTED, EBUSY,
                          "limits of this sandbox are being changed");
    if (runs && limits->memory_bytes < s->spec.limits.memory_bytes)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "memory can be taken away only while the sandbox is stopped");
    if (runs && !s->provider->ops->caps(s->provider)->set_limits)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                          "provider %s cannot change limits of running sandboxes",
                          s->provider->ops->name);
    return atoll_tenant_admit_change(s, limits, err);
}

void atoll_engine_resize(struct atoll_engine *engine, const char *id,
                         const struct atoll_limits *want, atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    struct atoll_limits limits;
    struct atoll_error err;
    struct resizing *r;

    if (!s) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
        done(arg, &err);
        return;
    }
    limits = s->spec.limits;
    limits.memory_bytes = want->memory_bytes ? want->memory_bytes : limits.memory_bytes;
    limits.cpu_millis = want->cpu_millis ? want->cpu_millis : limits.cpu_millis;
    if (check(s, &limits, &err) < 0) {
        done(arg, &err);
        return;
    }
    r = atoll_alloc(sizeof(*r));
    *r = (struct resizing){.engine = engine, .was = s->spec.limits, .done = done, .arg = arg};
    memcpy(r->id, s->spec.id, sizeof(r->id));
    apply(s, &limits);
    s->resizing = true;
    if (atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING)
        s->provider->ops->set_limits(s->provider, &s->spec, &s->spec.limits, on_set, r);
    else
        on_set(r, NULL);
}
