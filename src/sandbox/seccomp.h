#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * The system-call filter of the namespace tier, as a BPF program for the plan.
 * An allowlist: calls we know to be dangerous answer EPERM, calls nobody had heard of when this was
 * written answer ENOSYS (programs fall back), and so does every call of another ABI.
 * Building takes milliseconds: do it once. Thread-safe.
 */
int atoll_seccomp_build(struct atoll_buf *out, struct atoll_error *err) ATOLL_MUST_CHECK;
