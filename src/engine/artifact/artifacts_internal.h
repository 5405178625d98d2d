#pragma once
#include "engine/artifact/artifacts.h"
#include "engine/engine_internal.h"
#include "store/artifacts.h"

/* Internal to artifacts. */

/* A set, as in atoll_artifacts_view. */
struct atoll_kept {
    struct atoll_list node; /* in atoll_artifacts.by_age */
    char sandbox_id[ATOLL_ID_LEN + 1], session_id[ATOLL_ID_LEN + 1];
    char owner[65];
    char reason[200];
    bool complete;
    uint32_t count;
    uint64_t size_bytes;
    int64_t created_unix_ms;
};

struct atoll_artifacts {
    struct atoll_engine *engine;       /* borrowed */
    int dir_fd;                        /* owned: artifacts/ of the state directory */
    struct atoll_map by_id;            /* of struct atoll_kept, owned */
    struct atoll_list by_age;          /* the same, oldest first */
    struct atoll_list captures;        /* under way (artifacts_collect.c) */
    struct atoll_shares sizes, counts; /* bytes and number of sets, by tenant */
    uint64_t max_bytes;                /* quota of all sets */
    uint64_t copying_bytes;            /* reserved by sets being collected */
    struct atoll_timer expiry, sweep;
};

/* Removes old sets of the tenants that hold the most until `bytes` more fit; false when they
 * cannot. */
bool atoll_artifacts_make_room(struct atoll_artifacts *a, uint64_t bytes);
/* Adds a finished set with `count` rows of its files; takes ownership of it. */
void atoll_artifacts_add(struct atoll_artifacts *a, struct atoll_kept *kept,
                         const struct atoll_store_artifact *files);
/* Removes artifacts/<id>, some files per iteration of the loop. */
void atoll_artifacts_discard(struct atoll_artifacts *a, const char *id);
