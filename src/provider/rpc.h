#pragma once
#include "loop/loop.h"
#include "loop/offload.h"
#include "provider/pending.h"

/*
 * The asking side of a framed connection on the loop: requests with their answers, and events.
 * Used for atoll-spawn and for every agent.
 *
 * A protocol with silence_ms has a deadline for every request. The peer is silent when a request waits
 * and nothing at all was heard for that long, a ping included; then requests that wait fail with
 * DEADLINE_EXCEEDED, and new ones with UNAVAILABLE until something is heard. A peer that speaks, but
 * leaves one request without an answer, fails that one at the limit of its type. The connection stays:
 * a peer that goes on finds everything where it was, and late answers are told apart. Time in which this
 * process itself did not run does not count.
 * Thread: the loop's. No callback is made from inside atoll_rpc_ask() or atoll_rpc_tell().
 */
struct atoll_rpc;

struct atoll_rpc_protocol {
    uint16_t reply, part, error; /* frame types of answers */
    const uint16_t *lists;       /* requests whose answers have parts, 0 at the end */
    /* The error message of this protocol. INVALID_ARGUMENT is for a malformed one. */
    int (*decode_error)(const struct atoll_frame *frame, struct atoll_error *ret_error,
                        struct atoll_error *err);
    uint32_t waiting_max;               /* requests without an answer at a time; 0: 4096 */
    int64_t silence_ms;                 /* 0: requests have no deadline, and the rest is not used */
    int64_t (*limit_ms)(uint16_t type); /* of a request; see ATOLL_LIMIT_* */
    uint16_t ping;                      /* a request that any peer answers, if only with an error */
};

struct atoll_rpc_events {
    /* A frame with id 0. < 0: the peer broke the rules, the connection ends. Events and errors have no
     * descriptors. */
    int (*event)(void *arg, struct atoll_frame *frame);
    /* The connection is over; waiting requests have been failed. Close (free) it here or later. */
    void (*lost)(void *arg, const char *why);
    /* These belong to protocols with silence_ms. */
    /* Whether it should answer now: false while it is paused on purpose. */
    bool (*expects)(const void *arg);
    /* Whether it is to be pinged now and then while no request waits. */
    bool (*heartbeat)(const void *arg);
    /* It has become silent, or was heard again. */
    void (*silence)(void *arg, bool silent);
    /* The answer to a request of that type that had failed with DEADLINE_EXCEEDED; not an error. */
    void (*late)(void *arg, uint16_t type, const struct atoll_frame *frame);
};

/* Takes fd over in every case. */
int atoll_rpc_open(struct atoll_loop *loop, int fd, const struct atoll_rpc_protocol *protocol,
                   const struct atoll_rpc_events *events, void *arg, struct atoll_rpc **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* The peer is a sandbox: descriptors it passed that were not taken, and the connection itself, are closed
 * by a worker. offload is borrowed for as long as the connection lives. */
void atoll_rpc_guard(struct atoll_rpc *rpc, struct atoll_offload *offload,
                     const struct atoll_lane *lane);
/* Ends it from our side: nothing more is sent, and every waiting request fails with UNAVAILABLE
 * before this returns. Close it afterwards. Accepts NULL. */
void atoll_rpc_fail_all(struct atoll_rpc *rpc, const char *why);
/* No callback comes after this; waiting requests are dropped without one. Accepts NULL. */
struct atoll_rpc *atoll_rpc_close(struct atoll_rpc *rpc);

/* How long a silent peer has not been heard; 0: it is not silent. Accepts NULL. */
int64_t atoll_rpc_silent_ms(const struct atoll_rpc *rpc);

/* UNAVAILABLE when the connection is over or the peer is silent, RESOURCE_EXHAUSTED when too much waits
 * to be sent. */
int atoll_rpc_ask(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                  const void *msg, atoll_answer_fn *fn, void *arg,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same without a deadline, also to a silent peer. */
int atoll_rpc_ask_patiently(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                            const void *msg, atoll_answer_fn *fn, void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* A message that has no answer. */
int atoll_rpc_tell(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                   const void *msg) ATOLL_MUST_CHECK;
