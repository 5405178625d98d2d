#pragma once
#include "egress/connection.h"
#include "egress/intercept.h"
#include "egress/peers.h"
#include "egress/relay.h"
#include "egress/sniff.h"

/*
 * What the files of connections share.
 *   connection.c         life and events; where a connection goes; changes of the policy
 *   connection_decide.c  which name counts, and what the policy says about it
 *   connection_sniff.c   the first bytes of the client
 */
/*
 * A connection is decided by the name that its first bytes have, if the policy needs one. Of a client
 * that waits for the server, the names remembered for the address decide; its first bytes are held back
 * until they have been looked at, too.
 */
struct atoll_connection_state {
    struct atoll_list node; /* in box->connections */
    struct atoll_box *box;
    uint64_t number;
    int64_t started_unix_ms;
    struct in6_addr address;
    uint16_t port;
    bool sniffing;              /* the first bytes of the client have not been understood yet */
    bool to_peer;               /* a sandbox of the same network */
    bool opened;                /* OPENED was reported */
    bool named;                 /* the name was in the first bytes, not remembered */
    bool owned;                 /* the address was found to be one of that name's */
    enum atoll_sniff_kind kind; /* of the first bytes */
    size_t seen;                /* bytes looked at so far */
    char *name;                 /* owned; NULL: unknown */
    char *rule;                 /* owned; what decided */
    int client_fd;              /* owned unless the relay or the DNS stream has it */
    struct atoll_watch watch;   /* of client_fd, while nothing else has it */
    struct atoll_timer timer;
    struct atoll_lookup *lookup;
    struct atoll_dial *dial;
    struct atoll_peer_dial *peer_dial;
    struct atoll_relay *relay;
    struct atoll_intercept *intercept; /* then the relay's server */
    struct atoll_dns_stream *dns;
};

/* connection.c */
/* text may be the field's own. */
void atoll_connection_set_text(char **field, const char *text);
/* Reports the end and frees it. */
void atoll_connection_finish(struct atoll_connection_state *c, enum atoll_egress_end end,
                             int errnum);
/* Denies it and frees it. hint: the entry of a policy that would allow it; NULL: none would. */
void atoll_connection_deny(struct atoll_connection_state *c, const char *rule, const char *hint);
void atoll_connection_deny_by(struct atoll_connection_state *c,
                              const struct atoll_network_decision *decision);
/* Connects to the address, and relays then. */
void atoll_connection_dial(struct atoll_connection_state *c);
/* server_fd is taken. */
void atoll_connection_relay(struct atoll_connection_state *c, int server_fd);

/* connection_decide.c */
#define CONNECTION_NOT_OWNED "name does not belong to address"
/* About a connection whose bytes have no name: of the names remembered for the address, the newest one
 * that is allowed counts. *ret_name: borrowed until the callback returns. */
struct atoll_network_decision atoll_connection_ask_memory(const struct atoll_connection_state *c,
                                                          const char **ret_name);
void atoll_connection_set_decision(struct atoll_connection_state *c, const char *name,
                                   const struct atoll_network_decision *decision);
/* Decides by the remembered names, and dials or denies. */
void atoll_connection_by_memory(struct atoll_connection_state *c);
/* Decides by the name that the client's first bytes have. */
void atoll_connection_by_name(struct atoll_connection_state *c, const char *name);
/* Whether the address must be one of the name's: if the name gives a right that the address does not have
 * by itself. That is a rule, the operator's permission for an internal address, or a header. */
bool atoll_connection_must_belong(const struct atoll_connection_state *c,
                                  const struct atoll_network_decision *d);
/* Whether the address is remembered for a host whose downloads are kept. */
bool atoll_connection_may_be_kept(const struct atoll_connection_state *c);

/* connection_sniff.c */
/* Waits for the first bytes, and decides by them. */
void atoll_connection_sniff(struct atoll_connection_state *c);
/* The client has sent something while a relay holds it. */
void atoll_connection_held_input(void *arg);
