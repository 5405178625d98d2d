#pragma once
#include "loop/workers.h"
#include "provider/remote/http.h"

/*
 * Requests of the daemon to servers that tenants name, on worker threads. The operator's own tenant may name any
 * address. Requests of other tenants go to addresses of the public internet only, without a proxy.
 */
struct atoll_outgoing;

#define ATOLL_OUTGOING_TIMEOUT_MS 15000 /* of one request */

/* Thread: the loop's. service is borrowed. */
int atoll_outgoing_new(struct atoll_loop *loop, const struct atoll_remote_service *service,
                       struct atoll_outgoing **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Interrupts what is under way, and calls done() of all jobs. Accepts NULL. */
struct atoll_outgoing *atoll_outgoing_free(struct atoll_outgoing *outgoing);
/* As atoll_workers_submit(). */
int atoll_outgoing_submit(struct atoll_outgoing *outgoing, struct atoll_job *job,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* For jobs. Thread: a worker. */

/* As atoll_remote_http_ask(). ABORTED: atoll_outgoing_free() was called. */
int atoll_outgoing_ask(struct atoll_outgoing *outgoing, const char *tenant,
                       const struct atoll_remote_request *request, struct atoll_remote_answer *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits; false, at once: atoll_outgoing_free() was called. */
bool atoll_outgoing_pause(const struct atoll_outgoing *outgoing, int ms);
