#pragma once
#include <netinet/in.h>
#include "base/defs.h"

/*
 * Messages of DNS (RFC 1035, EDNS0 by RFC 6891): reads the question of a sandbox, writes answers to it,
 * writes the question for a name server and checks its answer. Pure; accepts any bytes. A compression
 * pointer is followed only to an earlier place than the one before, so every name ends.
 */
#define ATOLL_DNS_HEADER 12
#define ATOLL_DNS_NAME_MAX 254      /* text without the trailing dot, with NUL */
#define ATOLL_DNS_NAME_WIRE_MAX 255 /* RFC 1035 2.3.4 */
#define ATOLL_DNS_LABEL_MAX 63
#define ATOLL_DNS_MESSAGE_MAX 65535
#define ATOLL_DNS_UDP_PLAIN 512  /* answers by UDP without EDNS0 */
#define ATOLL_DNS_UDP_MAX 4096   /* answers by UDP at most, whatever EDNS0 says */
#define ATOLL_DNS_UDP_ASKED 1232 /* what we ask of name servers: fits every path */

enum atoll_dns_type {
    ATOLL_DNS_A = 1,
    ATOLL_DNS_NS = 2,
    ATOLL_DNS_CNAME = 5,
    ATOLL_DNS_SOA = 6,
    ATOLL_DNS_PTR = 12,
    ATOLL_DNS_MX = 15,
    ATOLL_DNS_TXT = 16,
    ATOLL_DNS_AAAA = 28,
    ATOLL_DNS_SRV = 33,
    ATOLL_DNS_NAPTR = 35,
    ATOLL_DNS_OPT = 41,
    ATOLL_DNS_SVCB = 64,
    ATOLL_DNS_HTTPS = 65,
    ATOLL_DNS_CAA = 257,
};

enum atoll_dns_rcode {
    ATOLL_DNS_NOERROR = 0,
    ATOLL_DNS_FORMERR = 1,
    ATOLL_DNS_SERVFAIL = 2,
    ATOLL_DNS_NXDOMAIN = 3,
    ATOLL_DNS_NOTIMP = 4,
    ATOLL_DNS_REFUSED = 5,
    ATOLL_DNS_BADVERS = 16,
};

struct atoll_dns_question {
    uint16_t id;
    uint16_t flags;                /* RD and CD of the question */
    char name[ATOLL_DNS_NAME_MAX]; /* lower case; "" is the root */
    uint16_t type;                 /* of class IN */
    bool edns;
    uint16_t udp_max; /* most bytes of an answer by UDP */
    /* The name as it was asked (upper and lower case), type and class; wire_len 0: not readable. */
    uint8_t wire[ATOLL_DNS_NAME_WIRE_MAX + 4];
    size_t wire_len;
};

/* Returns 0, or the code to refuse it with (FORMERR, NOTIMP, REFUSED, BADVERS: *ret is good for
 * atoll_dns_write_empty()), or -EBADMSG: not a question, no answer is due. Bytes of a label are
 * printable, without dot and backslash, so that the text of a name has one meaning. */
int atoll_dns_parse_question(const uint8_t *bytes, size_t n,
                             struct atoll_dns_question *ret) ATOLL_MUST_CHECK;

/* The following write a message to `out`, of ATOLL_DNS_UDP_PLAIN bytes at least, and return its length. An
 * answer that is too long for `cap` has the TC bit and no records: the client asks again by TCP. */
size_t atoll_dns_write_empty(const struct atoll_dns_question *q, unsigned rcode, uint8_t *out,
                             size_t cap);
/* Those of the addresses that the question asks for: IPv4 (::ffff:a.b.c.d) for A, others for AAAA. */
size_t atoll_dns_write_addresses(const struct atoll_dns_question *q,
                                 const struct in6_addr *addresses, size_t count, uint32_t ttl_s,
                                 uint8_t *out, size_t cap);
/* The question for a name server, with an id of its own. */
size_t atoll_dns_write_question(const struct atoll_dns_question *q, uint16_t id, uint8_t *out,
                                size_t cap);

/* An answer of a name server; refers to its bytes. */
struct atoll_dns_answer {
    const uint8_t *bytes;
    size_t kept;      /* up to the end of the authority section */
    uint8_t rcode;    /* of the header */
    bool truncated;   /* ask again by TCP */
    bool has_address; /* A or AAAA among the answers */
};

/* Whether these bytes answer that question; -EBADMSG otherwise. */
int atoll_dns_parse_answer(const uint8_t *bytes, size_t n, const struct atoll_dns_question *q,
                           uint16_t id, struct atoll_dns_answer *ret) ATOLL_MUST_CHECK;
/* Passes an answer on, without its additional section: that may have addresses. */
size_t atoll_dns_write_answer(const struct atoll_dns_question *q,
                              const struct atoll_dns_answer *answer, uint8_t *out, size_t cap);

/* The address in a name such as 1.2.0.192.in-addr.arpa or ….ip6.arpa. False: not such a name, or only a
 * part of an address. */
bool atoll_dns_reverse_address(const char *name, struct in6_addr *ret);
