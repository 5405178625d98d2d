#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Processes and namespaces: thin wrappers of system calls. Every function returns -errno.
 */

/* clone3 without a new stack: returns twice, like fork. flags are CLONE_*; SIGCHLD at exit.
 * cgroup_fd >= 0 starts the child in that cgroup v2 (CLONE_INTO_CGROUP). *ret_pidfd is set in the
 * parent; the caller owns it. */
pid_t atoll_sys_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd) ATOLL_MUST_CHECK;

/* Sets the effective uid and makes every permitted capability effective. The kernel then charges
 * new namespaces, and resources used below a new user namespace, to that uid. The caller's real uid
 * must be 0. Clears the parent-death signal. */
int atoll_sys_charge_to(uid_t uid) ATOLL_MUST_CHECK;

/* atoll_sys_clone() whose new namespaces are charged to `owner`; afterwards both processes have
 * effective uid 0. owner 0: plain atoll_sys_clone(); the effective uid is not changed. */
pid_t atoll_sys_clone_for(uid_t owner, uint64_t flags, int cgroup_fd,
                          int *ret_pidfd) ATOLL_MUST_CHECK;

int atoll_sys_pidfd_kill(int pidfd, int signo) ATOLL_MUST_CHECK;
int atoll_sys_pidfd_open(pid_t pid) ATOLL_MUST_CHECK;

/* Writes /proc/PID/{uid,gid}_map: one extent of `count` ids. An ordinary user must set
 * deny_setgroups. */
int atoll_sys_write_id_map(pid_t pid, uint32_t inside, uint32_t outside_uid, uint32_t outside_gid,
                           uint32_t count, bool deny_setgroups) ATOLL_MUST_CHECK;

/* For a child that does not exec: closes all inherited descriptors except the standard streams and
 * keep_fd (a file lock lasts until its last descriptor is closed), and makes the child die with its
 * parent. */
void atoll_sys_leave_descriptors(int keep_fd);

/* Creates a user namespace owned by `owner` that maps [inside, +count) to [outside, +count) of our
 * namespace, and returns a descriptor of it. with_root: id 0 is mapped to itself as well, and inside is
 * not 0; for id maps of mounts only. Needs CAP_SETUID and CAP_SETGID in our namespace, and
 * CAP_SYS_PTRACE for an owner other than 0. */
int atoll_sys_make_userns(uid_t owner, uint32_t inside, uint32_t outside, uint32_t count,
                          bool with_root) ATOLL_MUST_CHECK;

/* The same for an id map of a mount that shows one user and one group: uid and gid of the file system as outside_uid
 * and outside_gid. Also from a pid namespace that /proc is not of. */
int atoll_sys_make_owner_map(uid_t owner, uint32_t uid, uint32_t gid, uint32_t outside_uid,
                             uint32_t outside_gid) ATOLL_MUST_CHECK;

/* Creates a network namespace that belongs to our user namespace and is charged to `owner`, does
 * atoll_sys_network_up() in it, and returns a descriptor of it. This process, which must have one
 * thread, is inside for a moment. */
int atoll_sys_make_netns(uid_t owner) ATOLL_MUST_CHECK;

/* Makes new_root_fd the root and detaches the old root. The current directory becomes "/". */
int atoll_sys_pivot_root(int new_root_fd) ATOLL_MUST_CHECK;

/* Moves this single-threaded process to a time namespace whose monotonic and boot clocks start now.
 * Needs /proc. Success if the kernel has no time namespaces. */
int atoll_sys_new_clock(void) ATOLL_MUST_CHECK;

/* Joins a new session keyring, so that the keys of the process that started us are not
 * reachable. */
int atoll_sys_new_session_keyring(void) ATOLL_MUST_CHECK;

/* In the current network namespace, unless it was done: brings the loopback interface up, and allows
 * every user to listen on every port, where /proc/sys can be written. */
int atoll_sys_network_up(void) ATOLL_MUST_CHECK;

/* Closes every descriptor from first on, except those in keep (sorted ascending). */
int atoll_sys_close_except(int first, const int *keep, size_t nkeep) ATOLL_MUST_CHECK;
