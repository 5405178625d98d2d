#pragma once
#include "base/defs.h"

/* Adds the rules of a networked sandbox (sys/netspace.h) to the current network namespace, in one
 * nftables transaction. -errno: none of them was added. */
int atoll_nft_add_rules(void) ATOLL_MUST_CHECK;
