#pragma once
#include "base/error.h"
#include "egress/dns_wire.h"
#include "loop/loop.h"

/*
 * Asks the name servers of resolv.conf, for questions that the host's resolver has no call for: TXT, MX,
 * SRV … By UDP, from a socket with a port and an id of its own for each question, connected to the
 * server; by TCP if the answer is truncated. Equal questions of one tenant are one. Tenants share the
 * questions that wait (base/shares.h).
 *
 * Thread: the loop's. Nothing is cached.
 */
struct atoll_forwarder;

#define ATOLL_FORWARD_MAX 512     /* questions that wait, of all tenants; each has a descriptor */
#define ATOLL_FORWARD_TRY_MS 2000 /* for one server */
#define ATOLL_FORWARD_ROUNDS 2    /* over all servers */

/* resolv_conf NULL: /etc/resolv.conf, which is read again when it has changed. port 0: 53. */
int atoll_forwarder_new(struct atoll_loop *loop, const char *resolv_conf, uint16_t port,
                        struct atoll_forwarder **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* No callback comes after this; what was asked for is
 * still cancelled by its owner. Accepts NULL; returns NULL. */
struct atoll_forwarder *atoll_forwarder_free(struct atoll_forwarder *f);

struct atoll_forward;
/* answer: to be passed on with atoll_dns_write_answer(), borrowed; NULL: no server answered. Frees the
 * forward. */
typedef void (*atoll_forward_fn)(void *arg, const struct atoll_dns_answer *answer);
/* done is called once, from the loop, never before this returns. owner: the tenant. NULL: too many
 * questions wait, or no socket can be opened. */
struct atoll_forward *atoll_forwarder_ask(struct atoll_forwarder *f, const char *owner,
                                          const struct atoll_dns_question *question,
                                          atoll_forward_fn done, void *arg);
/* done is not called. Accepts NULL; returns NULL. */
struct atoll_forward *atoll_forward_cancel(struct atoll_forward *forward);
