/*
 * Targets as text: a destination, then optional ports. Addresses of IPv6 with ports are in brackets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "network/policy_internal.h"

#define DOMAIN_MAX 253
#define LABEL_MAX 63

/* The destination and the ports of a text; ports is NULL if the text names no ports. */
struct parts {
    char host[DOMAIN_MAX + 8];
    const char *ports;
};

/* A name without brackets has its ports behind the only colon; with several, it is an IPv6 address. */
static bool split(const char *text, struct parts *ret)
{
    const char *begin = text, *end;
    size_t n;

    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
        ret->ports = end[1] ? end + 2 : NULL;
    } else {
        end = strchr(text, ':');
        if (end && strchr(end + 1, ':'))
            end = NULL;
        ret->ports = end ? end + 1 : NULL;
        end = end ? end : text + strlen(text);
    }
    n = (size_t)(end - begin);
    if (n == 0 || n >= sizeof(ret->host))
        return false;
    memcpy(ret->host, begin, n);
    ret->host[n] = '\0';
    return *text != '[' || strchr(ret->host, ':');
}

static bool parse_ports(const char *text, struct atoll_network_target *t)
{
    char first[8];
    const char *dash = strchr(text, '-');
    size_t n = dash ? (size_t)(dash - text) : strlen(text);
    uint64_t low, high;

    if (n >= sizeof(first))
        return false;
    memcpy(first, text, n);
    first[n] = '\0';
    if (atoll_text_u64(first, 1, UINT16_MAX, &low) < 0)
        return false;
    high = low;
    if (dash && atoll_text_u64(dash + 1, low, UINT16_MAX, &high) < 0)
        return false;
    t->port_first = (uint16_t)low;
    t->port_last = (uint16_t)high;
    return true;
}

static void clear_host_bits(struct in6_addr *address, unsigned bits)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = bits > 8 * i ? ATOLL_MIN(bits - 8 * i, 8u) : 0;
        address->s6_addr[i] &= (uint8_t)(0xff00u >> keep);
    }
}

/* An address, with an optional length of the prefix. Cuts `host` at the slash. */
static bool parse_range(char *host, struct atoll_network_target *t)
{
    char *slash = strchr(host, '/');
    struct in_addr v4;
    uint64_t bits;
    bool is_v4;

    if (slash)
        *slash = '\0';
    is_v4 = inet_pton(AF_INET, host, &v4) == 1;
    if (is_v4) {
        t->address = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(t->address.s6_addr + 12, &v4, sizeof(v4));
    } else if (inet_pton(AF_INET6, host, &t->address) != 1) {
        if (slash)
            *slash = '/';
        return false;
    }
    bits = is_v4 ? 32 : 128;
    if (slash && atoll_text_u64(slash + 1, 0, bits, &bits) < 0)
        return false;
    t->bits = (uint8_t)(bits + (is_v4 ? 96 : 0));
    clear_host_bits(&t->address, t->bits);
    return true;
}

/* A name whose last label is a number is read as an address by resolvers ("0x7f.1", "2130706433"). */
static bool is_number(const char *label)
{
    if (label[0] == '0' && (label[1] == 'x' || label[1] == 'X'))
        return strspn(label + 2, "0123456789abcdefABCDEF") == strlen(label + 2);
    return strspn(label, "0123456789") == strlen(label);
}

static bool is_domain(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *label = name;

    if (strlen(name) > DOMAIN_MAX)
        return false;
    for (;;) {
        size_t n = strcspn(label, ".");
        if (n == 0 || n > LABEL_MAX || !strchr(letters, label[0]) || !strchr(letters, label[n - 1]))
            return false;
        for (size_t i = 0; i < n; i++)
            if (label[i] != '-' && !strchr(letters, label[i]))
                return false;
        if (!label[n])
            return !is_number(label);
        label += n + 1;
    }
}

