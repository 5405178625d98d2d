#pragma once
#include "sys/cgroup.h"

/* Shared by the files of this module. */

/* The kernel's name of the controller. */
const char *atoll_cgroup_common_name(enum atoll_cgroup_common c);
/* Creates and configures the group in the hierarchy at mount_point. Returns a descriptor of its
 * directory. */
int atoll_cgroup_open_common(const char *mount_point, const char *instance,
                             enum atoll_cgroup_common c) ATOLL_MUST_CHECK;
