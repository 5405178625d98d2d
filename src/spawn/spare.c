#include "spawn/spare.h"

#include <errno.h>
#include "base/switches.h"
#include "sys/ns.h"

#define RANGE_SIZE 65536u

struct atoll_spare {
    uint32_t last;                /* range that was taken last; 0: none yet */
    uint32_t layer_base;          /* that was asked for with it; 0: none */
    uint32_t outside;             /* range of those below */
    uint32_t layers_of;           /* layer_base of those below */
    struct atoll_spare_set ready; /* ATOLL_NO_FD: not ready */
};

static const struct atoll_spare_set none = {ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD};

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err)
{
    *ret = calloc(1, sizeof(**ret));
    if (!*ret)
        return atoll_fail_errno(err, ENOMEM, "spare");
    (*ret)->ready = none;
    return 0;
}

/* Namespaces are owned by the sandbox's own first id, so that per-user kernel quotas are charged to
 * the sandbox and not to root. See docs/adr/0017-quotas-are-charged-to-the-sandbox.md. */
static uid_t owner(uint32_t outside)
{
    return atoll_weakened("quota_owner") ? 0 : outside;
}

/* Maps the ids from `inside` on to the range. A mount of a disk also shows the files of the host's root,
 * which overlayfs makes in its work directory: without root in the map, such a mount is read-only. */
static int make_userns(uint32_t inside, uint32_t outside)
{
    return atoll_sys_make_userns(owner(outside), inside, outside, RANGE_SIZE, inside != 0);
}

static void drop(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = ATOLL_NO_FD;
}

static void drop_set(struct atoll_spare_set *set)
{
    drop(&set->userns);
    drop(&set->netns);
    drop(&set->layers);
}

/* Makes what is missing for a sandbox with this range. */
static int complete(struct atoll_spare_set *set, uint32_t outside, uint32_t layer_base)
{
    int r = 0;

    if (set->userns < 0)
        r = set->userns = make_userns(0, outside);
    if (r >= 0 && layer_base != 0 && set->layers < 0)
        r = set->layers = make_userns(layer_base, outside);
    if (r < 0)
        drop_set(set);
    return r < 0 ? r : 0;
}

int atoll_spare_take(struct atoll_spare *spare, uint32_t outside, uint32_t layer_base,
                     struct atoll_spare_set *ret)
{
    *ret = none;
    if (layer_base != 0 && layer_base == outside) /* a builder: its range is not in the order */
        return complete(ret, outside, 0);
    spare->last = outside;
    spare->layer_base = layer_base;
    if (spare->outside == outside) {
        *ret = spare->ready;
        spare->ready = none;
    }
    if (layer_base != spare->layers_of)
        drop(&ret->layers);
    return complete(ret, outside, layer_base);
}

void atoll_spare_make(struct atoll_spare *spare)
{
    uint32_t next = spare->last + RANGE_SIZE;

    if (spare->last == 0 || (spare->ready.userns >= 0 && spare->outside == next))
        return;
    drop_set(&spare->ready);
    spare->outside = next;
    spare->layers_of = spare->layer_base;
    if (complete(&spare->ready, next, spare->layer_base) == 0)
        spare->ready.netns = atoll_sys_make_netns(owner(next));
}
