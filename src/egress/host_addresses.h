#pragma once
#include <netinet/in.h>
#include "loop/loop.h"

/*
 * The addresses of this host, which sandboxes may not reach. The kernel tells of every change.
 */
struct atoll_host_addresses;

int atoll_host_addresses_open(struct atoll_loop *loop, struct atoll_host_addresses **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct atoll_host_addresses *atoll_host_addresses_close(struct atoll_host_addresses *h);
/* Also whether the address stands for one of them (NAT64, 6to4). */
bool atoll_host_addresses_has(const struct atoll_host_addresses *h, const struct in6_addr *address);
