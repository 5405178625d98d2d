#pragma once
#include "client/link.h"

/*
 * A command that runs, by WebSocket: what atoll_client_start() gives out, and what `atoll run` and
 * `atoll exec` are made of. Signals go by a request of their own and not by the WebSocket, where they
 * would queue behind input that the command does not read.
 */

/* Sends `request` to the WebSocket at `target`. Does not wait for the command to start: that is the
 * first event. sandbox_id is NULL when the daemon chooses one. */
int atoll_attach_open(struct atoll_client *client, const char *target, const char *sandbox_id,
                      json_t *request, struct atoll_client_process **ret_process,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* Until the command starts: what is being waited for, in words. Called by atoll_attach_next(). */
void atoll_attach_on_progress(struct atoll_client_process *p,
                              void (*fn)(void *arg, const char *text), void *arg);

/* As the functions of the same name in atoll/atoll.h. */
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
/* A message that does nothing: the daemon takes a client for dead that says nothing for 90 s, as one
 * does that is waiting for its own reader. */
int atoll_attach_keep_alive(struct atoll_client_process *p,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends what the socket takes, and does not receive. */
int atoll_attach_flush(struct atoll_client_process *p, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops the connection; what is known of the command stays. */
void atoll_attach_hang_up(struct atoll_client_process *p);

const char *atoll_attach_sandbox_id(const struct atoll_client_process *p);
bool atoll_attach_has_started(const struct atoll_client_process *p);
/* The record of its end, borrowed; NULL while there is none. */
json_t *atoll_attach_record(const struct atoll_client_process *p);

/* Gathers everything until the end, sending `input` meanwhile; the result is the caller's. Goes on by
 * the journal when the connection is lost. */
int atoll_attach_finish(struct atoll_client_process *p, const void *input, size_t input_size,
                        size_t output_max, struct atoll_client_result **ret_result,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
