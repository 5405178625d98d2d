#pragma once
#include "agent/agent_internal.h"
#include "proto/sudo_proto.h"

/* The caller's credentials, from the kernel. */
struct atoll_agent_sudo_caller {
    uint32_t uid, gid;
};

/* Checks the request, starts the command with the four descriptors and returns its pid. */
int atoll_agent_sudo_start(struct atoll_agent *a, const struct atoll_agent_sudo_caller *caller,
                           const struct atoll_sudo_run *run, const int fds[ATOLL_SUDO_FDS],
                           struct atoll_error *err) ATOLL_MUST_CHECK;
