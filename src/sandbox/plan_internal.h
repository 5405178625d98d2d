#pragma once
#include "sandbox/plan_builder.h"

/*
 * Shared by the files of the plan builder: plan_root.c has the root and its layers, plan_builder.c the
 * rest. Functions that add steps return -errno.
 */

/* Whether the stack, the trees and the caches of a spec are well formed and atoll-spawn can mount them.
 * INVALID_ARGUMENT, FAILED_PRECONDITION. */
int atoll_plan_check_layers(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The layers and overlays of the root. */
int atoll_plan_add_root(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                        struct atoll_buf *plan) ATOLL_MUST_CHECK;
int atoll_plan_add_runsc_root(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                              struct atoll_buf *plan) ATOLL_MUST_CHECK;
/* After the kernel's file systems: /import or /.atoll, trees and caches. */
int atoll_plan_add_builder(const struct atoll_spec *spec, struct atoll_buf *plan) ATOLL_MUST_CHECK;
/* Volumes and folders of the host. */
int atoll_plan_add_volumes(const struct atoll_spec *spec, struct atoll_buf *plan) ATOLL_MUST_CHECK;
