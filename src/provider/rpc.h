#pragma once
#include "loop/loop.h"
#include "provider/pending.h"

/*
 * The asking side of a framed connection on the loop: requests with their answers, and events.
 * Used for atoll-spawn and for every agent.
 * Thread: the loop's. No callback is made from inside atoll_rpc_ask() or atoll_rpc_tell().
 */
struct atoll_rpc;

struct atoll_rpc_protocol {
    uint16_t reply, part, error; /* frame types of answers */
    const uint16_t *lists;       /* requests whose answers have parts, 0 at the end */
    /* The error message of this protocol. INVALID_ARGUMENT is for a malformed one. */
    int (*decode_error)(const struct atoll_frame *frame, struct atoll_error *ret_error,
                        struct atoll_error *err);
};

struct atoll_rpc_events {
    /* A frame with id 0; descriptors in it are closed afterwards. < 0: the peer broke the rules, the
     * connection ends. */
    int (*event)(void *arg, struct atoll_frame *frame);
    /* The connection is over; waiting requests have been failed. Close (free) it here or later. */
    void (*lost)(void *arg, const char *why);
};

/* Takes fd over in every case. */
int atoll_rpc_open(struct atoll_loop *loop, int fd, const struct atoll_rpc_protocol *protocol,
                   const struct atoll_rpc_events *events, void *arg, struct atoll_rpc **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends it from our side: nothing more is sent, and every waiting request fails with UNAVAILABLE
 * before this returns. Close it afterwards. Accepts NULL. */
void atoll_rpc_fail_all(struct atoll_rpc *rpc, const char *why);
/* No callback comes after this; waiting requests are dropped without one. Accepts NULL. */
struct atoll_rpc *atoll_rpc_close(struct atoll_rpc *rpc);

/* UNAVAILABLE when the connection is over, RESOURCE_EXHAUSTED when too much waits to be sent. */
int atoll_rpc_ask(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                  const void *msg, atoll_answer_fn *fn, void *arg,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* A message that has no answer. */
int atoll_rpc_tell(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                   const void *msg) ATOLL_MUST_CHECK;
