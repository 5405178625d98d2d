#pragma once
#include "api/call.h"

/*
 * ?limit= and ?cursor= of a list sorted by age, oldest first. A cursor names the last element of
 * the previous page, so that elements created or removed in between do not shift the pages.
 */
struct atoll_page {
    uint64_t limit; /* 0: unlimited */
    bool has_cursor;
    int64_t after_ms;
    char after_id[33];
};

/* INVALID_ARGUMENT. */
int atoll_page_take(const struct atoll_api_call *call, struct atoll_page *ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the element comes after the previous page. */
bool atoll_page_has(const struct atoll_page *page, int64_t created_unix_ms, const char *id);
/* How many of `count` elements are on this page. */
size_t atoll_page_shown(const struct atoll_page *page, size_t count);
/* Writes next_cursor, which names the last element shown; call it if there are more. */
void atoll_page_write(struct atoll_json_out *out, int64_t created_unix_ms, const char *id);
/* A page that is written element by element, in the order of the list. */
struct atoll_page_out {
    struct atoll_page page; /* by atoll_page_take() */
    uint64_t shown;
    bool more; /* there are more than fit */
    int64_t last_unix_ms;
    char last_id[33];
};
/* Whether the element is on the page. Write it then. */
bool atoll_page_admit(struct atoll_page_out *p, int64_t created_unix_ms, const char *id);
/* Writes next_cursor if there are more. */
void atoll_page_end(const struct atoll_page_out *p, struct atoll_json_out *out);
/* The sort order of lists. */
int atoll_page_compare(int64_t a_unix_ms, const char *a_id, int64_t b_unix_ms, const char *b_id);
