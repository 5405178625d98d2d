#pragma once
#include "loop/loop.h"
#include "loop/offload.h"
#include "provider/pending.h"

/*
 * The client side of a framed connection on the loop: requests with their answers, and events. Used
 * for atoll-spawn and for every agent.
 *
 * A protocol with silence_ms has a deadline for every request. The peer is silent when a request
 * waits and no frame came for that long, not even the answer to a ping. Then waiting requests fail
 * with DEADLINE_EXCEEDED, and new ones with UNAVAILABLE until a frame comes. If the peer answers
 * others, a request without an answer fails at the limit of its type. The connection stays open:
 * the peer can continue, and late answers are recognized. Time in which this process itself did not
 * run does not count.
 * Thread: the loop's. No callback is made from inside atoll_rpc_ask() or atoll_rpc_tell().
 */
struct atoll_rpc;

struct atoll_rpc_protocol {
    const char *peer;            /* for error texts; NULL: "the agent" */
    uint16_t reply, part, error; /* frame types of answers */
    const uint16_t *lists;       /* requests that are answered in parts; ends with 0 */
    /* Decodes the error message of this protocol. INVALID_ARGUMENT: it is malformed. */
    int (*decode_error)(const struct atoll_frame *frame, struct atoll_error *ret_error,
                        struct atoll_error *err);
    uint32_t waiting_max; /* requests waiting at the same time; 0: 4096 */
    int64_t silence_ms;   /* 0: requests have no deadline, and the members below are not used */
    int64_t (*limit_ms)(uint16_t type); /* limit of a request of that type; see ATOLL_LIMIT_* */
    uint16_t ping; /* a request that every peer answers, if only with an error */
};

struct atoll_rpc_events {
    /* A frame with id 0. < 0: the peer broke the protocol, and the connection ends. Events and
     * errors carry no descriptors. */
    int (*event)(void *arg, struct atoll_frame *frame);
    /* The connection has ended; waiting requests have failed. Close it here or later. */
    void (*lost)(void *arg, const char *why);
    /* For protocols with silence_ms: */
    /* Whether the peer should answer now: false while it is paused. */
    bool (*expects)(const void *arg);
    /* Whether to ping the peer from time to time while no request waits. */
    bool (*heartbeat)(const void *arg);
    /* The peer became silent, or answered again. */
    void (*silence)(void *arg, bool silent);
    /* A late answer to a request of that type that failed with DEADLINE_EXCEEDED. Not called for
     * late errors. */
    void (*late)(void *arg, uint16_t type, const struct atoll_frame *frame);
};

/* Takes ownership of fd, also on failure. */
int atoll_rpc_open(struct atoll_loop *loop, int fd, const struct atoll_rpc_protocol *protocol,
                   const struct atoll_rpc_events *events, void *arg, struct atoll_rpc **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* For a peer inside a sandbox: a worker closes the connection and the descriptors that it passed
 * and no callback took. offload is borrowed for the life of the connection. */
void atoll_rpc_guard(struct atoll_rpc *rpc, struct atoll_offload *offload,
                     const struct atoll_lane *lane);
/* Ends the connection from our side: nothing more is sent, and every waiting request fails with
 * UNAVAILABLE before this returns. Close it afterwards. Accepts NULL. */
void atoll_rpc_fail_all(struct atoll_rpc *rpc, const char *why);
/* No callback is made after this; waiting requests are dropped without one. Accepts NULL. */
struct atoll_rpc *atoll_rpc_close(struct atoll_rpc *rpc);

/* How long the peer has been silent; 0: it is not silent. Accepts NULL. */
int64_t atoll_rpc_silent_ms(const struct atoll_rpc *rpc);

/* A pidfd of the process at the other end of the socket, which the caller owns; -errno. */
int atoll_rpc_peer_pidfd(const struct atoll_rpc *rpc) ATOLL_MUST_CHECK;

/* UNAVAILABLE if the connection has ended or the peer is silent; RESOURCE_EXHAUSTED if too much
 * waits to be sent. */
int atoll_rpc_ask(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                  const void *msg, atoll_answer_fn *fn, void *arg,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same without a deadline, also to a silent peer. */
int atoll_rpc_ask_patiently(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                            const void *msg, atoll_answer_fn *fn, void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Like atoll_rpc_ask(), with descriptors: they are duplicated, and the caller keeps its own.
 * RESOURCE_EXHAUSTED also if too many descriptors wait to be sent. */
int atoll_rpc_ask_with(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                       const void *msg, const int *fds, size_t nfds, atoll_answer_fn *fn, void *arg,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends a message that has no answer. */
int atoll_rpc_tell(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                   const void *msg) ATOLL_MUST_CHECK;
