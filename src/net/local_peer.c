#include "net/local_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

#define ADDRESS_MAX 48 /* of the table: 32 hex digits, a colon, 4 hex digits */

static bool is_loopback6(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

/* The address as the table writes it; *ret_table: which table. */
static int as_in_table(const char *address, char *out, const char **ret_table)
{
    const char *colon = strrchr(address, ':');
    bool is_v6 = *address == '[';
    char host[ADDRESS_MAX];
    struct in6_addr six;
    struct in_addr four;
    uint64_t port;
    size_t n;

    if (!colon || atoll_text_u64(colon + 1, 1, 65535, &port) < 0)
        return -ENOENT;
    n = (size_t)(colon - address);
    if (n >= sizeof(host) || n < 2)
        return -ENOENT;
    (void)snprintf(host, sizeof(host), "%.*s", (int)(is_v6 ? n - 2 : n), address + is_v6);
    if (is_v6) {
        if (inet_pton(AF_INET6, host, &six) != 1 || !is_loopback6(&six))
            return -ENOENT;
        (void)snprintf(out, ADDRESS_MAX, "%08X%08X%08X%08X:%04X", six.s6_addr32[0],
                       six.s6_addr32[1], six.s6_addr32[2], six.s6_addr32[3], (unsigned)port);
        *ret_table = "/proc/net/tcp6";
        return 0;
    }
    if (inet_pton(AF_INET, host, &four) != 1 || (ntohl(four.s_addr) >> 24) != 127)
        return -ENOENT;
    (void)snprintf(out, ADDRESS_MAX, "%08X:%04X", four.s_addr, (unsigned)port);
    *ret_table = "/proc/net/tcp";
    return 0;
}

int atoll_local_peer_uid(const char *address, uid_t *ret_uid)
{
    char wanted[ADDRESS_MAX], line[512], local[ADDRESS_MAX], remote[ADDRESS_MAX];
    const char *table;
    unsigned uid, found = 0;
    FILE *file;
    int r = as_in_table(address, wanted, &table);

    if (r < 0)
        return r;
    file = fopen(table, "re");
    if (!file)
        return -errno;
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, " %*u: %47s %47s %*x %*s %*s %*s %u", local, remote, &uid) != 3 ||
            strcmp(local, wanted) != 0)
            continue;
        if (found > 0 && *ret_uid != uid)
            r = -ENOENT;
        *ret_uid = uid;
        found++;
    }
    (void)fclose(file);
    return r < 0 || found == 0 ? -ENOENT : 0;
}
