#include "sys/netlink.h"

#include <endian.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include "base/fd.h"

void atoll_netlink_init(struct atoll_netlink *nl)
{
    nl->len = nl->message = 0;
    nl->sequence = 0;
    nl->full = false;
}

/* Room for len bytes, with the padding that follows them; NULL: no room. */
static uint8_t *grow(struct atoll_netlink *nl, size_t len)
{
    uint8_t *at = nl->bytes + nl->len;

    if (nl->full || len > sizeof(nl->bytes) - nl->len - NLMSG_ALIGNTO) {
        nl->full = true;
        return NULL;
    }
    memset(at, 0, NLMSG_ALIGN(len));
    nl->len += NLMSG_ALIGN(len);
    return at;
}

static void set_message_length(struct atoll_netlink *nl)
{
    uint32_t len = (uint32_t)(nl->len - nl->message);
    memcpy(nl->bytes + nl->message + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
}

void atoll_netlink_begin(struct atoll_netlink *nl, uint16_t type, uint16_t flags,
                         const void *header, size_t header_len)
{
    struct nlmsghdr h = {.nlmsg_type = type,
                         .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                         .nlmsg_seq = ++nl->sequence};
    uint8_t *at;

    nl->message = nl->len;
    at = grow(nl, sizeof(h) + header_len);
    if (!at)
        return;
    memcpy(at, &h, sizeof(h));
    memcpy(at + sizeof(h), header, header_len);
    set_message_length(nl);
}

void atoll_netlink_put(struct atoll_netlink *nl, uint16_t type, const void *data, size_t len)
{
    struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + len), .nla_type = type};
    uint8_t *at = grow(nl, sizeof(a) + len);

    if (!at)
        return;
    memcpy(at, &a, sizeof(a));
    if (len > 0)
        memcpy(at + sizeof(a), data, len);
    set_message_length(nl);
}

void atoll_netlink_put_text(struct atoll_netlink *nl, uint16_t type, const char *text)
{
    atoll_netlink_put(nl, type, text, strlen(text) + 1);
}

void atoll_netlink_put_be32(struct atoll_netlink *nl, uint16_t type, uint32_t value)
{
    value = htobe32(value);
    atoll_netlink_put(nl, type, &value, sizeof(value));
}

size_t atoll_netlink_nest(struct atoll_netlink *nl, uint16_t type)
{
    size_t nest = nl->len;

    atoll_netlink_put(nl, type | NLA_F_NESTED, NULL, 0);
    return nest;
}

void atoll_netlink_nest_end(struct atoll_netlink *nl, size_t nest)
{
    uint16_t len = (uint16_t)(nl->len - nest);

    if (!nl->full)
        memcpy(nl->bytes + nest + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

/* Reads the kernel's answers until `last` is acknowledged or a message failed. */
static int read_answers(int fd, uint32_t last)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[4096];
    } in;
    struct nlmsgerr answer;

    for (;;) {
        ssize_t n = recv(fd, &in, sizeof(in), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if ((size_t)n < sizeof(in.head) + sizeof(answer) || in.head.nlmsg_type != NLMSG_ERROR)
            return -EBADMSG;
        memcpy(&answer, in.bytes + sizeof(in.head), sizeof(answer));
        if (answer.error != 0 || in.head.nlmsg_seq == last)
            return answer.error;
    }
}

int atoll_netlink_send(const struct atoll_netlink *nl, int protocol, uint32_t last)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ATOLL_AUTOCLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (nl->full)
        return -ENOBUFS;
    if (fd < 0 || sendto(fd, nl->bytes, nl->len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
        return -errno;
    return read_answers(fd, last);
}
