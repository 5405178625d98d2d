#include "spawn/spare.h"

#include <errno.h>
#include "base/switches.h"
#include "sys/ns.h"

#define RANGE_SIZE 65536u

struct atoll_spare {
    uint32_t last;    /* range that was taken last; 0: none yet */
    uint32_t outside; /* range of the two below */
    int userns;       /* ATOLL_NO_FD: none ready */
    int netns;        /* the same */
};

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err)
{
    *ret = calloc(1, sizeof(**ret));
    if (!*ret)
        return atoll_fail_errno(err, ENOMEM, "spare");
    (*ret)->userns = (*ret)->netns = ATOLL_NO_FD;
    return 0;
}

/* Namespaces are owned by the sandbox's own first id, so that per-user kernel quotas are charged to
 * the sandbox and not to root. See docs/adr/0017-quotas-are-charged-to-the-sandbox.md. */
static uid_t owner(uint32_t outside)
{
    return atoll_weakened("quota_owner") ? 0 : outside;
}

static int make_userns(uint32_t outside)
{
    return atoll_sys_make_userns(owner(outside), 0, outside, RANGE_SIZE);
}

static void drop(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = ATOLL_NO_FD;
}

int atoll_spare_take(struct atoll_spare *spare, uint32_t outside, int *ret_netns)
{
    *ret_netns = ATOLL_NO_FD;
    spare->last = outside;
    if (spare->outside != outside)
        return make_userns(outside);
    *ret_netns = ATOLL_TAKE_FD(spare->netns);
    return spare->userns >= 0 ? ATOLL_TAKE_FD(spare->userns) : make_userns(outside);
}

void atoll_spare_make(struct atoll_spare *spare)
{
    uint32_t next = spare->last + RANGE_SIZE;

    if (spare->last == 0 || (spare->userns >= 0 && spare->outside == next))
        return;
    drop(&spare->userns);
    drop(&spare->netns);
    spare->outside = next;
    spare->userns = make_userns(next);
    spare->netns = atoll_sys_make_netns(owner(next));
}
