#pragma once
#include "base/defs.h"

/*
 * The network of a sandbox that may reach something, seen from inside (docs/adr/0026). In its network
 * namespace every address is local: nothing leaves the namespace. One socket accepts all TCP
 * connections to foreign addresses, whatever their port, and one gets all DNS questions. atoll-egress,
 * which is outside, gets both sockets and decides.
 */

/* The sandbox's own addresses, and the port of the two sockets. Programs use the IPv4 address as their
 * name server. */
#define ATOLL_NETSPACE_ADDRESS4 "100.64.0.1"
#define ATOLL_NETSPACE_ADDRESS6 "fd61:746f:6c6c::1"
#define ATOLL_NETSPACE_PORT 65530

/* Non-blocking, closed on exec, owned by the holder. Both have IPv4 addresses as ::ffff:a.b.c.d. */
struct atoll_netspace {
    /* Listens. getsockname() of an accepted socket is the address and port that the program wanted. */
    int tcp;
    /* Gets questions to port 53 of every address but the loopback ones. The IPV6_PKTINFO of a received
     * message is the address that was asked. The answer must be sent with the same IPV6_PKTINFO, so that it
     * has that address as its source; the kernel makes the port 53. */
    int udp;
};

/* Adds addresses, routes and rules to the current network namespace and opens the sockets. lo must be
 * up. Needs CAP_NET_ADMIN over the namespace. Returns -errno; then the namespace is of no use. */
int atoll_netspace_open(struct atoll_netspace *ret) ATOLL_MUST_CHECK;
