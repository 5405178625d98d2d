#pragma once
#include "egress/dns.h"
#include "egress/dns_guard.h"
#include "egress/dns_wire.h"
#include "egress/forward.h"

/*
 * dns.c receives questions by UDP, dns_stream.c by TCP; dns_query.c answers them.
 */

#define ATOLL_DNS_RECENT 32 /* questions whose equals are not reported again */

struct atoll_dns_recent {
    uint32_t what; /* hash of the name and how it ended */
    int64_t at_ms;
};

struct atoll_dns {
    struct atoll_box *box;
    int fd;
    struct atoll_watch watch;
    struct atoll_list queries; /* that came by UDP */
    struct atoll_list streams; /* of struct atoll_dns_stream */
    size_t pending;            /* questions, by UDP and TCP */
    struct atoll_dns_guard guard;
    struct atoll_dns_recent recent[ATOLL_DNS_RECENT];
    size_t next_recent;
};

/* Where an answer goes. */
struct atoll_dns_reply {
    struct sockaddr_storage peer; /* UDP */
    socklen_t peer_len;
    /* UDP: the IPV6_PKTINFO of the question; sent with the answer, so that this comes from the address that
     * was asked. */
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    size_t control_len;
    struct atoll_dns_stream *stream; /* TCP; NULL: UDP */
};

/* One question under way. */
struct atoll_dns_query {
    struct atoll_list node; /* of dns->queries, or of the stream */
    struct atoll_dns *dns;
    struct atoll_dns_reply to;
    struct atoll_dns_question question;
    int64_t started_unix_ms;
    struct atoll_lookup *lookup;
    struct atoll_forward *forward;
};

/* Takes a question and answers it, now or later. Until it is answered it is in `list`. -EBADMSG: the bytes
 * are not a question. */
int atoll_dns_take(struct atoll_dns *dns, const uint8_t *bytes, size_t n,
                   const struct atoll_dns_reply *to, struct atoll_list *list) ATOLL_MUST_CHECK;
/* Drops a question that is under way. */
void atoll_dns_query_free(struct atoll_dns_query *query);

/* Sends an answer; one that cannot be sent is lost. */
void atoll_dns_send(struct atoll_dns *dns, const struct atoll_dns_reply *to, const uint8_t *bytes,
                    size_t n);
void atoll_dns_stream_send(struct atoll_dns_stream *s, const uint8_t *bytes, size_t n);
/* Ends the streams of a server that closes; each tells its owner. */
void atoll_dns_end_streams(struct atoll_dns *dns);
/* A question of the stream is answered, outside of its own callbacks. */
void atoll_dns_stream_answered(struct atoll_dns_stream *s);
