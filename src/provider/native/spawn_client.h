#pragma once
#include "provider/rpc.h"
#include "proto/spawn_proto.h"

/*
 * The daemon's end of atoll-spawn: finds the one that serves the state directory or starts it, and
 * starts it again when it dies.
 */
struct atoll_spawn_info {
    bool root;
    uint32_t cgroup_version;
    uint32_t id_base, id_slots;
    char instance[17];
};

/* Connects to state/spawn.sock, starting `program` first when nobody answers there.
 * Blocking: some milliseconds while a new one comes up, at most ten seconds.
 * On success *ret_fd is the connection after the handshake and belongs to the caller. */
int atoll_spawn_connect(const char *state_dir, const char *program, int *ret_fd,
                        struct atoll_spawn_info *ret_info, struct atoll_error *err) ATOLL_MUST_CHECK;

extern const struct atoll_rpc_protocol atoll_spawn_protocol;
