#pragma once
#include "api/call.h"
#include "net/websocket.h"

/*
 * A WebSocket bound to a command. The first message, a text, says what to start; from then on
 * binary messages carry a channel byte and data (0 stdin, 1 stdout, 2 stderr) and texts carry
 * control. Back-pressure both ways: the socket is not read while input is on its way into the
 * sandbox, and the journal is not read while the client is behind.
 *
 * Two users: exec_stream.c (a command in a sandbox that is there) and run_stream.c (a sandbox as
 * well). They embed this as their first member and say by the ops what differs.
 * Ownership: freed by ops->free when the client is gone and nothing is under way.
 */
struct atoll_ws_exec;

struct atoll_ws_exec_ops {
    size_t max_message;
    /* No first message and no channels: binary messages are input and output as they are. */
    bool raw;
    /* The first message; the WebSocket is paused until atoll_ws_exec_bind(). */
    void (*start)(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n);
    /* The command has ended. Lead to atoll_ws_exec_finish(). */
    void (*ended)(struct atoll_ws_exec *x, const struct atoll_exec_result *result);
    /* The client is gone, before or after the end. */
    void (*gone)(struct atoll_ws_exec *x);
    void (*free)(struct atoll_ws_exec *x);
};

struct atoll_ws_exec {
    const struct atoll_ws_exec_ops *ops;
    struct atoll_api_session session;
    struct atoll_engine *engine;
    struct atoll_loop *loop;
    struct atoll_ws *ws;         /* owned; NULL once the client is gone */
    struct atoll_reader *reader; /* owned; NULL while there is no output to send */
    struct atoll_timer timer;    /* the first message is due; later: others had their turn */
    struct atoll_timer deaf;     /* its input was lost: it is ended, now or later */
    struct atoll_buf out;        /* the message being made */
    unsigned pending;            /* callbacks of the engine that will come */
    bool started;                /* the first message is here */
    bool takes_input;            /* stdin was kept open and has not been closed */
    bool input_closed;
    const char *operators_file; /* for hints, or NULL; the engine's */
    uint64_t from;              /* offset in the output to begin at */
    char tenant[65], sandbox_id[33], exec_id[33], request_id[65];
};

/* Takes the call's request over and frees the call; x is zeroed but for what is before. On failure
 * the call has been answered and x freed by ops->free. */
void atoll_ws_exec_accept(struct atoll_ws_exec *x, const struct atoll_ws_exec_ops *ops,
                          struct atoll_api_call *call);
/* The command runs: tells the client and starts to carry. `with_sandbox`: name it, too. */
void atoll_ws_exec_bind(struct atoll_ws_exec *x, struct atoll_exec *exec, bool takes_input,
                        bool with_sandbox);
/* Sends {"progress":…}: what is being waited for before the command runs. */
void atoll_ws_exec_progress(struct atoll_ws_exec *x, const char *text);
/* Sends {"error":…} and closes. */
void atoll_ws_exec_fail(struct atoll_ws_exec *x, const struct atoll_error *error);
/* Sends a last text and closes in order. */
void atoll_ws_exec_finish(struct atoll_ws_exec *x, const struct atoll_buf *text);

/* Around every call to the engine whose callback gets x: release may free it. */
void atoll_ws_exec_hold(struct atoll_ws_exec *x);
void atoll_ws_exec_release(struct atoll_ws_exec *x);

/* For `ended` and `gone` of a plain command: its result is the last message, and it goes on when its
 * client is gone. */
void atoll_ws_exec_report(struct atoll_ws_exec *x, const struct atoll_exec_result *result);
void atoll_ws_exec_let_go(struct atoll_ws_exec *x);
