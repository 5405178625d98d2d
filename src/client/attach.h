#pragma once
#include "client/link.h"

/*
 * A running command, attached by WebSocket: the object that atoll_client_start() returns and that
 * `atoll run` and `atoll exec` use. Signals are sent as separate requests: on the WebSocket they would
 * queue behind input that the command does not read.
 */

/* Sends `request` to the WebSocket at `target`. Does not wait for the command to start: that is the
 * first event. sandbox_id is NULL if the request creates the sandbox. */
int atoll_attach_open(struct atoll_client *client, const char *target, const char *sandbox_id,
                      json_t *request, struct atoll_client_process **ret_process,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* fn gets a text that describes the progress until the command starts. Called by atoll_attach_next(). */
void atoll_attach_on_progress(struct atoll_client_process *p,
                              void (*fn)(void *arg, const char *text), void *arg);

/* Like the functions of the same name in atoll/atoll.h. */
int atoll_attach_next(struct atoll_client_process *p, int timeout_ms,
                      const struct atoll_client_event **ret_event,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
ssize_t atoll_attach_write(struct atoll_client_process *p, const void *bytes, size_t n,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_attach_close_input(struct atoll_client_process *p,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_attach_signal(struct atoll_client_process *p, int signo, bool tree,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_attach_resize(struct atoll_client_process *p, unsigned cols, unsigned rows,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether more input may be written now. */
bool atoll_attach_takes_input(const struct atoll_client_process *p);
/* Sends a message without effect: the daemon drops a client that is silent for 90 s, which happens to a
 * client that waits for the reader of its output. */
int atoll_attach_keep_alive(struct atoll_client_process *p,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends what the socket takes; does not receive. */
int atoll_attach_flush(struct atoll_client_process *p, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Closes the connection; ids and the record stay available. */
void atoll_attach_hang_up(struct atoll_client_process *p);

const char *atoll_attach_sandbox_id(const struct atoll_client_process *p);
bool atoll_attach_has_started(const struct atoll_client_process *p);
/* The terminal record, borrowed; NULL until the command has ended. */
json_t *atoll_attach_record(const struct atoll_client_process *p);

/* Sends `input` and collects all output until the command has ended; the caller owns the result. If the
 * connection is lost, continues with the journal. */
int atoll_attach_finish(struct atoll_client_process *p, const void *input, size_t input_size,
                        size_t output_max, struct atoll_client_result **ret_result,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
