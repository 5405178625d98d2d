#include <errno.h>
#include <stdio.h>
#include "base/memory.h"
#include "provider/native/native_internal.h"

/*
 * Layers from the disks of sandboxes: of builders, and of sandboxes that go on.
 */

struct making {
    struct atoll_native *n;
    atoll_provider_layer_fn *done; /* NULL: told */
    void *arg;
    char layer[ATOLL_LAYER_NAME_MAX + 1];
    struct atoll_timer silence;
};

static void too_late(void *arg)
{
    struct making *m = arg;
    struct atoll_error err;

    (void)atoll_native_silent(&err, ATOLL_NATIVE_LAYER_MS);
    ATOLL_TAKE_PTR(m->done)(m->arg, NULL, &err);
}

static void on_dropped(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error; /* the next daemon finds a layer that no version names, and drops it */
}

static void on_made(void *arg, const struct atoll_reply *answer)
{
    struct making *m = arg;
    struct atoll_provider_layer made = {0};
    struct atoll_sm_layer msg;
    struct atoll_error err;
    const struct atoll_error *error = answer->error;

    /* An atoll-spawn of an earlier version answers without figures. */
    if (!error && answer->frame->len > 0) {
        if (atoll_msg_decode(&atoll_sm_layer_desc, answer->frame->payload, answer->frame->len, &msg,
                             &err) < 0)
            error = &err;
        else
            made = (struct atoll_provider_layer){.bytes = msg.bytes,
                                                 .files = msg.files,
                                                 .frozen_us = msg.frozen_us,
                                                 .flush_us = msg.flush_us};
    }
    atoll_timer_cancel(&m->silence);
    if (m->done)
        m->done(m->arg, error ? NULL : &made, error);
    else if (!error) /* too late: no version names it */
        atoll_native_drop_layer(&m->n->base, m->layer, on_dropped, NULL);
    free(m);
}

static void ask(struct atoll_native *n, uint16_t type, const struct atoll_msg_desc *desc,
                const void *msg, const char *layer, atoll_provider_layer_fn *done, void *arg)
{
    struct making *m = atoll_alloc(sizeof(*m));
    struct atoll_error err;
    int r;

    *m = (struct making){.n = n, .done = done, .arg = arg};
    (void)snprintf(m->layer, sizeof(m->layer), "%s", layer);
    r = n->rpc ? atoll_rpc_ask(n->rpc, type, desc, msg, on_made, m, &err)
               : atoll_native_absent(n, &err);
    if (r < 0) {
        free(m);
        done(arg, NULL, &err);
        return;
    }
    atoll_timer_set(&m->silence, n->loop, ATOLL_NATIVE_LAYER_MS, too_late, m);
}

void atoll_native_keep_layer(struct atoll_provider *p, const struct atoll_spec *spec,
                             const char *path, const char *layer, atoll_provider_layer_fn *done,
                             void *arg)
{
    struct atoll_sm_commit msg = {spec->id, path, layer};
    ask(atoll_native_of(p), ATOLL_SPAWN_COMMIT, &atoll_sm_commit_desc, &msg, layer, done, arg);
}

void atoll_native_snapshot_layer(struct atoll_provider *p, const struct atoll_spec *spec,
                                 const char *layer, atoll_provider_layer_fn *done, void *arg)
{
    struct atoll_native *n = atoll_native_of(p);
    struct atoll_sm_snapshot msg = {
        .id = spec->id,
        .layer = layer,
        .outside = n->plan_host.root ? spec->outside_id : 0,
        .layer_base = n->plan_host.root ? ATOLL_LAYER_BASE : 0,
        /* As the plan mounted it: see sandbox/plan_root.c. */
        .userxattr =
            !n->plan_host.root || (spec->template_kind == ATOLL_TEMPLATE_ROOTFS && !*spec->layer),
    };

    ask(n, ATOLL_SPAWN_SNAPSHOT, &atoll_sm_snapshot_desc, &msg, layer, done, arg);
}
