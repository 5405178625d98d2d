#pragma once
#include "base/error.h"
#include "base/map.h"
#include "provider/id_pool.h"
#include "sandbox/spec.h"

/*
 * The id range that each sandbox holds on this host. A persistent sandbox keeps its range while it
 * is stopped, and when atoll-spawn dies, because its files belong to those ids.
 */
struct atoll_id_ranges {
    struct atoll_id_pool slots;
    struct atoll_map by_id; /* struct holder by sandbox id; owned */
};

void atoll_id_ranges_init(struct atoll_id_ranges *ranges);
void atoll_id_ranges_done(struct atoll_id_ranges *ranges);

/* Installs the ranges of a new atoll-spawn; ranges of sandboxes that it does not have become
 * free. Takes ownership of slots; without root they are empty. */
void atoll_id_ranges_open(struct atoll_id_ranges *ranges, struct atoll_id_pool *slots);

/* Sets spec->outside_id to a free range, or to its former range if the sandbox has a disk.
 * RESOURCE_EXHAUSTED, ALREADY_EXISTS; FAILED_PRECONDITION if another instance of Atoll has that
 * range now. */
int atoll_id_ranges_take(struct atoll_id_ranges *ranges, struct atoll_spec *spec,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Marks the range of a sandbox that an earlier daemon made. Idempotent. */
void atoll_id_ranges_reserve(struct atoll_id_ranges *ranges, const struct atoll_spec *spec);
/* Frees the sandbox's range. Ignores an unknown id. */
void atoll_id_ranges_forget(struct atoll_id_ranges *ranges, const char *id);
