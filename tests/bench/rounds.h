#pragma once
#include "base/error.h"

/*
 * What every helper of the benchmark has in common: it prepares itself, prints one line that starts
 * with "ready", and then runs rounds on demand. A line holding a number N on stdin means "run N
 * rounds"; the answer is N lines of milliseconds. The driver takes turns between helpers this way,
 * so that noise of the machine hits all of them alike and no driver code is inside a measurement.
 */

/* Runs one round and sets *ret_ms. One that did not do its work is a failure, not a time. */
typedef int (*atoll_rounds_fn)(void *ctx, double *ret_ms, struct atoll_error *err);

/* Serves stdin until its end or SIGINT/SIGTERM. On the failure of a round it prints "error TEXT"
 * and returns the negative errno. `hello` is what follows "ready"; it may be "". */
int atoll_rounds_serve(const char *hello, atoll_rounds_fn round, void *ctx) ATOLL_MUST_CHECK;

/* Makes SIGINT and SIGTERM end atoll_rounds_serve() (and any other blocking call) instead of the
 * process, so that the caller still cleans up. */
void atoll_rounds_catch_signals(void);
bool atoll_rounds_stopped(void);

/* Monotonic clock in milliseconds. */
double atoll_rounds_now_ms(void);

/* Prints "error TEXT" for the driver and returns EXIT_FAILURE. */
int atoll_rounds_report(const struct atoll_error *err);
