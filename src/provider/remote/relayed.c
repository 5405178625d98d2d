#include "provider/remote/relayed.h"

#include <errno.h>

int atoll_remote_relayed_start(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                               const struct atoll_remote_relayed *of, struct atoll_error *err)
{
    struct atoll_remote_exit exit;
    int r = atoll_remote_agent_start(p->agent, call, &of->installer, &exit, err);

    if (r == 0 && !atoll_remote_relay_read(exit.text, of->relay))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                       "start the agent: its relay does not say where it listens");
    return r < 0 ? r
                 : atoll_remote_leases_put(p->leases, of->record->handle, of->record, false, true,
                                           err);
}

/* A relay that is not known, or that does not answer, is started: another one has another token. */
int atoll_remote_relayed_dial(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                              const struct atoll_remote_relayed *of, int *ret_fd,
                              struct atoll_error *err)
{
    void *arg = of->installer.arg;
    struct atoll_error failure;
    int r = 0;

    if (of->relay->port != 0) {
        r = of->open(p, call, arg, of->record, of->relay, ret_fd, err);
        if (r == 0 || err->kind == ATOLL_ERR_ABORTED || err->kind == ATOLL_ERR_DEADLINE_EXCEEDED ||
            atoll_remote_leases_is_silent(p->leases, of->record->handle))
            return r;
    }
    if (atoll_remote_relay_start(call, &of->installer, of->relay, &failure) < 0) {
        if (r == 0)
            *err = failure;
        return -failure.errnum;
    }
    r = atoll_remote_leases_put(p->leases, of->record->handle, of->record, false, false, err);
    return r < 0 ? r : of->open(p, call, arg, of->record, of->relay, ret_fd, err);
}
