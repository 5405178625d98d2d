#pragma once
#include "api/vercel/vercel_internal.h"

/*
 * Lists in pages: ?limit=, ?sortOrder=, ?cursor=. The cursor is the sort key and id of the last element of
 * the page before, so that elements which come and go do not shift the pages. In /v1 it is the time of
 * creation, as ?until=.
 */
#define ATOLL_VERCEL_KEY_MAX 96

struct atoll_vercel_entry {
    char key[ATOLL_VERCEL_KEY_MAX]; /* elements are sorted by it, then by id */
    char id[ATOLL_VERCEL_SID_MAX];
    int64_t created_unix_ms;
    int64_t number;   /* the caller's, and so is the next */
    const void *data; /* borrowed */
};

struct atoll_vercel_list {
    struct atoll_api_call *call;
    uint64_t limit, until_ms, since_ms;
    bool ascending, v1;
    char after_key[ATOLL_VERCEL_KEY_MAX], after_id[ATOLL_VERCEL_SID_MAX]; /* "": from the start */
    struct atoll_vercel_entry *entries;                                   /* owned */
    size_t count, room;
};

/* Reads the query. INVALID_ARGUMENT. */
int atoll_vercel_list_begin(struct atoll_api_call *call, struct atoll_vercel_list *list,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds an element, unless it belongs to an earlier page. key NULL: the time of creation. */
void atoll_vercel_list_add(struct atoll_vercel_list *list, const char *key,
                           const struct atoll_vercel_entry *entry);
/* Answers the call with {"NAME":[…],"pagination":{…}} and frees the list. */
void atoll_vercel_list_reply(struct atoll_vercel_list *list, const char *name,
                             void (*view)(struct atoll_json_out *out,
                                          const struct atoll_vercel_list *list,
                                          const struct atoll_vercel_entry *entry));
