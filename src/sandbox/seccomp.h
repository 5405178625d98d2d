#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * The system-call filter of the namespace tier, as a BPF program for the plan. An allowlist. Calls
 * known to be dangerous fail with EPERM; calls that are not in the policy and calls of another ABI
 * fail with ENOSYS, so that programs use a fallback. Building takes milliseconds: do it once.
 * Thread-safe.
 */
int atoll_seccomp_build(struct atoll_buf *out, struct atoll_error *err) ATOLL_MUST_CHECK;
