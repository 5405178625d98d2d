#include "spawn/spare.h"

#include <errno.h>
#include "base/switches.h"
#include "sys/ns.h"

#define RANGE_SIZE 65536u

struct atoll_spare {
    uint32_t last;    /* range that was taken last; 0: none yet */
    uint32_t outside; /* range of fd */
    int fd;           /* ATOLL_NO_FD: none ready */
};

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err)
{
    *ret = calloc(1, sizeof(**ret));
    if (!*ret)
        return atoll_fail_errno(err, ENOMEM, "spare");
    (*ret)->fd = ATOLL_NO_FD;
    return 0;
}

/* The namespace is owned by its own first id, so that per-user kernel quotas are charged to the
 * sandbox and not to root. See docs/adr/0017-quotas-are-charged-to-the-sandbox.md. */
static int make(uint32_t outside)
{
    return atoll_sys_make_userns(atoll_weakened("quota_owner") ? 0 : outside, 0, outside,
                                 RANGE_SIZE);
}

int atoll_spare_take(struct atoll_spare *spare, uint32_t outside)
{
    spare->last = outside;
    if (spare->fd >= 0 && spare->outside == outside)
        return ATOLL_TAKE_FD(spare->fd);
    return make(outside);
}

void atoll_spare_make(struct atoll_spare *spare)
{
    uint32_t next = spare->last + RANGE_SIZE;

    if (spare->last == 0 || (spare->fd >= 0 && spare->outside == next))
        return;
    if (spare->fd >= 0)
        (void)close(ATOLL_TAKE_FD(spare->fd));
    spare->outside = next;
    spare->fd = make(next);
}
