#pragma once
#include "egress/control.h"

/*
 * What the files of the control connection share.
 *   control.c           the connection to the daemon, and the processes that keep sandboxes alive
 *   control_requests.c  what the daemon asks for
 */
#define KEEPERS_MAX ATOLL_FD_PASS_MAX

/* A process that keeps sandboxes alive. */
struct atoll_control_keeper {
    int pidfd; /* owned; ATOLL_NO_FD: none, or it has ended */
    struct atoll_watch watch;
    struct atoll_control *control;
};

struct atoll_control {
    struct atoll_egress *egress;
    struct atoll_watch listening;
    struct atoll_channel daemon; /* fd ATOLL_NO_FD: not connected */
    struct atoll_watch watch;
    struct atoll_timer idle;
    struct atoll_control_keeper keepers[KEEPERS_MAX];
    /* The daemon that started the program, until the first HELLO: if it ends, no daemon may come. */
    struct atoll_control_keeper starter;
    struct atoll_timer counting; /* counters of the cache are sent then */
    size_t total_wanted;         /* connections, by the daemon; 0: as many as possible */
};

/* control.c */
/* Sends an answer after the events that came before it. May disconnect the daemon. */
void atoll_control_answer(struct atoll_control *c, uint16_t type, uint32_t id,
                          const struct atoll_msg_desc *desc, const void *msg);
/* Watches the processes whose pidfds the frame has, instead of the earlier ones. */
void atoll_control_take_keepers(struct atoll_control *c, struct atoll_frame *frame);
/* Queues an event that is not one of a connection. */
bool atoll_control_tell(struct atoll_control *c, uint16_t type, const struct atoll_msg_desc *desc,
                        const void *msg);

/* control_requests.c */
/* Carries out a request and answers it; on failure the caller does. Takes descriptors that it uses. */
int atoll_control_serve(struct atoll_control *c, struct atoll_frame *frame,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
