#include <errno.h>
#include "base/fd.h"
#include "base/memory.h"
#include "provider/native/native_internal.h"

/* The sockets of a sandbox's network namespace, which atoll-spawn keeps. */
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
    struct atoll_sm_ref ref = {.id = spec->id};
    struct asking *a = atoll_alloc(sizeof(*a));
    struct atoll_error err;
    int r;

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
