#pragma once
#include "provider/e2b/messages.h"

/*
 * The sandboxes this daemon has at the service: where they are, and when their time to live has to be
 * moved on. And the ids of those that may be there although nobody knows, because no answer came.
 * Thread: any.
 */
struct atoll_e2b_remotes;

#define ATOLL_E2B_REMOTES_MAX 4096
#define ATOLL_E2B_LEASE_S 3600u
#define ATOLL_E2B_LEASE_MIN_S 60u

struct atoll_e2b_remotes *atoll_e2b_remotes_new(uint32_t lease_s); /* NULL: out of memory */
struct atoll_e2b_remotes *atoll_e2b_remotes_free(struct atoll_e2b_remotes *r);

/* The time to live that is asked for; the service may allow less. */
uint32_t atoll_e2b_remotes_lease_s(struct atoll_e2b_remotes *r);
void atoll_e2b_remotes_set_lease_s(struct atoll_e2b_remotes *r, uint32_t lease_s);

/* Known from now on, in place of what was known of it. fresh: its time to live has just begun.
 * RESOURCE_EXHAUSTED. */
int atoll_e2b_remotes_put(struct atoll_e2b_remotes *r, const struct atoll_e2b_remote *remote,
                          bool fresh, struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_e2b_remotes_get(struct atoll_e2b_remotes *r, const char *handle,
                           struct atoll_e2b_remote *ret);
void atoll_e2b_remotes_forget(struct atoll_e2b_remotes *r, const char *handle);
void atoll_e2b_remotes_set_paused(struct atoll_e2b_remotes *r, const char *handle, bool paused);

/* Its agent refused a stream, or took one. */
void atoll_e2b_remotes_set_silent(struct atoll_e2b_remotes *r, const char *handle, bool silent);
bool atoll_e2b_remotes_is_silent(struct atoll_e2b_remotes *r, const char *handle);

/* One whose time has to be moved on now, which is then not due again until told(); false when there is
 * none, and *ret_wait_ms says for how long not. */
bool atoll_e2b_remotes_due(struct atoll_e2b_remotes *r, int64_t now_ms, char *ret_handle,
                           int64_t *ret_wait_ms);
/* How that went: it is due again after a third of the time to live, or soon. */
void atoll_e2b_remotes_told(struct atoll_e2b_remotes *r, const char *handle, bool moved);

/* Ids of ours. doubt() forgets the oldest when there are too many: the service ends those too. */
void atoll_e2b_remotes_set_unconfirmed(struct atoll_e2b_remotes *r, const char *id);
bool atoll_e2b_remotes_is_unconfirmed(struct atoll_e2b_remotes *r, const char *id);
void atoll_e2b_remotes_trust(struct atoll_e2b_remotes *r, const char *id);
