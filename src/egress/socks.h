#pragma once
#include <netinet/in.h>
#include "base/buf.h"
#include "base/defs.h"

/*
 * The client side of SOCKS5 (RFC 1928) with user and password (RFC 1929), without input and output. Pure.
 */
#define ATOLL_SOCKS_TEXT_MAX 255 /* of a name, user or password */

struct atoll_socks {
    /* Set by the caller, borrowed. */
    const char *user, *password;    /* NULL: no authentication */
    const char *name;               /* NULL: the address is asked for */
    const struct in6_addr *address; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
    /* Private. */
    int state;
};

/* Appends the greeting. -EINVAL: a text is too long. */
int atoll_socks_begin(struct atoll_socks *s, struct atoll_buf *out) ATOLL_MUST_CHECK;
/* Reads what the proxy sent and appends what to send next. 1: connected, and bytes left in `in` are the
 * server's; 0: more must come; -ECONNREFUSED, -EHOSTUNREACH … as the proxy says; -EACCES: the proxy
 * refuses the user; -EPROTO. */
int atoll_socks_feed(struct atoll_socks *s, struct atoll_buf *in,
                     struct atoll_buf *out) ATOLL_MUST_CHECK;
