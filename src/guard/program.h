#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * Runs a program of the operator: a text to its standard input, its standard output to a buffer. It has a process group
 * of its own, which is killed at the timeout, and an environment with nothing but PATH.
 *
 * Blocking, up to the timeout. Thread: any worker.
 */
/* UNAVAILABLE: it cannot be started, or did not exit with 0. DEADLINE_EXCEEDED. RESOURCE_EXHAUSTED: it wrote more
 * than the buffer may hold. */
int atoll_guard_program_run(const char *program, const void *input, size_t n, int timeout_ms,
                            struct atoll_buf *out, struct atoll_error *err) ATOLL_MUST_CHECK;
