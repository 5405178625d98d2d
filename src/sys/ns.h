#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Processes and namespaces. Thin: every function returns -errno.
 */

/* clone3 without a new stack: returns twice, like fork. flags are CLONE_*; SIGCHLD at exit.
 * cgroup_fd >= 0 starts the child in that cgroup v2 (CLONE_INTO_CGROUP). *ret_pidfd is set in the
 * parent and is the caller's. */
pid_t atoll_sys_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd) ATOLL_MUST_CHECK;

/* Takes on the effective uid `uid`, with every permitted capability in force: the kernel charges new
 * namespaces, and what is used up below a new user namespace, to that uid. Needs uid 0, or to have
 * been called by it before. Clears the parent-death signal. */
int atoll_sys_charge_to(uid_t uid) ATOLL_MUST_CHECK;

/* atoll_sys_clone() whose new namespaces are charged to `owner`; both processes go on with effective
 * uid 0. owner 0: the plain call, for whatever uid we have. */
pid_t atoll_sys_clone_for(uid_t owner, uint64_t flags, int cgroup_fd,
                          int *ret_pidfd) ATOLL_MUST_CHECK;

int atoll_sys_pidfd_kill(int pidfd, int signo) ATOLL_MUST_CHECK;
int atoll_sys_pidfd_open(pid_t pid) ATOLL_MUST_CHECK;

/* Writes /proc/PID/{uid,gid}_map: one extent of `count` ids. With deny_setgroups, as an ordinary
 * user must. */
int atoll_sys_write_id_map(pid_t pid, uint32_t inside, uint32_t outside_uid, uint32_t outside_gid,
                           uint32_t count, bool deny_setgroups) ATOLL_MUST_CHECK;

/* In a child that does not exec: closes all it inherited but the standard streams and keep_fd, since a
 * lock lives as long as its last descriptor, and lets it end with its parent. */
void atoll_sys_leave_descriptors(int keep_fd);

/* Makes a user namespace of `owner` that maps [inside, +count) to [outside, +count) of ours and
 * returns a descriptor of it. Needs CAP_SETUID and CAP_SETGID here, for an owner other than 0
 * CAP_SYS_PTRACE as well. */
int atoll_sys_make_userns(uid_t owner, uint32_t inside, uint32_t outside,
                          uint32_t count) ATOLL_MUST_CHECK;

/* Makes `new_root` (the current directory may be inside it) the root; the old one is detached. */
int atoll_sys_pivot_root(int new_root_fd) ATOLL_MUST_CHECK;

/* Moves this single-threaded process to a time namespace whose clocks since boot start now. Needs
 * /proc. Success where the kernel has no such namespaces. */
int atoll_sys_new_clock(void) ATOLL_MUST_CHECK;

/* A new session keyring, so that the launcher's is out of reach. */
int atoll_sys_new_session_keyring(void) ATOLL_MUST_CHECK;

/* Brings the loopback interface of the current network namespace up. */
int atoll_sys_loopback_up(void) ATOLL_MUST_CHECK;

/* Closes every descriptor from first on, except those in keep (sorted ascending). */
int atoll_sys_close_except(int first, const int *keep, size_t nkeep) ATOLL_MUST_CHECK;
