#pragma once
#include "egress/egress.h"

/*
 * The life of a box: made by PUT, changed by POLICY, removed by DROP.
 */

/* A new box that accepts connections. listen_fd and udp_fd are taken, also on failure. The policy and the
 * bound are taken on success. */
int atoll_box_open(struct atoll_egress *egress, const struct atoll_em_put *put, int listen_fd,
                   int udp_fd, struct atoll_network_policy *policy,
                   struct atoll_network_bound *bound, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the name of the destination can change the decision. */
bool atoll_box_needs_name(const struct atoll_box *box, const struct in6_addr *address,
                          uint16_t port);
/* Of many connections of one box each gets small buffers of the kernel, which are not charged to the
 * sandbox. */
void atoll_box_bound_buffers(const struct atoll_box *box, int fd);
/* Replaces the policy, takes both, and closes connections that it denies. */
void atoll_box_set_policy(struct atoll_box *box, struct atoll_network_policy *policy,
                          struct atoll_network_bound *bound);
/* Replaces the sockets unless they are the ones it has; takes both. Connections stay open. */
int atoll_box_set_sockets(struct atoll_box *box, int listen_fd, int udp_fd,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Resets its connections and reports their end. */
void atoll_box_close_connections(struct atoll_box *box);
/* The same, removes it from the map and frees it. */
void atoll_box_remove(struct atoll_box *box);
