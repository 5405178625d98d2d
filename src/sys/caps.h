#pragma once
#include "base/defs.h"

/* Capability sets as bit masks, by the numbers of linux/capability.h. All return -errno. */

#define ATOLL_CAP_BIT(cap) (UINT64_C(1) << (cap))

/* Capabilities of root inside a sandbox: enough for package managers, none that affects the
 * host. */
uint64_t atoll_caps_of_sandbox_root(void);
/* The same plus the capabilities that the agent needs to start processes as other users. */
uint64_t atoll_caps_of_agent(void);

/* Sets the effective, permitted and inheritable sets of the calling thread. */
int atoll_caps_set(uint64_t effective, uint64_t permitted, uint64_t inheritable) ATOLL_MUST_CHECK;
/* Makes every permitted capability effective. */
int atoll_caps_raise(void) ATOLL_MUST_CHECK;
/* Drops everything outside `keep` from every set and clears the inheritable and ambient sets. */
int atoll_caps_keep(uint64_t keep) ATOLL_MUST_CHECK;
/* Drops everything outside `keep` from the bounding set and clears the ambient set. */
int atoll_caps_bound(uint64_t keep) ATOLL_MUST_CHECK;
