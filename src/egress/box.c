#include "egress/box.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "egress/connection.h"
#include "egress/dns.h"
#include "egress/host_addresses.h"
#include "egress/peers.h"
#include "egress/secrets.h"

/* Connections that one box may open in one turn of the loop. */
#define BATCH 16
/* After a failure or a tenant's limit: a pause in which connections wait in the backlog. */
#define PAUSE_MS 20
/* From this number of open connections on, sockets have buffers of this size (the kernel doubles it). */
#define MANY 128
#define MANY_BYTES (32 * 1024)

struct atoll_network_decision atoll_box_decide(const struct atoll_box *box, const char *name,
                                               const struct in6_addr *address, uint16_t port)
{
    const struct atoll_network_query query = {name, address, port};

    return atoll_network_decide(box->policy, box->bound, &query,
                                address && atoll_host_addresses_has(box->egress->host, address));
}

bool atoll_box_needs_name(const struct atoll_box *box, const struct in6_addr *address,
                          uint16_t port)
{
    return atoll_network_needs_name(box->policy, box->bound, address, port,
                                    atoll_host_addresses_has(box->egress->host, address));
}

void atoll_box_bound_buffers(const struct atoll_box *box, int fd)
{
    const int size = MANY_BYTES;

    if (box->stats.open < MANY)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

void atoll_box_print_rule(const struct atoll_box *box,
                          const struct atoll_network_decision *decision, char *out)
{
    const struct atoll_network_rule *rule = NULL;
    char target[ATOLL_NETWORK_TARGET_TEXT];

    switch (decision->reason) {
    case ATOLL_NETWORK_BY_RULE:
        rule = &box->policy->rules[decision->rule];
        break;
    case ATOLL_NETWORK_BY_OPERATOR:
        rule = &box->bound->rules[decision->rule];
        break;
    case ATOLL_NETWORK_BY_INTERNAL:
        (void)snprintf(out, ATOLL_EGRESS_RULE_MAX, "internal address");
        return;
    case ATOLL_NETWORK_BY_DEFAULT:
        (void)snprintf(out, ATOLL_EGRESS_RULE_MAX, "default");
        return;
    }
    atoll_network_target_print(&rule->target, target, sizeof(target));
    (void)snprintf(out, ATOLL_EGRESS_RULE_MAX, "%s%s %s",
                   decision->reason == ATOLL_NETWORK_BY_OPERATOR ? "operator: " : "",
                   rule->allow ? "allow" : "deny", target);
}

const char *atoll_box_secret(const struct atoll_box *box, const char *name)
{
    return atoll_secrets_get(&box->egress->secrets, box->tenant, name);
}

static void accept_again(void *arg);

static void pause_accepting(struct atoll_box *box)
{
    atoll_watch_close(&box->accepting);
    atoll_timer_set(&box->accept_later, box->egress->loop, PAUSE_MS, accept_again, box);
}

static void on_connections(void *arg, uint32_t events)
{
    struct atoll_box *box = arg;

    if (!(events & EPOLLIN)) {
        pause_accepting(box); /* the namespace is going: a hang-up that stays */
        return;
    }
    for (int i = 0; i < BATCH; i++) {
        int fd = accept4(box->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR))
            return;
        if (fd < 0 || !atoll_connection_start(box, fd)) {
            pause_accepting(box);
            return;
        }
    }
}

static void accept_again(void *arg)
{
    struct atoll_box *box = arg;

    if (atoll_watch_open(&box->accepting, box->egress->loop, box->listen_fd, EPOLLIN,
                         on_connections, box) < 0)
        pause_accepting(box);
}

