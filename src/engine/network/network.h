#pragma once
#include "base/list.h"
#include "base/map.h"
#include "engine/engine.h"
#include "engine/network/connections.h"
#include "proto/egress_proto.h"
#include "provider/rpc.h"

/*
 * The network of sandboxes, on the engine's side. atoll-egress (src/egress/) serves the connections of
 * every sandbox whose provider has sockets(); the engine gives it these sockets and the policy.
 * link.c has the connection to atoll-egress, attach.c what is sent over it for each sandbox, secrets_send.c
 * what is sent for each tenant, peers.c connections between sandboxes of one network, journal.c what comes back: the connections of sandboxes.
 *
 * Sandboxes do not depend on the connection: while atoll-egress is absent they run without network, and
 * when it answers again it gets all of them.
 * Thread: the loop's.
 */

/* The open journal of a sandbox. */
struct atoll_connection_log {
    int fd;                      /* ATOLL_NO_FD until the first line */
    uint64_t line;               /* number of the last line */
    size_t bytes;                /* size of the file */
    struct atoll_list followers; /* of struct atoll_connections_follower.node */
};

/* A sandbox as atoll-egress has it, or is to have it. */
struct atoll_attachment {
    struct atoll_sandbox *sandbox;
    uint64_t serial;
    struct atoll_list node;      /* in the queue */
    struct atoll_list waiters;   /* called when the policy holds, or after some seconds */
    struct atoll_timer patience; /* armed while there are waiters */
    bool queued;
    bool asking; /* a request is in progress */
    bool stale;  /* to be sent again after it: the policy has changed since */
    bool put;    /* this worker has its sockets */
    /* Bytes that the sandbox received and sent: by earlier workers, and as this one told last. */
    uint64_t rx_before, tx_before, rx_now, tx_now;
    struct atoll_connection_log log;
};

struct atoll_networks {
    struct atoll_engine *engine;
    /* link.c */
    char *program;            /* atoll-egress; owned. NULL: this engine serves no network */
    pid_t child;              /* the atoll-egress that this daemon started; 0: another daemon did */
    struct atoll_rpc *rpc;    /* owned; NULL: not connected */
    bool greeted;             /* it has answered HELLO: requests may be sent */
    uint32_t worker;          /* pid of the worker that answered last; 0: none yet */
    struct atoll_timer again; /* next attempt, or end of the wait for an answer */
    int64_t delay_ms;
    char *cache_table; /* owned; NULL: downloads are not kept */
    uint64_t cache_max_bytes;
    /* attach.c */
    bool recovered; /* the sandboxes of an earlier daemon are known */
    bool syncing;   /* SYNCED is to be sent once the queue is empty */
    bool pumping;
    unsigned round;          /* number of times that all were queued */
    struct atoll_list queue; /* of struct atoll_attachment.node: to be put */
    unsigned asking;         /* attachments with a request in progress */
    uint64_t serial;         /* of the last attachment */
    int journal_fd;          /* STATE/network: journal.c */
    struct atoll_map told;   /* tenants whose secrets were sent, owned: secrets_send.c */
};

/* link.c */

/* Starts atoll-egress unless one answers, and connects to it, without waiting. program NULL: no
 * network. */
int atoll_network_open(struct atoll_engine *engine, const char *program,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_networks *atoll_network_free(struct atoll_networks *network);
/* Ends atoll-egress, after the last sandbox is gone. */
void atoll_network_end(struct atoll_networks *network);
/* Ends the atoll-egress that this daemon has started, if it did: for a daemon whose start fails before
 * atoll-egress listens to it. */
void atoll_network_kill(const struct atoll_networks *network);
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
/* How many bytes it received and sent since its start, except those that a worker counted after the last
 * call and before it died. False: atoll-egress does not serve it, or does not answer; fn is not called. */
typedef void atoll_network_bytes_fn(void *arg, uint64_t rx_bytes, uint64_t tx_bytes);
bool atoll_network_count(struct atoll_sandbox *sandbox, atoll_network_bytes_fn *fn, void *arg);
/* Ends its connections. Call before its processes are ended. */
void atoll_network_detach(struct atoll_sandbox *sandbox);
/* Frees the record only: its connections continue. */
struct atoll_attachment *atoll_attachment_free(struct atoll_attachment *attachment);
/* Call once, when the sandboxes of an earlier daemon are known. */
void atoll_network_recovered(struct atoll_networks *network);
/* For link.c: atoll-egress has answered HELLO; it is gone. */
void atoll_network_sync(struct atoll_networks *network);
void atoll_network_lost(struct atoll_networks *network);

/* peers.c */

/* atoll-egress asks for a connection to a port of a sandbox, for another sandbox of the same network. */
void atoll_network_dial(struct atoll_networks *network, const struct atoll_em_dial *dial);

/* trust.c */

/* Variables for every command of the sandbox, before its own; ends with NULL. */
const char *const *atoll_network_trust_env(const struct atoll_sandbox *sandbox);

/* secrets_send.c */

/* Sends the tenant's secrets if the policy, which is JSON, names one and this worker does not have them.
 * Call before the policy is sent. */
void atoll_network_send_secrets(struct atoll_networks *network, const char *tenant,
                                const char *policy);
void atoll_network_watch_secrets(struct atoll_networks *network);
void atoll_network_forget_secrets(struct atoll_networks *network);

/* journal.c */

int atoll_network_open_journals(struct atoll_networks *network,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes journals of sandboxes that neither exist nor have a record. */
void atoll_network_sweep_journals(const struct atoll_networks *network);
#define ATOLL_JOURNAL_OLDER ".1"
#define ATOLL_JOURNAL_SHORTENED ".new" /* being written */
/* A sandbox is gone: keeps the newest lines of its journal if it has a record, or else removes it. */
void atoll_network_end_journal(const struct atoll_sandbox *sandbox);
/* journal_drop.c: removes the journal of a sandbox whose record is gone. */
void atoll_network_drop_journal(const struct atoll_networks *network, const char *id);
/* An event of atoll-egress: counts it, writes the line and tells followers. -EBADMSG: it is malformed. */
int atoll_network_note(struct atoll_networks *network,
                       const struct atoll_em_connection *event) ATOLL_MUST_CHECK;
void atoll_connection_log_init(struct atoll_connection_log *log);
/* Closes the file and ends the followers. */
void atoll_connection_log_done(struct atoll_connection_log *log);
