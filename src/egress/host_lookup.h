#pragma once
#include <netinet/in.h>
#include "base/defs.h"

/* Asks the host's resolver for the addresses of a name, as `look` of struct atoll_resolver_config says.
 * The search list of resolv.conf is not used: the name is a whole name. Blocking; thread-safe. */
int atoll_host_lookup(const char *name, struct in6_addr *ret, size_t cap);
