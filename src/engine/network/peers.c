#include <errno.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "engine/network/network.h"

/*
 * Connections between sandboxes of one network: atoll-egress has the client's end, the agent of the other
 * sandbox makes the connection to the server there, and its descriptor is passed on.
 */

struct peer {
    struct atoll_engine *engine;
    uint64_t number;
    char id[ATOLL_ID_LEN + 1];
};

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

static void tell(struct atoll_networks *n, uint64_t number, int fd, int errnum)
{
    const struct atoll_em_dialed dialed = {.number = number, .errnum = errnum};
    struct atoll_error err;

    /* If it is gone, so is the client's end. */
    if (n->rpc)
        (void)!atoll_rpc_ask_with(n->rpc, ATOLL_EGRESS_DIALED, &atoll_em_dialed_desc, &dialed, &fd,
                                  fd >= 0 ? 1 : 0, ignore, NULL, &err);
}

static void on_connected(void *arg, int fd, const struct atoll_error *error)
{
    struct peer *peer = arg;

    tell(peer->engine->network, peer->number, fd,
         error && error->errnum > 0 ? error->errnum : EHOSTUNREACH);
    if (fd >= 0)
        atoll_engine_discard(peer->engine, peer->id, fd);
    free(peer);
}

void atoll_network_dial(struct atoll_networks *n, const struct atoll_em_dial *dial)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    if (!peer)
        abort(); /* a small fixed object: the daemon is crash-only */
    *peer = (struct peer){.engine = n->engine, .number = dial->number};
    if (strlen(dial->id) != ATOLL_ID_LEN || dial->port == 0 || dial->port > UINT16_MAX) {
        tell(n, dial->number, ATOLL_NO_FD, EHOSTUNREACH);
        free(peer);
        return;
    }
    memcpy(peer->id, dial->id, sizeof(peer->id));
    atoll_engine_connect(n->engine, peer->id, (uint16_t)dial->port, on_connected, peer);
}
