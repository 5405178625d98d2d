#pragma once
#include "engine/build/job.h"

/*
 * The directories of RUN --mount=type=cache: caches/TENANT/NAME of the state directory. They are measured in a
 * builder sandbox after steps that used them, and emptied, least recently used first, while all of them together
 * have more than --build-caches-max. A step has its caches to itself (run.c), so that a cache is never emptied
 * under a step.
 *
 * What is known of them is in caches.json of the state directory. A cache that is not in it is measured when the
 * daemon starts.
 *
 * Thread: the loop's.
 */
struct atoll_cache_mounts {
    struct atoll_list all; /* of struct cache, least recently used first; owned */
    size_t count;
    uint64_t bytes;
    struct atoll_timer later;
    struct atoll_run_wait wait; /* for the sandbox in progress */
    char working[65];           /* tenant of the caches in it; "": none is in progress */
    struct atoll_list *looked[ATOLL_CACHES_MAX]; /* nodes of these caches; borrowed */
    size_t looked_count;
    bool emptying; /* it is emptied, else measured */
};
#define ATOLL_CACHE_MOUNTS_MAX 1000

/* Loads what an earlier daemon knew. */
void atoll_cache_mounts_load(struct atoll_engine *engine);
/* A run has used the caches of this job. */
void atoll_cache_mounts_used(struct atoll_engine *engine, const struct atoll_make_job *job);
/* Bytes of all caches, as far as they were measured. */
uint64_t atoll_cache_mounts_bytes(struct atoll_engine *engine);
/* Frees memory. */
void atoll_cache_mounts_done(struct atoll_cache_mounts *mounts);
