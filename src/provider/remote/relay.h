#pragma once
#include "provider/remote/agent.h"
#include "provider/remote/pump.h"

/*
 * Streams to the agent through an HTTP proxy of the service to a port of the sandbox, where a relay of the
 * agent program listens (docs/agent-protocol.md). For services whose own processes have no streams that are
 * byte-exact and have back-pressure.
 */

/* Starts the relay if it does not run, by a program in the sandbox. UNAVAILABLE: the output of the program
 * is not that of a relay. */
int atoll_remote_relay_start(const struct atoll_sync_call *call,
                             const struct atoll_remote_installer *installer,
                             struct atoll_remote_relay *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* What the program printed: false if it is not the line of a relay. */
bool atoll_remote_relay_read(const char *printed, struct atoll_remote_relay *ret);

/* How the service reaches the relay. Borrowed. */
struct atoll_remote_relay_way {
    const char *handle;               /* of the sandbox */
    const char *url;                  /* of the relay's port, without a slash at its end */
    const struct curl_slist *headers; /* of all requests */
};
/* Opens a stream. Errors as atoll_remote_pump_open(). */
int atoll_remote_relay_dial(struct atoll_remote_pump *pump, const struct atoll_sync_call *call,
                            const struct atoll_remote_relay_way *way,
                            const struct atoll_remote_relay *relay, int *ret_fd,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
