#pragma once
#include <sys/types.h>
#include "base/defs.h"

/* The uid of the process at the other end of a TCP connection from this host, as in the kernel's table
 * of connections. address: "127.0.0.1:4711", "[::1]:4711". -ENOENT: not an address of the loopback
 * interface, or not found; also if sockets of several users have the address. Blocking: reads
 * /proc/net/tcp. */
int atoll_local_peer_uid(const char *address, uid_t *ret_uid) ATOLL_MUST_CHECK;
