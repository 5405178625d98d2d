#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "proto/plan.h"
#include "sandbox/spec.h"

/*
 * Turns a spec into a plan (proto/plan.h). Pure functions without system calls, so that every rule
 * of the default policy can be read and tested here.
 */

/* The set of ATOLL_LIMIT_* that this host cannot enforce for this spec. */
uint32_t atoll_plan_missing_limits(const struct atoll_plan_host *host,
                                   const struct atoll_spec *spec);

/* Whether the host can give the sandbox the disk that it asks for. images: it has loop devices. INVALID_ARGUMENT,
 * FAILED_PRECONDITION. */
int atoll_plan_check_disk(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                          bool images, struct atoll_error *err) ATOLL_MUST_CHECK;

/* True if a new sandbox gets a disk in the disk pool; then create() sets spec->cow_disk. */
bool atoll_plan_wants_cow(const struct atoll_plan_host *host, const struct atoll_spec *spec);

/* True if the spec's disk must be an image file (too large for memory, persistent, or with a limit on
 * its bandwidth). *ret_name is then the formatted image to copy, below the state directory:
 * "images/ext4-<MiB>-<inodes>.img",
 * with a journal "images/ext4j-…". */
bool atoll_plan_needs_image(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                            char *ret_name, size_t cap);

/* The formatted image of volumes that the sandbox makes, if spec->volume_bytes is set, and its inodes. */
void atoll_plan_volume_image(const struct atoll_spec *spec, char *ret_name, size_t cap);
uint64_t atoll_plan_volume_inodes(const struct atoll_spec *spec);

/* FAILED_PRECONDITION if a limit cannot be enforced and was not waived. */
int atoll_plan_build(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                     const struct atoll_buf *seccomp, struct atoll_buf *plan,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same for a sandbox that gVisor runs. The plan is for an atoll-spawn whose state directory is
 * inside the directory with the templates (see spawn/own_root.h) and contains `layer`, which has
 * our agent. The limit on processes becomes a limit on host threads, with room for gVisor's own. */
uint32_t atoll_plan_runsc_tasks(uint32_t pids);
int atoll_plan_build_runsc(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                           const struct atoll_po_runsc *runsc, struct atoll_buf *plan,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
