#include "egress/dns.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "egress/dns_internal.h"

#define DATAGRAMS 32 /* of one sandbox in one turn of the loop */
#define QUESTION_MAX 4096

static ssize_t receive(int fd, struct atoll_dns_reply *to, uint8_t *bytes, size_t cap)
{
    struct iovec part = {bytes, cap};
    struct msghdr m = {.msg_name = &to->peer,
                       .msg_namelen = sizeof(to->peer),
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = to->control,
                       .msg_controllen = sizeof(to->control)};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC);

    to->peer_len = m.msg_namelen;
    to->control_len = m.msg_controllen;
    return n;
}

static void on_readable(void *arg, uint32_t events)
{
    struct atoll_dns *dns = arg;
    uint8_t bytes[QUESTION_MAX];

    (void)events;
    for (int i = 0; i < DATAGRAMS; i++) {
        struct atoll_dns_reply to = {0};
        ssize_t n = receive(dns->fd, &to, bytes, sizeof(bytes));
        if (n < 0)
            return; /* EAGAIN, or an ICMP error about an answer that came too late */
        if ((size_t)n <= sizeof(bytes))
            (void)!atoll_dns_take(dns, bytes, (size_t)n, &to, &dns->queries);
    }
}

int atoll_dns_open(struct atoll_box *box, int udp_fd, struct atoll_dns **ret,
                   struct atoll_error *err)
{
    struct atoll_dns *dns = calloc(1, sizeof(*dns));
    int r = -ENOMEM;

    if (dns)
        r = atoll_watch_open(&dns->watch, box->egress->loop, udp_fd, EPOLLIN, on_readable, dns);
    if (r < 0) {
        free(dns);
        (void)close(udp_fd);
        return atoll_fail_errno(err, -r, "serving DNS for sandbox %s", box->id);
    }
    dns->box = box;
    dns->fd = udp_fd;
    atoll_list_init(&dns->queries);
    atoll_list_init(&dns->streams);
    atoll_dns_guard_init(&dns->guard);
    *ret = dns;
    return 0;
}

struct atoll_dns *atoll_dns_close(struct atoll_dns *dns)
{
    if (!dns)
        return NULL;
    atoll_watch_close(&dns->watch);
    ATOLL_LIST_FOREACH (&dns->queries, node)
        atoll_dns_query_free(ATOLL_CONTAINER_OF(node, struct atoll_dns_query, node));
    atoll_dns_end_streams(dns);
    (void)close(dns->fd);
    atoll_dns_guard_done(&dns->guard);
    free(dns);
    return NULL;
}

void atoll_dns_send(struct atoll_dns *dns, const struct atoll_dns_reply *to, const uint8_t *bytes,
                    size_t n)
{
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr m = {.msg_name = (void *)(uintptr_t)&to->peer,
                       .msg_namelen = to->peer_len,
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = to->control_len > 0 ? (void *)(uintptr_t)to->control : NULL,
                       .msg_controllen = to->control_len};

    if (to->stream)
        atoll_dns_stream_send(to->stream, bytes, n);
    else
        (void)!sendmsg(dns->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}
