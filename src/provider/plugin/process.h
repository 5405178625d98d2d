#pragma once
#include <jansson.h>
#include "provider/sync.h"

/*
 * The program of a plugin: started when something is asked of it, started again after it ended, ended
 * with the provider. A request is one line with a number, an answer is one line with the same number;
 * answers come in any order, and may carry one descriptor.
 *
 * Thread: any. Ownership: one object for the life of the provider.
 */
struct atoll_plugin_process;

/* hello: the first request to every start of the program, taken over. */
int atoll_plugin_process_new(const char *program, json_t *hello, struct atoll_plugin_process **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the program: its input ends first, and after two seconds it is killed. */
struct atoll_plugin_process *atoll_plugin_process_free(struct atoll_plugin_process *process);

/* Starts the program, sends hello and ends it again. *ret_answer is the result, the caller's. */
int atoll_plugin_describe(struct atoll_plugin_process *process, int timeout_ms, json_t **ret_answer,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Asks and waits, within the call's deadline. request: taken over. *ret_answer is the result, the
 * caller's. ret_fd: the descriptor that came with it or ATOLL_NO_FD; NULL: none is expected. The kinds of
 * errors are the program's own; UNAVAILABLE when it ended, DEADLINE_EXCEEDED, ABORTED. */
int atoll_plugin_ask(struct atoll_plugin_process *process, const struct atoll_sync_call *call,
                     json_t *request, json_t **ret_answer, int *ret_fd,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
