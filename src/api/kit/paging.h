#pragma once
#include "api/call.h"

/*
 * ?limit= and ?cursor= of a list that is sorted by age, oldest first. A cursor names the last one
 * of the page before, so that what comes or goes meanwhile shifts nothing.
 */
struct atoll_rest_page {
    uint64_t limit; /* 0: no end */
    bool has_cursor;
    int64_t after_ms;
    char after_id[33];
};

/* INVALID_ARGUMENT. */
int atoll_rest_page_take(const struct atoll_api_call *call, struct atoll_rest_page *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether it comes after the page before. */
bool atoll_rest_page_has(const struct atoll_rest_page *page, int64_t created_unix_ms,
                         const char *id);
/* How many of `count` are shown. */
size_t atoll_rest_page_shown(const struct atoll_rest_page *page, size_t count);
/* For the last that is shown, when there are more. */
void atoll_rest_page_write(struct atoll_json_out *out, int64_t created_unix_ms, const char *id);
/* The order of lists. */
int atoll_rest_page_compare(int64_t a_unix_ms, const char *a_id, int64_t b_unix_ms,
                            const char *b_id);
