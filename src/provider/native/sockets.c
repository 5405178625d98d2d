#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/memory.h"
#include "provider/native/native_internal.h"

/* The sockets of a sandbox's network namespace, which atoll-spawn keeps. */

/* A socket keeps its namespace alive: those of a sandbox that is destroyed are dropped. */
static void drop_early(struct atoll_native *n, size_t at)
{
    struct atoll_native_early *e = &n->early[at];

    if (e->tcp_fd >= 0)
        (void)close(e->tcp_fd);
    if (e->dns_fd >= 0)
        (void)close(e->dns_fd);
    n->early_count--;
    memmove(e, e + 1, (n->early_count - at) * sizeof(*e));
}

static struct atoll_native_early *find_early(struct atoll_native *n, const char *id)
{
    for (size_t i = 0; i < n->early_count; i++)
        if (strcmp(n->early[i].id, id) == 0)
            return &n->early[i];
    return NULL;
}

void atoll_native_keep_sockets(struct atoll_native *n, const char *id, struct atoll_frame *frame)
{
    struct atoll_native_early *e;

    if (frame->nfds != 2)
        return;
    atoll_native_drop_sockets(n, id);
    if (n->early_count == ATOLL_NATIVE_EARLY_MAX)
        drop_early(n, 0);
    e = &n->early[n->early_count++];
    (void)snprintf(e->id, sizeof(e->id), "%s", id);
    e->tcp_fd = ATOLL_TAKE_FD(frame->fds[0]);
    e->dns_fd = ATOLL_TAKE_FD(frame->fds[1]);
}

void atoll_native_drop_sockets(struct atoll_native *n, const char *id)
{
    struct atoll_native_early *e = find_early(n, id);

    if (e)
        drop_early(n, (size_t)(e - n->early));
}

void atoll_native_drop_all_sockets(struct atoll_native *n)
{
    while (n->early_count > 0)
        drop_early(n, 0);
}

struct asking {
    atoll_provider_sockets_fn *done; /* NULL: told */
    void *arg;
    struct atoll_timer silence;
};

static void too_late(void *arg)
{
    struct asking *a = arg;
    struct atoll_error err;

    (void)atoll_native_silent(&err, ATOLL_NATIVE_LIST_MS);
    ATOLL_TAKE_PTR(a->done)(a->arg, ATOLL_NO_FD, ATOLL_NO_FD, &err);
}

static void on_sockets(void *arg, const struct atoll_reply *answer)
{
    const struct atoll_error *error = answer->error;
    struct asking *a = arg;
    struct atoll_error err;

    atoll_timer_cancel(&a->silence);
    if (!error && answer->frame->nfds != 2) {
        (void)atoll_fail(&err, ATOLL_ERR_INTERNAL, EBADMSG, "atoll-spawn sent %zu sockets",
                         answer->frame->nfds);
        error = &err;
    }
    if (a->done && error)
        a->done(a->arg, ATOLL_NO_FD, ATOLL_NO_FD, error);
    else if (a->done)
        a->done(a->arg, ATOLL_TAKE_FD(answer->frame->fds[0]), ATOLL_TAKE_FD(answer->frame->fds[1]),
                NULL);
    free(a);
}

void atoll_native_sockets(struct atoll_provider *p, const struct atoll_spec *spec,
                          atoll_provider_sockets_fn *done, void *arg)
{
    struct atoll_native *n = atoll_native_of(p);
    struct atoll_native_early *early = find_early(n, spec->id);
    struct atoll_sm_ref ref = {.id = spec->id};
    struct atoll_error err;
    struct asking *a;
    int r;

    if (early) {
        int tcp_fd = ATOLL_TAKE_FD(early->tcp_fd), dns_fd = ATOLL_TAKE_FD(early->dns_fd);

        drop_early(n, (size_t)(early - n->early));
        done(arg, tcp_fd, dns_fd, NULL);
        return;
    }
    a = atoll_alloc(sizeof(*a));
    *a = (struct asking){.done = done, .arg = arg};
    r = n->rpc ? atoll_rpc_ask(n->rpc, ATOLL_SPAWN_SOCKETS, &atoll_sm_ref_desc, &ref, on_sockets, a,
                               &err)
               : atoll_native_absent(n, &err);
    if (r < 0) {
        free(a);
        done(arg, ATOLL_NO_FD, ATOLL_NO_FD, &err);
        return;
    }
    atoll_timer_set(&a->silence, n->loop, ATOLL_NATIVE_LIST_MS, too_late, a);
}
