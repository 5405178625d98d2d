#pragma once
#include "api/call.h"
#include "api/facade.h"
#include "base/shares.h"

/* What api.c and call.c share. */

#define ATOLL_API_TABLES_MAX 24

struct atoll_api {
    struct atoll_api_config config;
    struct atoll_list sessions;
    struct atoll_preview_server *preview;    /* owned; NULL: previews are disabled */
    struct atoll_subscription *token_events; /* owned; sandbox_token.c */
    void *facade_states[ATOLL_FACADES_MAX];  /* owned; in the order of atoll_facades */
    const struct atoll_routes *tables[ATOLL_API_TABLES_MAX]; /* of all facades */
    size_t table_count;
    struct atoll_buckets *key_rates, *wrong_keys, *wrong_signatures; /* owned */
    struct atoll_answers *answers;                                   /* borrowed, or own_answers */
    struct atoll_answers *own_answers;                               /* owned, or NULL */
    struct atoll_list leases;                                        /* of struct lease; lease.c */
    struct atoll_shares waiting; /* bytes buffered for slow clients, by tenant; context_stream.c */
    struct atoll_list repeats;   /* of struct atoll_repeat; repeats.c */
    size_t repeat_count;
    bool draining;
    int64_t started_unix_ms;
    char id_prefix[9]; /* random per process, so that request ids of two runs differ */
    uint64_t id_count;
};

/* sandbox_token.c */
/* Ends the tokens of sandboxes that are gone, and of those that end from now on. */
void atoll_api_watch_tokens(struct atoll_api *api);
/* For a request that shows a token of a sandbox: fills call->caller if the token opens the route.
 * 1: the request shows no token. UNAUTHENTICATED, PERMISSION_DENIED. */
int atoll_api_authorize_token(struct atoll_api_call *call,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* auth_call.c */
/* Fills call->caller. UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED. */
int atoll_api_authorize(struct atoll_api_call *call, enum atoll_scope needed,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Checks that the caller may use the sandbox in the route. NOT_FOUND for a sandbox of another
 * tenant, as if it did not exist. */
int atoll_api_check_owner(struct atoll_api_call *call, struct atoll_error *err) ATOLL_MUST_CHECK;
/* For an id that no living object has; what: "sandbox" or "session". On a route that shows records,
 * the record of the ended sandbox becomes the subject of the call, unless ?ended=false. Otherwise
 * NOT_FOUND, which says when it ended, if the caller may see it. */
int atoll_api_check_ended(struct atoll_api_call *call, const char *what, const char *id,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes an audit log entry for a finished call, if its route changes state. */
void atoll_api_audit(const struct atoll_api_call *call, int status);