/* 1: a domain, 0: not one, -ENOMEM. Cuts the final dot off. */
static int parse_domain(char *host, struct atoll_network_target *t)
{
    size_t n = strlen(host);

    if (n > 1 && host[n - 1] == '.')
        host[n - 1] = '\0';
    t->subdomains = strncmp(host, "*.", 2) == 0;
    if (!is_domain(host + (t->subdomains ? 2 : 0)))
        return 0;
    t->domain = strdup(host + (t->subdomains ? 2 : 0));
    if (!t->domain)
        return -ENOMEM;
    for (char *p = t->domain; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return 1;
}

int atoll_network_target_parse(const char *text, struct atoll_network_target *ret,
                               struct atoll_error *err)
{
    struct atoll_network_target t = {0};
    struct parts parts;
    int r = 0;

    if (split(text, &parts) && (!parts.ports || parse_ports(parts.ports, &t))) {
        t.any = strcmp(parts.host, "*") == 0;
        r = t.any || parse_range(parts.host, &t);
        /* A colon means an address: names have none. */
        if (!r && !strchr(parts.host, ':'))
            r = parse_domain(parts.host, &t);
    }
    if (r < 0)
        return atoll_network_no_memory(err);
    if (!r)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"%.100s\" is not a domain, address or range; for example "
                          "\"*.example.org\", \"203.0.113.0/24\" or \"example.org:443\"",
                          text);
    *ret = t;
    return 0;
}

void atoll_network_target_done(struct atoll_network_target *target)
{
    free(target->domain);
    *target = (struct atoll_network_target){0};
}

static void print_range(const struct atoll_network_target *t, char *out, size_t cap)
{
    bool is_v4 = t->bits >= 96 && atoll_network_is_v4(&t->address);
    bool bracket = !is_v4 && t->port_first;
    unsigned bits = t->bits - (is_v4 ? 96u : 0u);
    char text[INET6_ADDRSTRLEN], length[8] = "";

    (void)inet_ntop(is_v4 ? AF_INET : AF_INET6,
                    is_v4 ? (const void *)(t->address.s6_addr + 12) : t->address.s6_addr, text,
                    sizeof(text));
    if (bits < (is_v4 ? 32u : 128u))
        (void)snprintf(length, sizeof(length), "/%u", bits);
    (void)snprintf(out, cap, "%s%s%s%s", bracket ? "[" : "", text, length, bracket ? "]" : "");
}

void atoll_network_target_print(const struct atoll_network_target *target, char *out, size_t cap)
{
    size_t n;

    if (target->any)
        (void)snprintf(out, cap, "*");
    else if (target->domain)
        (void)snprintf(out, cap, "%s%s", target->subdomains ? "*." : "", target->domain);
    else
        print_range(target, out, cap);
    n = strlen(out);
    if (target->port_first && target->port_first == target->port_last)
        (void)snprintf(out + n, cap - n, ":%u", target->port_first);
    else if (target->port_first)
        (void)snprintf(out + n, cap - n, ":%u-%u", target->port_first, target->port_last);
}

bool atoll_network_match_port(const struct atoll_network_target *target, uint16_t port)
{
    return !target->port_first || (port >= target->port_first && port <= target->port_last);
}

bool atoll_network_match_name(const struct atoll_network_target *target, const char *name)
{
    size_t n, own;

    if (target->any)
        return true;
    if (!name || !target->domain)
        return false;
    n = strlen(name);
    if (n > 0 && name[n - 1] == '.')
        n--;
    own = strlen(target->domain);
    if (!target->subdomains)
        return n == own && strncasecmp(name, target->domain, n) == 0;
    return n > own + 1 && name[n - own - 1] == '.' &&
           strncasecmp(name + n - own, target->domain, own) == 0;
}

bool atoll_network_match_address(const struct atoll_network_target *target,
                                 const struct in6_addr *address)
{
    bool is_v4 = target->bits >= 96 && atoll_network_is_v4(&target->address);

    if (target->any)
        return true;
    return !target->domain && is_v4 == atoll_network_is_v4(address) &&
           atoll_network_same_prefix(&target->address, address, target->bits);
}
