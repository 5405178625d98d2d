#pragma once
#include "base/error.h"
#include "base/map.h"
#include "provider/id_pool.h"
#include "sandbox/spec.h"

/*
 * What each sandbox holds on this host: its range of ids. A persistent one holds on to it while it is
 * stopped, and through the death of atoll-spawn, because its files belong to those ids.
 */
struct atoll_id_ranges {
    struct atoll_id_pool slots;
    struct atoll_map by_id; /* of struct home, owned */
};

void atoll_id_ranges_init(struct atoll_id_ranges *homes);
void atoll_id_ranges_done(struct atoll_id_ranges *homes);

/* The ranges there are, of a new atoll-spawn: those of sandboxes it does not have are free again.
 * Takes the slots over; empty: without root there are none. */
void atoll_id_ranges_open(struct atoll_id_ranges *homes, struct atoll_id_pool *slots);

/* Finds a range for the spec (spec->outside_id), or for one that has a disk the range it had.
 * RESOURCE_EXHAUSTED, ALREADY_EXISTS; FAILED_PRECONDITION when that is another instance's now. */
int atoll_id_ranges_take(struct atoll_id_ranges *homes, struct atoll_spec *spec,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The spec has had its range before this daemon was there. Again is fine. */
void atoll_id_ranges_reserve(struct atoll_id_ranges *homes, const struct atoll_spec *spec);
/* Absent is fine. */
void atoll_id_ranges_forget(struct atoll_id_ranges *homes, const char *id);
