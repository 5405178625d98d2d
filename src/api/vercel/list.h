#pragma once
#include "api/kit/keyed_list.h"
#include "api/vercel/vercel_internal.h"

/*
 * Lists in pages: ?limit=, ?sortOrder=, ?cursor=. In /v1 the cursor is the time of creation of the last
 * element of the page before, as ?until=.
 */
struct atoll_vercel_list {
    struct atoll_api_call *call;
    uint64_t limit, until_ms, since_ms;
    bool v1;
    struct atoll_keyed_list entries;
};

/* Reads the query. INVALID_ARGUMENT. */
int atoll_vercel_list_begin(struct atoll_api_call *call, struct atoll_vercel_list *list,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds an element, unless it belongs to an earlier page. key NULL: the time of creation. */
void atoll_vercel_list_add(struct atoll_vercel_list *list, const char *key,
                           const struct atoll_keyed *entry);
/* Answers the call with {"NAME":[…],"pagination":{…}} and frees the list. */
void atoll_vercel_list_reply(struct atoll_vercel_list *list, const char *name,
                             void (*view)(struct atoll_json_out *out,
                                          const struct atoll_vercel_list *list,
                                          const struct atoll_keyed *entry));
