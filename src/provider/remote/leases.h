#pragma once
#include "base/error.h"
#include "provider/remote/errors.h"

/*
 * The sandboxes of this daemon at a service: what the provider knows of each (a record: addresses,
 * tokens), and when its time to live must be extended, which the pump does. Also the ids of
 * unconfirmed sandboxes: those that may exist because a create got no answer.
 * Thread: any.
 */
struct atoll_remote_leases;

#define ATOLL_REMOTE_SANDBOXES_MAX 4096
#define ATOLL_REMOTE_HANDLE_MAX 128
#define ATOLL_REMOTE_LEASE_S 3600u
#define ATOLL_REMOTE_LEASE_MIN_S 60u

/* service: borrowed. lease_s: 0 for ATOLL_REMOTE_LEASE_S. record_size: bytes that are kept for each
 * sandbox. NULL: out of memory. */
struct atoll_remote_leases *atoll_remote_leases_new(const struct atoll_remote_service *service,
                                                    uint32_t lease_s, size_t record_size);
struct atoll_remote_leases *atoll_remote_leases_free(struct atoll_remote_leases *r);

/* The requested time to live; the service may allow less. */
uint32_t atoll_remote_leases_lease_s(struct atoll_remote_leases *r);
void atoll_remote_leases_set_lease_s(struct atoll_remote_leases *r, uint32_t lease_s);

/* Adds the sandbox, or replaces its record, which is copied. fresh: its time to live starts now.
 * RESOURCE_EXHAUSTED. */
int atoll_remote_leases_put(struct atoll_remote_leases *r, const char *handle, const void *record,
                            bool paused, bool fresh, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Copies the record; false if the sandbox is not known. */
bool atoll_remote_leases_get(struct atoll_remote_leases *r, const char *handle, void *ret_record);
void atoll_remote_leases_forget(struct atoll_remote_leases *r, const char *handle);
void atoll_remote_leases_set_paused(struct atoll_remote_leases *r, const char *handle, bool paused);

/* Records that its agent refused a stream, or accepted one. */
void atoll_remote_leases_set_silent(struct atoll_remote_leases *r, const char *handle, bool silent);
bool atoll_remote_leases_is_silent(struct atoll_remote_leases *r, const char *handle);

/* Returns a sandbox whose time to live must be extended now (ret_handle holds
 * ATOLL_REMOTE_HANDLE_MAX + 1); it is not due again before
 * atoll_remote_leases_extended(). False: none is due, and *ret_wait_ms is the time until one is. */
bool atoll_remote_leases_due(struct atoll_remote_leases *r, int64_t now_ms, char *ret_handle,
                             int64_t *ret_wait_ms);
/* The result of that request: the sandbox is due again after a third of its time to live, or
 * soon after a failure. */
void atoll_remote_leases_extended(struct atoll_remote_leases *r, const char *handle, bool moved);

/* Unconfirmed ids. If there are too many, set_unconfirmed() drops the oldest: its sandbox ends
 * at the service by itself. */
void atoll_remote_leases_set_unconfirmed(struct atoll_remote_leases *r, const char *id);
bool atoll_remote_leases_is_unconfirmed(struct atoll_remote_leases *r, const char *id);
void atoll_remote_leases_set_confirmed(struct atoll_remote_leases *r, const char *id);
