/*
 * Addresses that are never on the public internet. Sources: the registries of special-purpose addresses
 * of IANA (RFC 6890), without the ranges for documentation: networks of some sites live there.
 */
#include <arpa/inet.h>
#include <string.h>
#include "network/policy_internal.h"

struct range {
    uint8_t prefix[16];
    uint8_t bits;
};

#define V4(a, b, bits)                                \
    {                                                 \
        {[10] = 0xff, [11] = 0xff, a, b}, 96 + (bits) \
    }

static const struct range internal_ranges[] = {
    V4(0, 0, 8),                       /* this network */
    V4(10, 0, 8),                      /* private */
    V4(100, 64, 10),                   /* shared address space; sandboxes' own address */
    V4(127, 0, 8),                     /* loopback */
    V4(169, 254, 16),                  /* link-local; the metadata address */
    V4(172, 16, 12),                   /* private */
    V4(192, 0, 24),                    /* protocol assignments */
    V4(192, 168, 16),                  /* private */
    V4(198, 18, 15),                   /* benchmarks */
    V4(224, 0, 4),                     /* multicast */
    V4(240, 0, 4),                     /* reserved; broadcast */
    {{0}, 96},                         /* unspecified, loopback, IPv4-compatible */
    {{0x01, 0}, 64},                   /* discard */
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 48}, /* NAT64 of the site */
    {{0x20, 0x01}, 32},                /* Teredo */
    {{0x20, 0x01, 0, 2}, 48},          /* benchmarks */
    {{0x5f, 0}, 16},                   /* segment routing */
    {{0xfc}, 7},                       /* unique local; fd61:746f:6c6c::1 is a sandbox's own */
    {{0xfe, 0x80}, 10},                /* link-local */
    {{0xfe, 0xc0}, 10},                /* site-local */
    {{0xff}, 8},                       /* multicast */
};

/* IPv6 addresses that stand for an IPv4 address, which begins at byte `at`. */
static const struct {
    struct range range;
    uint8_t at;
} outer_ranges[] = {
    {{{0, 0x64, 0xff, 0x9b}, 96}, 12},    /* NAT64, RFC 6052 */
    {{{0x20, 0x02}, 16}, 2},              /* 6to4, RFC 3056 */
    {{{[8] = 0xff, [9] = 0xff}, 96}, 12}, /* IPv4-translated, RFC 7915 */
};

bool atoll_network_same_prefix(const struct in6_addr *a, const struct in6_addr *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;
    uint8_t mask = (uint8_t)(0xff00u >> rest);

    if (memcmp(a->s6_addr, b->s6_addr, bytes) != 0)
        return false;
    return rest == 0 || ((a->s6_addr[bytes] ^ b->s6_addr[bytes]) & mask) == 0;
}

static bool in_range(const struct in6_addr *address, const struct range *range)
{
    struct in6_addr prefix;

    memcpy(prefix.s6_addr, range->prefix, sizeof(prefix.s6_addr));
    return atoll_network_same_prefix(address, &prefix, range->bits);
}

bool atoll_network_is_v4(const struct in6_addr *address)
{
    return IN6_IS_ADDR_V4MAPPED(address);
}

bool atoll_network_inner_address(const struct in6_addr *address, struct in6_addr *ret)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(outer_ranges); i++) {
        if (!in_range(address, &outer_ranges[i].range))
            continue;
        *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(ret->s6_addr + 12, address->s6_addr + outer_ranges[i].at, 4);
        return true;
    }
    return false;
}

bool atoll_network_is_internal(const struct in6_addr *address)
{
    struct in6_addr inner;

    if (atoll_network_inner_address(address, &inner))
        address = &inner;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(internal_ranges); i++)
        if (in_range(address, &internal_ranges[i]))
            return true;
    return false;
}

bool atoll_network_is_public(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    struct in6_addr any = {.s6_addr = {[10] = 0xff, [11] = 0xff}}; /* IPv4 mapped into IPv6 */

    if (address->sa_family == AF_INET6)
        any = v6->sin6_addr;
    else if (address->sa_family == AF_INET)
        memcpy(any.s6_addr + 12, &v4->sin_addr, sizeof(v4->sin_addr));
    else
        return false;
    return !atoll_network_is_internal(&any);
}
