#pragma once
#include "provider/remote/provider.h"
#include "provider/remote/relay.h"

/*
 * start_agent() and dial_agent() of providers whose agent is reached through a relay (relay.h): the relay is
 * started with the agent, and again whenever it does not answer.
 * Blocking. Thread: any worker.
 */
struct atoll_remote_relayed {
    struct atoll_remote_installer installer; /* with http */
    struct atoll_remote_sandbox *record;
    struct atoll_remote_relay *relay; /* in the record; port 0: not known yet */
    /* Opens a stream through the service; arg: that of the installer. */
    int (*open)(struct atoll_remote_provider *p, const struct atoll_sync_call *call, void *arg,
                const struct atoll_remote_sandbox *record, const struct atoll_remote_relay *relay,
                int *ret_fd, struct atoll_error *err);
};

int atoll_remote_relayed_start(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                               const struct atoll_remote_relayed *r,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_remote_relayed_dial(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                              const struct atoll_remote_relayed *r, int *ret_fd,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
