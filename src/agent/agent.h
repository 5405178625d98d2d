#pragma once
#include "agent/views.h"
#include "base/error.h"

/*
 * The agent: PID 1 of every sandbox. It starts commands, keeps their output until the daemon has
 * it, opens files as the tenant's users, watches, connects to ports and reaps. It speaks the agent
 * protocol (proto/agent_proto.h) over one byte stream at a time.
 * Blocking: runs its own loop; nothing a tenant does makes it wait.
 * Thread: single-threaded by design, credentials are switched for the whole process.
 */
struct atoll_agent_config {
    int listen_fd; /* unix stream socket the daemon connects to, again and again; ATOLL_NO_FD */
    int conn_fd;   /* or one already connected stream (Docker, VM); ATOLL_NO_FD if none */
    bool fds;      /* the transport carries descriptors */
    bool allow_sudo;
    bool many_ids; /* false: one user id is mapped here; every user is that one, no root, no sudo */
    uint32_t default_uid, default_gid; /* of `user` */
    const char *default_user, *default_home;
    int oom_fd;  /* cgroup file with an "oom_kill N" line, read at offset 0; ATOLL_NO_FD if none */
    int peak_fd; /* memory.max_usage_in_bytes or memory.peak; ATOLL_NO_FD if none */
    int boot_id_fd; /* shows as the kernel's boot_id; rewritten when all processes were ended to
                       begin anew; ATOLL_NO_FD if none */
    uint64_t memory_limit_bytes;
    const char *memory_limit_file; /* has it instead, where somebody else may change it; or NULL */
    const char *const
        *base_env; /* of every command, under what requests add; NULL at the end, or NULL */
    const struct atoll_view_fds *views; /* taken over; NULL: /proc is left as it is */
    uint32_t max_execs;                 /* kept at the same time; 0: 256 */
};

/*
 * Runs until the process ends: never returns on success. With a conn_fd and no listen_fd it returns
 * -EPIPE when the peer closes, because nobody could reach it again. Takes over all descriptors of
 * the config; the strings are borrowed.
 */
int atoll_agent_run(const struct atoll_agent_config *config,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
