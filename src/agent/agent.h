#pragma once
#include "agent/views.h"
#include "base/error.h"

/*
 * The agent: PID 1 of every sandbox. It starts commands, keeps their output until the daemon has
 * stored it, accesses files as the tenant's users, watches directories, connects to ports and reaps
 * processes. It speaks the agent protocol (proto/agent_proto.h) over one byte stream at a time.
 * Blocking: runs its own loop; a tenant cannot make it wait.
 * Thread: single-threaded by design, because it switches credentials of the whole process.
 */
struct atoll_agent_config {
    /* Makes listen_fd, at that path and with that mode, for later; NULL: not possible. */
    int (*listen)(const char *path, uint32_t mode, struct atoll_error *err);
    const char *listen_path;
    uint32_t listen_mode;
    int listen_fd; /* unix stream socket to which the daemon connects; ATOLL_NO_FD if none */
    int conn_fd;   /* or one connected stream (Docker, VM); ATOLL_NO_FD if none */
    bool fds;      /* the transport passes descriptors */
    bool allow_sudo;
    bool many_ids; /* false: only one user id is mapped; all users are that id, no root, no sudo */
    uint32_t default_uid, default_gid; /* of `user` */
    const char *default_user, *default_home;
    const char *workdir; /* where commands start and relative paths begin; NULL: the home */
    int oom_fd;  /* cgroup file with an "oom_kill N" line, read at offset 0; ATOLL_NO_FD if none */
    int peak_fd; /* memory.max_usage_in_bytes or memory.peak; ATOLL_NO_FD if none */
    int boot_id_fd; /* file mounted over the kernel's boot_id; rewritten after all processes were
                       killed for a restart; ATOLL_NO_FD if none */
    uint64_t memory_limit_bytes;
    const char *memory_limit_file; /* file with the limit, if it can change; or NULL */
    const char *const
        *base_env; /* of every command, overridden by requests; NULL-terminated, or NULL */
    const struct atoll_view_fds *views; /* takes ownership; NULL: no views of /proc */
    uint32_t max_execs;                 /* maximum number of commands; 0: 256 */
};

/*
 * Runs until the process ends: never returns on success. With a conn_fd and no listen_fd it returns
 * -EPIPE when the peer closes, because no daemon could connect again. Takes ownership of all
 * descriptors in the config; the strings are borrowed.
 */
int atoll_agent_run(const struct atoll_agent_config *config,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
