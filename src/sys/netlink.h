#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Netlink messages written by hand, for the few requests that the network of a sandbox needs. A
 * batch is filled with messages, which are then sent together. Every function returns -errno.
 */
#define ATOLL_NETLINK_MAX 8192

struct atoll_netlink {
    uint8_t bytes[ATOLL_NETLINK_MAX];
    size_t len;
    size_t message;    /* offset of the message that is being written */
    uint32_t sequence; /* of that message, from 1 */
    bool full;         /* something did not fit; the batch cannot be sent */
};

void atoll_netlink_init(struct atoll_netlink *nl);

/* Begins a message: its type, NLM_F_* and its fixed header. The one before is complete. */
void atoll_netlink_begin(struct atoll_netlink *nl, uint16_t type, uint16_t flags,
                         const void *header, size_t header_len);
/* Appends an attribute to the message. */
void atoll_netlink_put(struct atoll_netlink *nl, uint16_t type, const void *data, size_t len);
void atoll_netlink_put_text(struct atoll_netlink *nl, uint16_t type, const char *text);
/* A number of nftables, which are big-endian. */
void atoll_netlink_put_be32(struct atoll_netlink *nl, uint16_t type, uint32_t value);
/* Appends an attribute that holds attributes: those written until nest_end(). */
size_t atoll_netlink_nest(struct atoll_netlink *nl, uint16_t type);
void atoll_netlink_nest_end(struct atoll_netlink *nl, size_t nest);

/* Sends the batch to a netlink protocol of the current network namespace and waits until the message
 * with number `last` has been carried out; that message must have NLM_F_ACK. Returns the error of the
 * first message that failed. Blocking: as long as the kernel works on the batch. */
int atoll_netlink_send(const struct atoll_netlink *nl, int protocol,
                       uint32_t last) ATOLL_MUST_CHECK;
