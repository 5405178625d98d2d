#pragma once
#include "api/kit/ports.h"

/*
 * Published ports: TCP addresses of the host whose connections lead to ports of sandboxes, without
 * HTTP and without a token. Records are kept by access/previews.h; this keeps the listeners.
 */
struct atoll_published;

/* ports is borrowed. */
struct atoll_published *atoll_published_new(struct atoll_loop *loop, struct atoll_ports *ports);
/* Closes all listeners. Connections go on; they end with atoll_ports_free(), which comes after. */
struct atoll_published *atoll_published_free(struct atoll_published *published);

/* Listens. `address` is PORT, which means 127.0.0.1:PORT, or an IP address and a port; port 0: any
 * that is free. `ret` (ATOLL_PREVIEW_ADDRESS_MAX bytes) receives the address with the port in use.
 * If the port of the sandbox is published already, the new address replaces the old one.
 * INVALID_ARGUMENT, ALREADY_EXISTS (in use), PERMISSION_DENIED. */
int atoll_published_open(struct atoll_published *published, const char *sandbox_id, uint16_t port,
                         const char *address, char *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the listener of a port; port 0: those of all ports of the sandbox. */
void atoll_published_close(struct atoll_published *published, const char *sandbox_id,
                           uint16_t port);
