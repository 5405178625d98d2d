#pragma once
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/resolve.h"

/*
 * The DNS server of each sandbox, by UDP and TCP. Everything that a sandbox asks counts in
 * box->stats.queries. What it answers:
 *
 *   A, AAAA                by the host's resolver (resolve.h), TTL 60; internal addresses are left out unless
 *                          the operator's bound permits them; the rest is remembered in box->names
 *   NS, CNAME, SOA, PTR, MX, TXT, SRV, NAPTR, CAA   by the name servers of the host (forward.h)
 *   SVCB, HTTPS            no data, so that clients use neither ECH nor QUIC
 *   other types            NOTIMP
 *   a name that the policy denies        NXDOMAIN
 *   beyond the limits of dns_guard.h     REFUSED
 *   localhost, NAME.localhost            127.0.0.1 and ::1
 *   NAME, NAME.internal                  a sandbox of the same network (peers.h), or NXDOMAIN
 *   PTR of an internal address           NXDOMAIN
 */
#define ATOLL_DNS_TTL_S 60
#define ATOLL_DNS_PENDING_MAX 256       /* questions of one sandbox under way; SERVFAIL beyond */
#define ATOLL_DNS_STREAM_PENDING_MAX 16 /* of one TCP connection; it is not read meanwhile */
#define ATOLL_DNS_STREAM_IDLE_MS 30000

/* Serves DNS on the sandbox's UDP socket, which is taken, also on failure. */
int atoll_dns_open(struct atoll_box *box, int udp_fd, struct atoll_dns **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Its streams end by themselves then. Accepts NULL; returns NULL. */
struct atoll_dns *atoll_dns_close(struct atoll_dns *dns);

/* Serves DNS on a TCP connection of the sandbox (to port 53 of any address). */
struct atoll_dns_stream;
/* Takes fd, also on failure (NULL). end is called once, from the loop, when the connection has ended by
 * itself; it frees the stream. */
struct atoll_dns_stream *atoll_dns_stream_open(struct atoll_box *box, int fd,
                                               void (*end)(void *arg), void *arg);
/* end is not called. Accepts NULL; returns NULL. */
struct atoll_dns_stream *atoll_dns_stream_close(struct atoll_dns_stream *s);
