#pragma once
#include "sys/cgroup.h"

/* Shared by the files of this module. */

/* As the kernel calls its controller. */
const char *atoll_cgroup_common_name(enum atoll_cgroup_common c);
/* Makes the group in the hierarchy mounted there and sets it up. A descriptor of its directory. */
int atoll_cgroup_open_common(const char *mount_point, const char *instance,
                             enum atoll_cgroup_common c) ATOLL_MUST_CHECK;
