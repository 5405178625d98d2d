#pragma once
#include "provider/e2b/messages.h"

/*
 * The sandboxes of this daemon at the service: their addresses, and when their time to live must be
 * extended. Also the ids of unconfirmed sandboxes: those that may exist because a create got no
 * answer.
 * Thread: any.
 */
struct atoll_e2b_remotes;

#define ATOLL_E2B_REMOTES_MAX 4096
#define ATOLL_E2B_LEASE_S 3600u
#define ATOLL_E2B_LEASE_MIN_S 60u

struct atoll_e2b_remotes *atoll_e2b_remotes_new(uint32_t lease_s); /* NULL: out of memory */
struct atoll_e2b_remotes *atoll_e2b_remotes_free(struct atoll_e2b_remotes *r);

/* The requested time to live; the service may allow less. */
uint32_t atoll_e2b_remotes_lease_s(struct atoll_e2b_remotes *r);
void atoll_e2b_remotes_set_lease_s(struct atoll_e2b_remotes *r, uint32_t lease_s);

/* Adds the sandbox, or replaces what was known of it. fresh: its time to live starts now.
 * RESOURCE_EXHAUSTED. */
int atoll_e2b_remotes_put(struct atoll_e2b_remotes *r, const struct atoll_e2b_remote *remote,
                          bool fresh, struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_e2b_remotes_get(struct atoll_e2b_remotes *r, const char *handle,
                           struct atoll_e2b_remote *ret);
void atoll_e2b_remotes_forget(struct atoll_e2b_remotes *r, const char *handle);
void atoll_e2b_remotes_set_paused(struct atoll_e2b_remotes *r, const char *handle, bool paused);

/* Records that its agent refused a stream, or accepted one. */
void atoll_e2b_remotes_set_silent(struct atoll_e2b_remotes *r, const char *handle, bool silent);
bool atoll_e2b_remotes_is_silent(struct atoll_e2b_remotes *r, const char *handle);

/* Returns a sandbox whose time to live must be extended now; it is not due again before
 * atoll_e2b_remotes_extended(). False: none is due, and *ret_wait_ms is the time until one is. */
bool atoll_e2b_remotes_due(struct atoll_e2b_remotes *r, int64_t now_ms, char *ret_handle,
                           int64_t *ret_wait_ms);
/* The result of that request: the sandbox is due again after a third of its time to live, or
 * soon after a failure. */
void atoll_e2b_remotes_extended(struct atoll_e2b_remotes *r, const char *handle, bool moved);

/* Unconfirmed ids. If there are too many, set_unconfirmed() drops the oldest: its sandbox ends
 * at the service by itself. */
void atoll_e2b_remotes_set_unconfirmed(struct atoll_e2b_remotes *r, const char *id);
bool atoll_e2b_remotes_is_unconfirmed(struct atoll_e2b_remotes *r, const char *id);
void atoll_e2b_remotes_set_confirmed(struct atoll_e2b_remotes *r, const char *id);
