#pragma once
#include <jansson.h>
#include "provider/sync.h"

/*
 * The process of a plugin: started for the first request, started again after it ended, ended with
 * the provider. A request is one line with a number, its answer is one line with the same number.
 * Answers come in any order, and may carry one descriptor.
 *
 * Thread: any. Ownership: one object for the life of the provider.
 */
struct atoll_plugin_process;

/* hello: the first request after every start of the program; ownership passes. */
int atoll_plugin_process_new(const char *program, json_t *hello, struct atoll_plugin_process **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the program: closes its input, and kills it after two seconds. */
struct atoll_plugin_process *atoll_plugin_process_free(struct atoll_plugin_process *process);

/* Starts the program, sends hello and ends it again. The caller owns *ret_answer, the result. */
int atoll_plugin_describe(struct atoll_plugin_process *process, int timeout_ms, json_t **ret_answer,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Sends a request and waits for its answer within the call's deadline. request: ownership
 * passes. The caller owns *ret_answer, the result. ret_fd: the descriptor that came with it, or
 * ATOLL_NO_FD; NULL: none is expected. Errors have the kind that the program reports;
 * UNAVAILABLE if it ended, DEADLINE_EXCEEDED, ABORTED. */
int atoll_plugin_ask(struct atoll_plugin_process *process, const struct atoll_sync_call *call,
                     json_t *request, json_t **ret_answer, int *ret_fd,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
