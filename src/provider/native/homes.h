#pragma once
#include "base/error.h"
#include "base/map.h"
#include "provider/slots.h"
#include "sandbox/spec.h"

/*
 * What each sandbox holds on this host: its range of ids. A persistent one holds on to it while it is
 * stopped, and through the death of atoll-spawn, because its files belong to those ids.
 */
struct atoll_homes {
    struct atoll_slots slots;
    struct atoll_map by_id; /* of struct home, owned */
};

void atoll_homes_init(struct atoll_homes *homes);
void atoll_homes_done(struct atoll_homes *homes);

/* The ranges there are, of a new atoll-spawn: those of sandboxes it does not have are free again.
 * Takes the slots over; empty: without root there are none. */
void atoll_homes_open(struct atoll_homes *homes, struct atoll_slots *slots);

/* Finds a range for the spec (spec->outside_id), or for one that has a disk the range it had.
 * RESOURCE_EXHAUSTED, ALREADY_EXISTS; FAILED_PRECONDITION when that is another instance's now. */
int atoll_homes_take(struct atoll_homes *homes, struct atoll_spec *spec,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* The spec has had its range before this daemon was there. Again is fine. */
void atoll_homes_reserve(struct atoll_homes *homes, const struct atoll_spec *spec);
/* Absent is fine. */
void atoll_homes_forget(struct atoll_homes *homes, const char *id);
