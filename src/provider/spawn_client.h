#pragma once
#include "proto/spawn_proto.h"
#include "provider/id_pool.h"
#include "provider/rpc.h"

/*
 * The daemon's end of atoll-spawn: connects to the one that serves the state directory, or starts
 * it.
 */
struct atoll_spawn_info {
    bool root;
    uint32_t cgroup_version;
    uint32_t lacking;                       /* ATOLL_LIMIT_* that it cannot enforce */
    uint32_t id_slots;                      /* ranges in each block; 0: without root */
    uint32_t id_bases[ATOLL_ID_BLOCKS_MAX]; /* first ids of its blocks */
    size_t id_blocks;
    bool hides;         /* see atoll_sm_hello */
    bool stacks;        /* ATOLL_SPAWN_GIVES_STACKS */
    bool saves;         /* ATOLL_SPAWN_GIVES_SAVE */
    bool reclaims;      /* ATOLL_SPAWN_GIVES_RECLAIM */
    bool snapshots;     /* ATOLL_SPAWN_GIVES_SNAPSHOTS */
    bool volumes;       /* ATOLL_SPAWN_GIVES_VOLUMES */
    bool volume_images; /* ATOLL_SPAWN_GIVES_VOLUME_IMAGES */
    bool volume_copies; /* ATOLL_SPAWN_GIVES_VOLUME_COPIES */
    bool pool;          /* ATOLL_SPAWN_GIVES_POOL */
    bool folders;       /* ATOLL_SPAWN_GIVES_FOLDERS */
    bool network;       /* its sandboxes can have a network */
    char instance[17];
    char cgroup_path[512]; /* for atoll_cgroups_open() */
};

/* The error for the operator if the keeper does not start it again: only a new daemon has the
 * privileges to do so. */
#define ATOLL_SPAWN_GONE                                                                        \
    "atoll-spawn died and its keepers do not start it again, so that the provider cannot make " \
    "sandboxes; restart atolld, which starts it"

/* Connects to state/spawn.sock, and starts `program` first if nothing answers there. program
 * NULL: its keeper starts it, and the caller only waits. folders: further arguments of the program, as in
 * spawn/folders.h, NULL-terminated; or NULL.
 * Blocking: some milliseconds while a new one starts, at most five seconds.
 * On success *ret_fd is the connection after the handshake and belongs to the caller. */
int atoll_spawn_connect(const char *state_dir, const char *program, const char *const *folders,
                        int *ret_fd, struct atoll_spawn_info *ret_info,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same in steps, for a caller that must not block. atoll_spawn_try() returns a connection
 * without a handshake, or -errno; then ATOLL_SPAWN_HELLO with this message is the first request,
 * and its answer is read here. */
int atoll_spawn_try(const char *state_dir) ATOLL_MUST_CHECK;
extern const struct atoll_sm_hello atoll_spawn_hello;
int atoll_spawn_read_hello(const struct atoll_frame *frame, struct atoll_spawn_info *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fills the pool with the ranges of all its blocks; without root it stays empty. -ENOMEM. */
int atoll_spawn_info_ids(const struct atoll_spawn_info *info,
                         struct atoll_id_pool *ret) ATOLL_MUST_CHECK;

extern const struct atoll_rpc_protocol atoll_spawn_protocol;
