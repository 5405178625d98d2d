#pragma once
#include "api/kit/exec_pump.h"
#include "api/kit/ws_link.h"

/*
 * A terminal of a sandbox over a WebSocket: binary messages are raw input and output. What texts mean, and what
 * the client is told at the end, is the facade's.
 *
 * Ownership: the beginning of a block of atoll_api_alloc(). The terminal frees it when the client has
 * disconnected and no callback of the engine is pending.
 */
struct atoll_terminal;
struct atoll_terminal_ops {
    size_t max_message;
    /* A text of the client; NULL: texts are input. */
    void (*text)(struct atoll_terminal *t, const uint8_t *bytes, size_t n);
    /* The command has ended, or its output cannot be read. Each closes the WebSocket. */
    void (*ended)(struct atoll_terminal *t, const struct atoll_exec_result *result);
    void (*failed)(struct atoll_terminal *t, const char *why);
    /* The client has disconnected, and the command runs; NULL: it goes on. */
    void (*left)(struct atoll_terminal *t, struct atoll_exec *exec);
};

struct atoll_terminal {
    struct atoll_ws_link w;
    const struct atoll_terminal_ops *ops;
    struct atoll_exec_pump pump;
    struct atoll_buf out; /* the text being written */
    unsigned pending;     /* callbacks of the engine */
    char exec_id[33];     /* "": there is no command */
};

/* Upgrades the request and ends the call. False: the call has been refused, and the terminal is gone. */
bool atoll_terminal_open(struct atoll_terminal *t, struct atoll_api_call *call,
                         const struct atoll_terminal_ops *ops);
/* The command whose terminal it is. */
void atoll_terminal_set(struct atoll_terminal *t, const struct atoll_exec *exec);
/* NULL: there is none, or it is gone. */
struct atoll_exec *atoll_terminal_exec(const struct atoll_terminal *t);
/* Begins to read its output at that offset; atoll_exec_pump_run() then sends it. */
int atoll_terminal_read(struct atoll_terminal *t, struct atoll_exec *exec, uint64_t from,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* The client has disconnected. */
void atoll_terminal_close(struct atoll_terminal *t);

/* Around a call of the engine whose callback gets the terminal. atoll_terminal_settled() is an
 * atoll_done_fn that only releases it. */
void atoll_terminal_hold(struct atoll_terminal *t);
void atoll_terminal_release(struct atoll_terminal *t);
void atoll_terminal_settled(void *arg, const struct atoll_error *error);
