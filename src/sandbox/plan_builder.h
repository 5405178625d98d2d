#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "proto/plan.h"
#include "sandbox/spec.h"

/*
 * From a spec to a plan (proto/plan.h): pure, no system call, so that every rule of the default
 * policy can be read and tested here.
 */

/* Which of ATOLL_LIMIT_* this host cannot enforce for this spec. */
uint32_t atoll_plan_missing_limits(const struct atoll_plan_host *host,
                                   const struct atoll_spec *spec);

/* Whether the spec's disk has to be an image file (larger than memory can back, or persistent), and
 * the name of the formatted one to copy, below the state directory: "images/ext4-<MiB>-<inodes>.img",
 * with a journal "images/ext4j-…". */
bool atoll_plan_needs_image(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                            char *ret_name, size_t cap);

/* FAILED_PRECONDITION when a limit can neither be given nor was waived. */
int atoll_plan_build(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                     const struct atoll_buf *seccomp, struct atoll_buf *plan,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same for a sandbox that gVisor runs: its plan is for an atoll-spawn whose state directory lies
 * in that of the templates (see spawn/own_root.h) and has `layer`, with our agent in it. The limit of
 * processes is that of threads on the host, with room for gVisor's own. */
uint32_t atoll_plan_runsc_tasks(uint32_t pids);
int atoll_plan_build_runsc(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                           const struct atoll_po_runsc *runsc, struct atoll_buf *plan,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
