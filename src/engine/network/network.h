#pragma once
#include "base/list.h"
#include "engine/engine.h"
#include "provider/rpc.h"

/*
 * The network of sandboxes, on the engine's side. atoll-egress (src/egress/) serves the connections of
 * every sandbox whose provider has sockets(); the engine gives it these sockets and the policy.
 * link.c has the connection to atoll-egress, attach.c what is sent over it for each sandbox.
 *
 * Sandboxes do not depend on the connection: while atoll-egress is absent they run without network, and
 * when it answers again it gets all of them.
 * Thread: the loop's.
 */
struct atoll_attachment;

struct atoll_networks {
    struct atoll_engine *engine;
    /* link.c */
    char *program;            /* atoll-egress; owned. NULL: this engine serves no network */
    pid_t child;              /* the atoll-egress that this daemon started; 0: another daemon did */
    struct atoll_rpc *rpc;    /* owned; NULL: not connected */
    bool greeted;             /* it has answered HELLO: requests may be sent */
    uint32_t worker;          /* pid of the worker that answered last; 0: none yet */
    uint64_t restarts;        /* number of workers that were lost */
    struct atoll_timer again; /* next attempt, or end of the wait for an answer */
    int64_t delay_ms;
    /* attach.c */
    bool recovered; /* the sandboxes of an earlier daemon are known */
    bool syncing;   /* SYNCED is to be sent once the queue is empty */
    bool pumping;
    unsigned round;          /* number of times that all were queued */
    struct atoll_list queue; /* of struct atoll_attachment.node: to be put */
    unsigned asking;         /* attachments with a request in progress */
    uint64_t serial;         /* of the last attachment */
};

/* link.c */

/* Starts atoll-egress unless one answers, and connects to it, without waiting. program NULL: no
 * network. */
int atoll_network_open(struct atoll_engine *engine, const char *program,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_networks *atoll_network_free(struct atoll_networks *network);
/* Ends atoll-egress, after the last sandbox is gone. */
void atoll_network_end(struct atoll_networks *network);
/* Sends HELLO again: the processes on which the sandboxes depend are others now. */
void atoll_network_greet(struct atoll_networks *network);
/* Why sandboxes have no network at present; NULL: they have. */
const char *atoll_network_problem(const struct atoll_networks *network);

/* attach.c */

/* Whether atoll-egress serves the network of this sandbox. */
bool atoll_network_serves(const struct atoll_sandbox *sandbox);
/* Gives the sandbox and its policy to atoll-egress, also again after a change of the policy. done: when
 * the policy holds; at once if the sandbox needs no network. UNAVAILABLE if atoll-egress does not answer
 * for some seconds: it gets the sandbox when it does. done NULL: no answer is needed. */
void atoll_network_attach(struct atoll_sandbox *sandbox, atoll_done_fn *done, void *arg);
/* Ends its connections. Call before its processes are ended. */
void atoll_network_detach(struct atoll_sandbox *sandbox);
/* Frees the record only: its connections continue. */
struct atoll_attachment *atoll_attachment_free(struct atoll_attachment *attachment);
/* Call once, when the sandboxes of an earlier daemon are known. */
void atoll_network_recovered(struct atoll_networks *network);
/* For link.c: atoll-egress has answered HELLO; it is gone. */
void atoll_network_sync(struct atoll_networks *network);
void atoll_network_lost(struct atoll_networks *network);
