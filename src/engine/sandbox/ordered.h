#pragma once
#include "base/defs.h"

/*
 * Sandboxes in the order of lists: by time of creation, then by id. A sorted array: nearly all come
 * at its end, and one is found by its place in the order, so that a page of a list costs as much as
 * the page and not as much as the list.
 * Ownership: none of what is in it. A sandbox must not change its time of creation while it is in.
 */
struct atoll_sandbox;

struct atoll_ordered {
    struct atoll_sandbox **items; /* owned array */
    size_t count, cap;
};

void atoll_ordered_done(struct atoll_ordered *o);
/* Aborts where there is no memory. */
void atoll_ordered_add(struct atoll_ordered *o, struct atoll_sandbox *sandbox);
/* Absent is fine. */
void atoll_ordered_remove(struct atoll_ordered *o, const struct atoll_sandbox *sandbox);
/* The index of the first that comes after this place in the order; count when there is none. */
size_t atoll_ordered_after(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id);
/* The same for the first that does not come before it. */
size_t atoll_ordered_from(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id);