static uint64_t bytes_per_second(const struct atoll_network_policy *policy)
{
    return (uint64_t)policy->mbps * 1000000 / 8;
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool has_same_proxy(const struct atoll_network_policy *a,
                           const struct atoll_network_policy *b)
{
    return is_same_text(a->proxy_address, b->proxy_address) &&
           is_same_text(a->proxy_user, b->proxy_user) &&
           is_same_text(a->proxy_password, b->proxy_password);
}

static void store_policy(struct atoll_box *box, struct atoll_network_policy *policy,
                         struct atoll_network_bound *bound)
{
    uint64_t rate = bytes_per_second(policy);

    if (!box->policy || rate != box->up.bytes_per_second) {
        atoll_bucket_init(&box->up, rate, atoll_clock_us());
        atoll_bucket_init(&box->down, rate, atoll_clock_us());
    }
    if (box->policy && !has_same_proxy(box->policy, policy))
        box->proxies++;
    (void)atoll_network_policy_free(box->policy);
    (void)atoll_network_bound_free(box->bound);
    box->policy = policy;
    box->bound = bound;
}

/* Of every box: others may be connected to one that left their network. */
static void review_all(struct atoll_egress *egress)
{
    struct atoll_box *box;

    for (size_t pos = 0; (box = atoll_map_next(&egress->boxes, &pos));)
        ATOLL_LIST_FOREACH (&box->connections, node)
            atoll_connection_review(node);
}

void atoll_box_set_policy(struct atoll_box *box, struct atoll_network_policy *policy,
                          struct atoll_network_bound *bound)
{
    bool moves = *box->policy->network && strcmp(box->policy->network, policy->network) != 0;

    store_policy(box, policy, bound);
    if (moves)
        review_all(box->egress);
    else
        ATOLL_LIST_FOREACH (&box->connections, node)
            atoll_connection_review(node);
}

static bool is_same_socket(int a, int b)
{
    struct stat one, two;

    return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

static bool is_listening_tcp(int fd)
{
    int listening = 0, type = 0;
    socklen_t size = sizeof(int), type_size = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && listening &&
           type == SOCK_STREAM;
}

static void close_sockets(struct atoll_box *box)
{
    atoll_watch_close(&box->accepting);
    atoll_timer_cancel(&box->accept_later);
    if (box->listen_fd >= 0)
        (void)close(ATOLL_TAKE_FD(box->listen_fd));
    box->dns = atoll_dns_close(box->dns);
}

int atoll_box_set_sockets(struct atoll_box *box, int listen_fd, int udp_fd, struct atoll_error *err)
{
    int r = 0;

    if (box->listen_fd >= 0 && is_same_socket(box->listen_fd, listen_fd)) {
        (void)close(listen_fd);
        (void)close(udp_fd);
        return 0;
    }
    close_sockets(box);
    box->listen_fd = listen_fd;
    if (!is_listening_tcp(listen_fd) || atoll_fd_set_nonblock(listen_fd, true) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "the first descriptor is not a listening TCP socket");
    if (r < 0) {
        (void)close(udp_fd);
        return r;
    }
    r = atoll_dns_open(box, udp_fd, &box->dns, err);
    if (r == 0 && (r = atoll_watch_open(&box->accepting, box->egress->loop, listen_fd, EPOLLIN,
                                        on_connections, box)) < 0)
        r = atoll_fail_errno(err, -r, "watch the listening socket");
    return r;
}

static void box_free(struct atoll_box *box)
{
    close_sockets(box);
    box->names = atoll_names_free(box->names);
    (void)atoll_network_policy_free(box->policy);
    (void)atoll_network_bound_free(box->bound);
    free(box);
}

int atoll_box_open(struct atoll_egress *egress, const struct atoll_em_put *put, int listen_fd,
                   int udp_fd, struct atoll_network_policy *policy,
                   struct atoll_network_bound *bound, struct atoll_error *err)
{
    struct atoll_box *box = calloc(1, sizeof(*box));
    int r;

    if (!box)
        abort();
    box->egress = egress;
    box->named = true;
    box->listen_fd = ATOLL_NO_FD;
    box->named = true;
    atoll_list_init(&box->connections);
    box->names = atoll_names_new(egress->kept_names, put->id, atoll_loop_now_ms(egress->loop));
    if (atoll_text_copy(box->id, sizeof(box->id), put->id) < 0 || !*box->id ||
        atoll_text_copy(box->tenant, sizeof(box->tenant), put->tenant) < 0 ||
        strlen(put->name) >= ATOLL_EGRESS_ID_MAX) {
        (void)close(listen_fd);
        (void)close(udp_fd);
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a name is too long");
    } else {
        store_policy(box, policy, bound);
        r = atoll_box_set_sockets(box, listen_fd, udp_fd, err);
    }
    if (r == 0 && (r = atoll_map_put(&egress->boxes, box->id, box)) < 0)
        abort();
    if (r == 0)
        atoll_peers_add(box, put->name);
    if (r < 0) {
        box->policy = NULL; /* the caller's, again */
        box->bound = NULL;
        box_free(box);
    }
    return r;
}

void atoll_box_close_connections(struct atoll_box *box)
{
    ATOLL_LIST_FOREACH (&box->connections, node)
        atoll_connection_revoke(node);
}

void atoll_box_remove(struct atoll_box *box)
{
    close_sockets(box);
    atoll_box_close_connections(box);
    atoll_peers_remove(box);
    (void)atoll_map_remove(&box->egress->boxes, box->id);
    box_free(box);
}
