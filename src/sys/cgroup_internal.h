#pragma once
#include "sys/cgroup.h"

/* Shared by the files of this module. */

/* The kernel's name of the controller. */
const char *atoll_cgroup_common_name(enum atoll_cgroup_common c);
/* v1: whether the blkio hierarchy at mount_point can limit devices; see cgroup_io.c. */
bool atoll_cgroup_io_is_usable(const char *mount_point);
/* Creates and configures the group in the hierarchy at mount_point. Returns a descriptor of its
 * directory. */
int atoll_cgroup_open_common(const char *mount_point, const char *instance,
                             enum atoll_cgroup_common c) ATOLL_MUST_CHECK;
