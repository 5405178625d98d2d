#pragma once
#include "api/json_out.h"

/*
 * A list in the order of a key that the facade chooses, in pages. The cursor of a page is the key and the id of the
 * last element of the page before, so that elements which come and go do not shift the pages.
 */
#define ATOLL_KEYED_KEY_MAX 160
#define ATOLL_KEYED_ID_MAX 65

struct atoll_keyed {
    char key[ATOLL_KEYED_KEY_MAX]; /* elements are sorted by it, then by id */
    char id[ATOLL_KEYED_ID_MAX];
    int64_t created_unix_ms;
    int64_t number;   /* the caller's, and so is the next */
    const void *data; /* borrowed */
};

/* {0} is an empty list. */
struct atoll_keyed_list {
    bool ascending;
    char after_key[ATOLL_KEYED_KEY_MAX], after_id[ATOLL_KEYED_ID_MAX]; /* "": from the start */
    struct atoll_keyed *entries;                                       /* owned */
    size_t count, room;
};

/* NULL and "": the first page. -EINVAL: it is not a cursor. */
int atoll_keyed_take_cursor(struct atoll_keyed_list *list, const char *text) ATOLL_MUST_CHECK;
/* "asc" or "desc"; NULL: descending. -EINVAL. */
int atoll_keyed_take_order(struct atoll_keyed_list *list, const char *order) ATOLL_MUST_CHECK;
void atoll_keyed_set_text(struct atoll_keyed *entry, const char *key);
void atoll_keyed_set_time(struct atoll_keyed *entry, int64_t unix_ms);
/* Adds a copy, unless it is on a page before. Set the order and the cursor before. */
void atoll_keyed_add(struct atoll_keyed_list *list, const struct atoll_keyed *entry);
/* After the last one was added. */
void atoll_keyed_sort(struct atoll_keyed_list *list);
const struct atoll_keyed *atoll_keyed_at(const struct atoll_keyed_list *list, size_t i);
/* Writes the cursor of the page behind this element; NULL: null, since there is none. */
void atoll_keyed_write_cursor(struct atoll_json_out *out, const char *name,
                              const struct atoll_keyed *last);
void atoll_keyed_done(struct atoll_keyed_list *list);
