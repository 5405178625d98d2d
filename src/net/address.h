#pragma once
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "base/error.h"

/*
 * Socket addresses, for listening and for connecting.
 */

struct atoll_address_unix {
    struct sockaddr_un addr;
    socklen_t len;
    int dir_fd; /* owned; the directory that addr refers to if the path is too long, else ATOLL_NO_FD */
};

/* A path longer than sun_path is reached as /proc/self/fd/N/name through its open directory.
 * -errno; -ENAMETOOLONG when the last part alone does not fit. */
int atoll_address_unix_open(struct atoll_address_unix *a, const char *path) ATOLL_MUST_CHECK;
void atoll_address_unix_close(struct atoll_address_unix *a);

/* Resolves HOST:PORT (may ask a name server). INVALID_ARGUMENT, UNAVAILABLE. Free the result with
 * freeaddrinfo(). */
int atoll_address_resolve(const char *host_port, bool passive, struct addrinfo **ret_list,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* "127.0.0.1:80", "[::1]:80", "unix"; cut to cap. */
void atoll_address_format(const struct sockaddr *addr, socklen_t len, char *out, size_t cap);

#define ATOLL_ADDRESS_SOURCE_MAX 64
/* The key for per-client limits: the IPv4 address, or the /64 of an IPv6 address (a customer usually
 * gets a /64), without the port. `out` holds ATOLL_ADDRESS_SOURCE_MAX bytes. */
void atoll_address_source(const char *address, char *out);
