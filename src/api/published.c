#include "api/published.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "access/previews.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/listener.h"

struct atoll_published {
    struct atoll_loop *loop;
    struct atoll_ports *ports;
    struct atoll_list all; /* of struct published_port */
};

struct published_port {
    struct atoll_list node;
    struct atoll_published *published;
    char sandbox_id[ATOLL_ID_LEN + 1];
    uint16_t port;
    char address[ATOLL_PREVIEW_ADDRESS_MAX];
    struct atoll_listener *listener; /* owned */
};

struct atoll_published *atoll_published_new(struct atoll_loop *loop, struct atoll_ports *ports)
{
    struct atoll_published *published = atoll_alloc(sizeof(*published));

    *published = (struct atoll_published){.loop = loop, .ports = ports};
    atoll_list_init(&published->all);
    return published;
}

static void end(struct published_port *p)
{
    p->listener = atoll_listener_close(p->listener);
    atoll_list_remove(&p->node);
    free(p);
}

struct atoll_published *atoll_published_free(struct atoll_published *published)
{
    if (published)
        while (!atoll_list_empty(&published->all))
            end(ATOLL_CONTAINER_OF(published->all.next, struct published_port, node));
    free(published);
    return NULL;
}

static void connection_ended(void *arg)
{
    (void)arg;
}

static void accepted(void *arg, int fd, bool is_unix)
{
    struct published_port *p = arg;

    (void)is_unix;
    atoll_ports_relay(p->published->ports, p->sandbox_id, p->port, fd, connection_ended, NULL);
}

static int fail_address(struct atoll_error *err, const char *address)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "an address to publish at is PORT, IP:PORT or [IP6]:PORT, such as "
                      "127.0.0.1:8080 (got \"%.60s\")",
                      address);
}

/* Splits the address in a host without brackets, which is an IP address, and a port. */
static int split(const char *address, char host[INET6_ADDRSTRLEN], uint16_t *ret_port,
                 struct atoll_error *err)
{
    const char *colon = strrchr(address, ':'), *from = address;
    size_t n = colon ? (size_t)(colon - address) : 0;
    struct in6_addr ip;
    uint64_t port;

    if (n >= 2 && from[0] == '[' && from[n - 1] == ']') {
        from++;
        n -= 2;
    }
    if (n >= INET6_ADDRSTRLEN || atoll_text_u64(colon ? colon + 1 : address, 0, 65535, &port) < 0)
        return fail_address(err, address);
    (void)snprintf(host, INET6_ADDRSTRLEN, "%.*s", (int)n, from);
    if (!colon)
        (void)snprintf(host, INET6_ADDRSTRLEN, "127.0.0.1");
    if (inet_pton(from == address ? AF_INET : AF_INET6, host, &ip) != 1)
        return fail_address(err, address);
    *ret_port = (uint16_t)port;
    return 0;
}

static void join(char out[ATOLL_PREVIEW_ADDRESS_MAX], const char *host, uint16_t port)
{
    bool is_ip6 = strchr(host, ':') != NULL;

    (void)snprintf(out, ATOLL_PREVIEW_ADDRESS_MAX, "%s%s%s:%u", is_ip6 ? "[" : "", host,
                   is_ip6 ? "]" : "", port);
}

static struct published_port *find(const struct atoll_published *published, const char *sandbox_id,
                                   uint16_t port)
{
    ATOLL_LIST_FOREACH (&published->all, node) {
        struct published_port *p = ATOLL_CONTAINER_OF(node, struct published_port, node);
        if (p->port == port && strcmp(p->sandbox_id, sandbox_id) == 0)
            return p;
    }
    return NULL;
}

int atoll_published_open(struct atoll_published *published, const char *sandbox_id, uint16_t port,
                         const char *address, char *ret, struct atoll_error *err)
{
    struct published_port *old = find(published, sandbox_id, port), *p;
    char host[INET6_ADDRSTRLEN], full[ATOLL_PREVIEW_ADDRESS_MAX];
    uint16_t at = 0;
    int r = split(address, host, &at, err);

    if (r < 0)
        return r;
    join(full, host, at);
    if (old && at != 0 && strcmp(old->address, full) == 0) {
        (void)snprintf(ret, ATOLL_PREVIEW_ADDRESS_MAX, "%s", full);
        return 0;
    }
    p = atoll_alloc(sizeof(*p));
    *p = (struct published_port){.published = published, .port = port};
    (void)!atoll_text_copy(p->sandbox_id, sizeof(p->sandbox_id), sandbox_id);
    r = atoll_listener_open_tcp(published->loop, full, accepted, p, &at, &p->listener, err);
    if (r < 0) {
        free(p);
        return r;
    }
    if (old)
        end(old);
    join(p->address, host, at);
    (void)snprintf(ret, ATOLL_PREVIEW_ADDRESS_MAX, "%s", p->address);
    atoll_list_push_back(&published->all, &p->node);
    return 0;
}

void atoll_published_close(struct atoll_published *published, const char *sandbox_id, uint16_t port)
{
    ATOLL_LIST_FOREACH (&published->all, node) {
        struct published_port *p = ATOLL_CONTAINER_OF(node, struct published_port, node);
        if ((port == 0 || p->port == port) && strcmp(p->sandbox_id, sandbox_id) == 0)
            end(p);
    }
}
