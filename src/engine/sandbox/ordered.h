#pragma once
#include "base/defs.h"

/*
 * Sandboxes sorted by creation time, then by id. A sorted array: nearly all are added at the end.
 * Lookup is by binary search, so that the cost of a page of a list does not depend on the length of
 * the list. Ownership: the sandboxes are borrowed. A sandbox must not change its creation time
 * while it is in.
 */
struct atoll_sandbox;

struct atoll_ordered {
    struct atoll_sandbox **items; /* owned array */
    size_t count, cap;
};

void atoll_ordered_done(struct atoll_ordered *o);
/* Aborts when there is no memory. */
void atoll_ordered_add(struct atoll_ordered *o, struct atoll_sandbox *sandbox);
/* Does nothing if it is not in. */
void atoll_ordered_remove(struct atoll_ordered *o, const struct atoll_sandbox *sandbox);
/* The index of the first sandbox after this position; count when there is none. */
size_t atoll_ordered_after(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id);
/* The same for the first sandbox at or after this position. */
size_t atoll_ordered_from(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id);
