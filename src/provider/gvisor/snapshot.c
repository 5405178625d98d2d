#include "provider/gvisor/gvisor_internal.h"
#include "sandbox/plan_builder.h"

/*
 * Snapshots are made by atoll-spawn, as those of native sandboxes. gVisor writes through to the disk
 * (--overlay2=none, and the descriptors of files are the host's), so nothing has to be flushed inside.
 */

struct making {
    struct atoll_sm_layer made;
    int result;
    struct atoll_error *err;
};

static void on_made(void *arg, struct atoll_frame *frame)
{
    struct making *m = arg;

    m->result =
        atoll_msg_decode(&atoll_sm_layer_desc, frame->payload, frame->len, &m->made, m->err);
}

int atoll_gvisor_snapshot_layer(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                                const struct atoll_spec *spec, const char *layer,
                                struct atoll_provider_layer *ret, struct atoll_error *err)
{
    struct atoll_gvisor *g = ATOLL_CONTAINER_OF(p, struct atoll_gvisor, base);
    /* atoll-spawn knows the ids of the sandbox. */
    const struct atoll_sm_snapshot msg = {
        .id = spec->id,
        .layer = layer,
        .layer_base = ATOLL_LAYER_BASE,
        /* As the plan mounted it: see sandbox/plan_root.c. */
        .userxattr = spec->template_kind == ATOLL_TEMPLATE_ROOTFS && !*spec->layer,
    };
    struct making m = {.err = err};
    int r = atoll_gvisor_ask_apart(&g->link, call, ATOLL_SPAWN_SNAPSHOT, &atoll_sm_snapshot_desc,
                                   &msg, on_made, &m, err);

    if (r < 0 || m.result < 0)
        return r < 0 ? r : m.result;
    *ret = (struct atoll_provider_layer){.bytes = m.made.bytes,
                                         .files = m.made.files,
                                         .frozen_us = m.made.frozen_us,
                                         .flush_us = m.made.flush_us};
    return 0;
}
