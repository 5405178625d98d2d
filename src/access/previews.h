#pragma once
#include "base/error.h"

/*
 * Previews: ports of sandboxes that can be reached from outside, and their access tokens. A change
 * takes effect after the store has it. The owner of a sandbox calls atoll_previews_forget() when
 * the sandbox is gone.
 *
 * Blocking: as store/previews.h, for changes only. Thread: the loop's.
 */
struct atoll_previews;
struct atoll_store;

#define ATOLL_PREVIEW_TOKEN_LEN 32 /* characters of a-z0-9: 165 random bits */
#define ATOLL_PREVIEWS_PER_SANDBOX 64
#define ATOLL_PREVIEW_ADDRESS_MAX 64

struct atoll_preview_view {
    const char *sandbox_id, *token;
    uint16_t port;
    bool is_public;
    int64_t created_unix_ms;
    const char *address; /* HOST:PORT of the host, where it is published for all; "": nowhere */
};

/* store is borrowed; NULL: previews are not stored, for tests. */
int atoll_previews_new(struct atoll_store *store, struct atoll_previews **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_previews *atoll_previews_free(struct atoll_previews *previews);

/* Adds a preview of the port. If there is one already, keeps its token and sets is_public.
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int atoll_previews_add(struct atoll_previews *previews, const char *sandbox_id, uint16_t port,
                       bool is_public, struct atoll_preview_view *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stores the address at which an existing preview is published; "": it is not. NOT_FOUND. */
int atoll_previews_publish(struct atoll_previews *previews, const char *sandbox_id, uint16_t port,
                           const char *address, struct atoll_preview_view *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* NOT_FOUND. */
int atoll_previews_remove(struct atoll_previews *previews, const char *sandbox_id, uint16_t port,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes all previews of a sandbox that is gone. */
void atoll_previews_forget(struct atoll_previews *previews, const char *sandbox_id);

bool atoll_previews_find(const struct atoll_previews *previews, const char *sandbox_id,
                         uint16_t port, struct atoll_preview_view *ret);
/* Iterates over the previews of one sandbox, or of all sandboxes (NULL): start with *pos = 0; false
 * at the end. */
bool atoll_previews_next(const struct atoll_previews *previews, const char *sandbox_id, size_t *pos,
                         struct atoll_preview_view *ret);
