#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "base/switches.h"
#include "base/text.h"
#include "spawn/child.h"
#include "spawn/sandbox_internal.h"
#include "sys/ns.h"

/*
 * Frees the memory of a frozen sandbox. Writing to the kernel's file takes as long as the kernel
 * needs to write pages to swap, so a process does it, and is killed when its time is over: the
 * kernel stops then, and what was freed stays free. Nothing is killed for lack of memory.
 */

#define RECLAIM_MS 5000

struct reclaim {
    struct sandbox *sandbox;
    uint32_t request;
    pid_t pid;
    int pidfd;
    struct atoll_watch watch;
    struct atoll_timer limit;
};

struct work {
    const struct atoll_cgroups *cgroups;
    const char *id;
};

static int do_work(const void *arg)
{
    const struct work *w = arg;

    return atoll_cgroup_reclaim(w->cgroups, w->id);
}

static void finish(struct reclaim *r, const struct atoll_error *error)
{
    struct atoll_sandboxes *all = r->sandbox->all;

    atoll_watch_close(&r->watch);
    atoll_timer_cancel(&r->limit);
    if (r->pidfd >= 0)
        (void)close(r->pidfd);
    r->sandbox->reclaim = NULL;
    if (r->request)
        all->events->frozen(all->arg, r->request, error);
    free(r);
}

static int reap(struct reclaim *r)
{
    int status = 0;

    while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void worker_gone(void *arg, uint32_t events)
{
    struct reclaim *r = arg;
    int status = reap(r);
    struct atoll_error err;

    (void)events;
    /* Killed: its time was over. */
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, WEXITSTATUS(status),
                         "the kernel did not free the memory of the sandbox");
        finish(r, &err);
    } else {
        finish(r, NULL);
    }
}

static void time_is_over(void *arg)
{
    struct reclaim *r = arg;

    (void)kill(r->pid, SIGKILL); /* worker_gone() follows */
}

void atoll_sandbox_end_reclaim(struct sandbox *s)
{
    struct atoll_error over;

    if (!s->reclaim)
        return;
    (void)kill(s->reclaim->pid, SIGKILL);
    (void)reap(s->reclaim);
    (void)atoll_fail(&over, ATOLL_ERR_ABORTED, ECANCELED, "sandbox %s goes on", s->id);
    finish(s->reclaim, &over);
}

void atoll_sandbox_forget_reclaim(struct sandbox *s)
{
    if (s->reclaim)
        s->reclaim->request = 0;
}

static int start(struct reclaim *r)
{
    const struct atoll_spawn_host *host = r->sandbox->all->host;
    const struct work work = {&host->cgroups, r->sandbox->id};
    const int keep[] = {host->cgroups.parent_fd[host->cgroups.version == 2 ? 0 : ATOLL_CG_MEMORY]};
    int n = -atoll_fault("spawn.reclaim");

    if (n == 0)
        n = r->pid = atoll_child_work(host, &r->sandbox->ids, do_work, &work, keep, 1);
    if (n > 0)
        n = r->pidfd = atoll_sys_pidfd_open(r->pid);
    if (n >= 0)
        n = atoll_watch_open(&r->watch, r->sandbox->all->loop, r->pidfd, EPOLLIN, worker_gone, r);
    if (n >= 0)
        atoll_timer_set(&r->limit, r->sandbox->all->loop, RECLAIM_MS, time_is_over, r);
    return n;
}

int atoll_sandboxes_reclaim(struct atoll_sandboxes *all, const char *id, uint32_t request,
                            struct atoll_error *err)
{
    struct sandbox *s = atoll_text_is_id(id) ? atoll_map_get(&all->by_id, id) : NULL;
    struct reclaim *r;
    int n;

    if (!s || s->state != SANDBOX_RUNNING || !s->frozen || s->freeze_request || s->reclaim)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY, "sandbox %s is not paused",
                          id);
    if (!atoll_cgroups_can_reclaim(&all->host->cgroups))
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "this host has no memory controller");
    r = calloc(1, sizeof(*r));
    if (!r)
        return atoll_fail_errno(err, ENOMEM, "free memory");
    *r = (struct reclaim){.sandbox = s, .request = request, .pidfd = ATOLL_NO_FD};
    n = start(r);
    if (n >= 0) {
        s->reclaimed = true;
        s->reclaim = r;
        return 0;
    }
    if (r->pid > 0) {
        (void)kill(r->pid, SIGKILL);
        (void)reap(r);
    }
    if (r->pidfd >= 0)
        (void)close(r->pidfd);
    free(r);
    return atoll_fail_errno(err, -n, "free memory");
}
