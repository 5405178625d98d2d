#pragma once
#include "api/call.h"
#include "api/kit/exec_pump.h"

/*
 * A WebSocket bound to a command. The first message, a text, describes the command. After it,
 * binary messages carry a channel byte and data (0 stdin, 1 stdout, 2 stderr), and texts carry
 * control. Back-pressure works both ways: the socket is not read while input is being written into
 * the sandbox, and the journal is not read while the client is behind.
 *
 * Three users: ws_exec_start.c (a command in an existing sandbox), ws_pty.c (a terminal there) and
 * ws_run.c (a new sandbox as well). They embed this struct as their first member and supply what differs in the ops.
 * Ownership: freed by ops->free when the client has disconnected and no callback is pending.
 */
struct atoll_ws_exec;

struct atoll_ws_exec_ops {
    size_t max_message;
    /* No first message and no channel bytes: binary messages are plain input and output. */
    bool raw;
    /* Handles the first message; the WebSocket is paused until atoll_ws_exec_bind(). */
    void (*start)(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n);
    /* The command has ended. The handler eventually calls atoll_ws_exec_finish(). */
    void (*ended)(struct atoll_ws_exec *x, const struct atoll_exec_result *result);
    /* The client has disconnected, before or after the end of the command. */
    void (*gone)(struct atoll_ws_exec *x);
    void (*free)(struct atoll_ws_exec *x);
};

struct atoll_ws_exec {
    const struct atoll_ws_exec_ops *ops;
    struct atoll_api_session session;
    struct atoll_engine *engine;
    struct atoll_loop *loop;
    struct atoll_ws *ws; /* owned; NULL after the client disconnected */
    struct atoll_exec_pump pump;
    struct atoll_timer timer;      /* deadline of the first message */
    struct atoll_timer kill_retry; /* retries the kill of a command that lost input */
    struct atoll_buf out;          /* the message being written */
    unsigned pending;              /* pending callbacks of the engine */
    bool started;                  /* the first message has arrived */
    bool takes_input;              /* stdin is open */
    bool input_closed;
    const char *operators_file; /* for hints, or NULL; owned by the engine */
    uint64_t from;              /* offset in the output to start from */
    bool from_end;              /* start with the output that comes from now on */
    char tenant[65], sandbox_id[33], exec_id[33], request_id[65];
};

/* Takes over the call's request and frees the call; the rest of x must be zeroed. On failure the
 * call has been answered and x freed by ops->free. */
void atoll_ws_exec_accept(struct atoll_ws_exec *x, const struct atoll_ws_exec_ops *ops,
                          struct atoll_api_call *call);
/* Call when the command runs: sends its id and that of its sandbox to the client and starts to carry
 * data. */
void atoll_ws_exec_bind(struct atoll_ws_exec *x, struct atoll_exec *exec, bool takes_input);
/* Sends {"progress":…}: the current step before the command runs. */
void atoll_ws_exec_progress(struct atoll_ws_exec *x, const char *text);
/* Sends {"error":…} and closes. */
void atoll_ws_exec_fail(struct atoll_ws_exec *x, const struct atoll_error *error);
/* Sends a last text and closes the WebSocket normally. */
void atoll_ws_exec_finish(struct atoll_ws_exec *x, const struct atoll_buf *text);

/* Reference count. Hold around every call to the engine whose callback gets x; release may free
 * it. */
void atoll_ws_exec_hold(struct atoll_ws_exec *x);
void atoll_ws_exec_release(struct atoll_ws_exec *x);

/* `ended` and `gone` for a plain command: the result is the last message, and the command
 * continues when the client disconnects. */
void atoll_ws_exec_report(struct atoll_ws_exec *x, const struct atoll_exec_result *result);
void atoll_ws_exec_let_go(struct atoll_ws_exec *x);
