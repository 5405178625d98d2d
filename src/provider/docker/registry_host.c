/*
 * Which registries a client may make the engine contact. The engine is on this host and in its
 * network, where the client is not. So images may come from public host names only, unless the
 * operator allows more (`registries`, `private_registries`).
 *
 * The engine resolves the name once more; this does not stop a name server that gives it another
 * address then.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "provider/docker/body.h"

/* Not public: RFC 6890 and similar ranges. */
static const struct {
    const char *address;
    unsigned bits;
} inner4[] = {{"0.0.0.0", 8},      {"10.0.0.0", 8},    {"100.64.0.0", 10}, {"127.0.0.0", 8},
              {"169.254.0.0", 16}, {"172.16.0.0", 12}, {"192.0.0.0", 24},  {"192.168.0.0", 16},
              {"198.18.0.0", 15},  {"224.0.0.0", 4},   {"240.0.0.0", 4}},
  inner6[] = {{"::", 96},     {"::ffff:0:0", 96}, {"64:ff9b::", 96}, {"2001::", 32},
              {"2002::", 16}, {"fc00::", 7},      {"fe80::", 10},    {"ff00::", 8}};

static bool within(const uint8_t *address, const uint8_t *net, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(address, net, whole) == 0 &&
           (rest == 0 || (address[whole] ^ net[whole]) >> (8 - rest) == 0);
}

static bool is_inner(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    uint8_t net[16];

    for (size_t i = 0; address->sa_family == AF_INET && i < ATOLL_ARRAY_LEN(inner4); i++)
        if (inet_pton(AF_INET, inner4[i].address, net) == 1 &&
            within((const void *)&v4->sin_addr, net, inner4[i].bits))
            return true;
    for (size_t i = 0; address->sa_family == AF_INET6 && i < ATOLL_ARRAY_LEN(inner6); i++)
        if (inet_pton(AF_INET6, inner6[i].address, net) == 1 &&
            within((const void *)&v6->sin6_addr, net, inner6[i].bits))
            return true;
    return false;
}

bool atoll_docker_registry_is_inner(const char *registry)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    struct in_addr any;
    bool inner = false;
    char host[256];

    (void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(registry, ":"), registry);
    /* IP addresses in every spelling (127.1, 0x7f000001), and names without a dot. */
    if (*registry == '[' || inet_aton(host, &any) || !strchr(host, '.'))
        return true;
    /* A name that this host cannot resolve may be known to the engine or to its proxy. */
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    for (const struct addrinfo *a = list; a && !inner; a = a->ai_next)
        inner = is_inner(a->ai_addr);
    freeaddrinfo(list);
    return inner;
}
