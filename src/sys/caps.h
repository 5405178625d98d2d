#pragma once
#include "base/defs.h"

/* Capability sets as bit masks, by the numbers of linux/capability.h. All return -errno. */

#define ATOLL_CAP_BIT(cap) (UINT64_C(1) << (cap))

/* What root inside a sandbox may do: enough for package managers, nothing that reaches outside. */
uint64_t atoll_caps_of_sandbox_root(void);
/* That, and what the agent needs to start processes as other users. */
uint64_t atoll_caps_of_agent(void);

/* Effective, permitted and inheritable sets of this process. */
int atoll_caps_set(uint64_t effective, uint64_t permitted, uint64_t inheritable) ATOLL_MUST_CHECK;
/* Puts every permitted capability in force. */
int atoll_caps_raise(void) ATOLL_MUST_CHECK;
/* Drops everything outside `keep` from every set; the inheritable and ambient ones are cleared. */
int atoll_caps_keep(uint64_t keep) ATOLL_MUST_CHECK;
/* Drops everything outside `keep` from the bounding set and clears the ambient set. */
int atoll_caps_bound(uint64_t keep) ATOLL_MUST_CHECK;
