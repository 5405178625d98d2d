#pragma once
#include "base/error.h"

/*
 * The daemon as a process: its state directory, its programs and its privileges.
 * Blocking: a few system calls each.
 */

/* Makes the directory if it does not exist (0700) and opens it. FAILED_PRECONDITION: another
 * user owns it. */
int atoll_process_open_state(const char *path, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Locks the state directory: one daemon per directory. The lock ends with the descriptor, also
 * after a crash. ALREADY_EXISTS names the pid of the daemon that holds it. */
int atoll_process_lock_state(int state_fd, int *ret_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Makes the directory of the socket. */
int atoll_process_make_socket_dir(const char *socket_path,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;

/* Finds the directory with atoll-spawn: the one of our own executable, or the installed one.
 * NOT_FOUND. */
int atoll_process_find_programs(char *out, size_t cap, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Finds a directory of installed data ("registry", "drivers") in the same way; "" if there is
 * none. */
void atoll_process_find_data(const char *name, char *out, size_t cap);

/* Lowers our OOM score, so that the kernel kills a sandbox before the daemon. Call it after the
 * last program was started, which would inherit the score. */
void atoll_process_spare(void);
