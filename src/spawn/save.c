#include <errno.h>
#include <sys/socket.h>
#include "base/fd.h"
#include "spawn/runsc_keep.h"
#include "spawn/sandbox_internal.h"

/*
 * Saving sandboxes of gVisor to disk, and restoring them: requests to the first process of the
 * sandbox (runsc_keep.c), which does the work in the sandbox's namespaces.
 */

static void report(struct sandbox *s, const struct atoll_error *error)
{
    uint32_t request = s->save_request;

    s->save_request = 0;
    if (request)
        s->all->events->frozen(s->all->arg, request, error);
}

static void keeper_says(void *arg, uint32_t events)
{
    struct sandbox *s = arg;
    struct atoll_error err;
    char word = 0;
    ssize_t n = recv(s->keep_fd, &word, 1, MSG_DONTWAIT);

    (void)events;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n == 1 && (word == ATOLL_KEEP_SAVED || word == ATOLL_KEEP_RESTORED)) {
        s->saved = word == ATOLL_KEEP_SAVED;
        report(s, NULL);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, EIO,
                     "runsc could not do it, and the sandbox has ended");
    report(s, &err);
    if (n <= 0)
        atoll_watch_close(&s->keep_watch);
}

void atoll_sandbox_keep(struct sandbox *s, int fd)
{
    s->keep_fd = fd;
    if (atoll_watch_open(&s->keep_watch, s->all->loop, fd, EPOLLIN, keeper_says, s) < 0)
        atoll_sandbox_unkeep(s);
}

void atoll_sandbox_unkeep(struct sandbox *s)
{
    atoll_watch_close(&s->keep_watch);
    if (s->keep_fd >= 0)
        (void)close(ATOLL_TAKE_FD(s->keep_fd));
}

void atoll_sandbox_save(struct sandbox *s, uint32_t request, unsigned how)
{
    char word = how == ATOLL_FREEZE_THAW ? ATOLL_KEEP_RESTORE : ATOLL_KEEP_SAVE;
    struct atoll_error err;

    if (s->saved && how != ATOLL_FREEZE_THAW) { /* it is as still as can be */
        s->all->events->frozen(s->all->arg, request, NULL);
        return;
    }
    if (s->keep_fd < 0)
        (void)atoll_fail(&err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                         "the processes of this sandbox cannot be saved");
    else if (s->save_request || s->frozen)
        (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                         "sandbox %s is frozen, or being saved", s->id);
    else if (send(s->keep_fd, &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
        (void)atoll_fail_errno(&err, errno, "ask the keeper of runsc");
    else {
        s->save_request = request;
        return;
    }
    s->all->events->frozen(s->all->arg, request, &err);
}
