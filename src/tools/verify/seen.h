#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Processes in the host's /proc. -EACCES or -EPERM for what this user may not read.
 */

#define ATOLL_SEEN_MARK_MAX 40
/* A random word for command lines: "marker-…"; out holds ATOLL_SEEN_MARK_MAX bytes. */
void atoll_seen_mark(char *out);

/* The number of processes, except ours, with this text in their command line; *ret_pid (ret_pid may be
 * NULL) is the first. Kernel threads and zombies have no command line. */
size_t atoll_seen_count(const char *text, pid_t *ret_pid);
/* Waits until there are at least `count`; returns the first, or 0 after the timeout. */
pid_t atoll_seen_wait(const char *text, size_t count, int timeout_ms);

/* The value of a field of /proc/PID/status ("Uid"), without the blanks around it. */
int atoll_seen_status(pid_t pid, const char *field, char *out, size_t cap) ATOLL_MUST_CHECK;
/* Whether two processes are in the same namespace of that kind ("pid"): 1, 0, -errno. */
int atoll_seen_same_ns(pid_t a, pid_t b, const char *kind) ATOLL_MUST_CHECK;
/* PID 1 of the pid namespace of a process, as a pid of the host, or 0. */
pid_t atoll_seen_init_of(pid_t pid);
/* Reads a file below /proc/PID; returns its length. */
int atoll_seen_read(pid_t pid, const char *name, char *out, size_t cap) ATOLL_MUST_CHECK;
