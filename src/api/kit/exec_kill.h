#pragma once
#include "api/call.h"

/*
 * Kills a command for a call and waits for its end, so that it is gone when the client gets the
 * answer. The end can be late if other processes keep the output open, hence a deadline of two
 * seconds. tree: with all processes that the command started.
 *
 * Uses on_gone and state of the call while it waits. done gets the call as its argument, and the error
 * of the signal; it is not called if the client disconnects, which drops the call.
 */
void atoll_exec_kill(struct atoll_api_call *call, struct atoll_exec *exec, bool tree,
                     const char *who, atoll_done_fn *done);
