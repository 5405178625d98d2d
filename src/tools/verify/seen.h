#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Processes as the host's /proc shows them. What this user may not look at is -EACCES or -EPERM.
 */

#define ATOLL_SEEN_MARK_MAX 40
/* A word that nobody else has in a command line: "marker-…"; out holds ATOLL_SEEN_MARK_MAX bytes. */
void atoll_seen_mark(char *out);

/* How many processes but ours have this text in their command line; the first goes to *ret_pid (may
 * be NULL). Threads of kernel and zombies have none. */
size_t atoll_seen_count(const char *text, pid_t *ret_pid);
/* Waits until there are at least `count`; the first of them, or 0 when they do not come. */
pid_t atoll_seen_wait(const char *text, size_t count, int timeout_ms);

/* The value of a field of /proc/PID/status ("Uid"), without the blanks around it. */
int atoll_seen_status(pid_t pid, const char *field, char *out, size_t cap) ATOLL_MUST_CHECK;
/* Whether two processes are in the same namespace of that kind ("pid"): 1, 0, -errno. */
int atoll_seen_same_ns(pid_t a, pid_t b, const char *kind) ATOLL_MUST_CHECK;
/* The first process of the pid namespace of another, or 0. */
pid_t atoll_seen_init_of(pid_t pid);
/* A file below /proc/PID; returns its length. */
int atoll_seen_read(pid_t pid, const char *name, char *out, size_t cap) ATOLL_MUST_CHECK;
