#pragma once
#include "base/defs.h"

/*
 * Reads what atoll-diff prints about changes, lines of JSON (diff/diff.h). It ran in a sandbox with hostile
 * layers, so the bytes may be anything.
 */
struct atoll_changes_summary {
    uint64_t added, changed, removed, bytes; /* changed: with those whose type has changed */
};
/* Only a summary: a list without lines. False: the bytes are no such summary. */
bool atoll_changes_read_summary(const uint8_t *bytes, size_t n, struct atoll_changes_summary *ret);
/* The kind of the first change. False: nothing has changed. */
bool atoll_changes_read_kind(const uint8_t *bytes, size_t n, char *ret, size_t cap);
