#pragma once
#include "base/defs.h"

/*
 * SipHash-1-3 (Aumasson, Bernstein): a hash with a key. Inputs with equal hashes cannot be chosen without the
 * key, so tables whose keys tenants choose stay fast. Not a digest. Pure.
 */
uint64_t atoll_siphash(const uint64_t key[static 2], const void *bytes, size_t n);
