#include <errno.h>
#include "base/text.h"
#include "spawn/sandbox_internal.h"

/*
 * Freezing and thawing sandboxes. The kernel freezes asynchronously: a process in an
 * uninterruptible wait stops only when that is over. A timer polls until all processes are frozen,
 * so the loop never blocks.
 */

#define CHECK_MS 2
#define CHECKS_MAX 5000 /* ten seconds */

static void report(struct sandbox *s, const struct atoll_error *error)
{
    uint32_t request = s->freeze_request;

    s->freeze_request = 0;
    atoll_timer_cancel(&s->freezing);
    if (request)
        s->all->events->frozen(s->all->arg, request, error);
}

void atoll_sandbox_thaw(struct sandbox *s)
{
    struct atoll_error over;

    if (!s->frozen)
        return;
    s->frozen = false;
    atoll_sandbox_end_reclaim(s);
    if (s->reclaimed)
        atoll_cgroup_end_reclaim(&s->all->host->cgroups, s->id);
    s->reclaimed = false;
    (void)!atoll_cgroup_freeze(&s->all->host->cgroups, s->id, false);
    (void)atoll_fail(&over, ATOLL_ERR_ABORTED, ECANCELED, "the pause of sandbox %s was cancelled",
                     s->id);
    report(s, &over);
}

static void check_frozen(void *arg)
{
    struct sandbox *s = arg;
    struct atoll_error err;
    int r = atoll_cgroup_is_frozen(&s->all->host->cgroups, s->id);

    if (r > 0) {
        report(s, NULL);
        return;
    }
    if (r == 0 && s->freeze_tries++ < CHECKS_MAX) {
        atoll_timer_set(&s->freezing, s->all->loop, CHECK_MS, check_frozen, s);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, r < 0 ? -r : ETIMEDOUT,
                     "some processes of sandbox %s cannot be frozen; try again", s->id);
    s->frozen = false;
    (void)!atoll_cgroup_freeze(&s->all->host->cgroups, s->id, false);
    report(s, &err);
}

static int begin(struct sandbox *s, bool frozen, struct atoll_error *err)
{
    int r = s ? atoll_cgroup_freeze(&s->all->host->cgroups, s->id, frozen) : -ENOENT;

    if (r == -EOPNOTSUPP)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, -r,
                          "this host has no cgroup freezer, so sandboxes cannot be paused");
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -r, "the sandbox is not running");
    s->frozen = frozen;
    return 0;
}

void atoll_sandboxes_freeze(struct atoll_sandboxes *all, const char *id, uint32_t request,
                            unsigned how)
{
    struct sandbox *s = atoll_text_is_id(id) ? atoll_map_get(&all->by_id, id) : NULL;
    bool frozen = how != ATOLL_FREEZE_THAW;
    struct atoll_error err;

    if (s && s->state != SANDBOX_RUNNING)
        s = NULL;
    if (s && atoll_snapshot_is_made(all, id)) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EBUSY,
                         "a snapshot of sandbox %s is being made; try again", id);
        all->events->frozen(all->arg, request, &err);
        return;
    }
    if (s && (how == ATOLL_FREEZE_SAVE || s->saved)) {
        atoll_sandbox_save(s, request, how);
        return;
    }
    if (s && !frozen)
        atoll_sandbox_thaw(s);
    if (begin(s, frozen, &err) < 0) {
        all->events->frozen(all->arg, request, &err);
        return;
    }
    if (!frozen) {
        all->events->frozen(all->arg, request, NULL);
        return;
    }
    s->freeze_request = request; /* an earlier one came from a previous daemon */
    s->freeze_tries = 0;
    check_frozen(s);
}
