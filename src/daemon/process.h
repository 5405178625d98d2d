#pragma once
#include "base/error.h"

/*
 * The daemon as a process: its state directory, its place in the system and its privileges.
 * Blocking: a few system calls each.
 */

/* Makes the directory where it is not there (0700) and opens it. FAILED_PRECONDITION when it is
 * somebody else's. */
int atoll_process_open_state(const char *path, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Only one daemon per state directory. The lock goes with the descriptor, however we end.
 * ALREADY_EXISTS names the pid of the one that has it. */
int atoll_process_lock_state(int state_fd, int *ret_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Makes the directory of the socket. */
int atoll_process_make_socket_dir(const char *socket_path,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;

/* The directory with atoll-spawn: that of our own executable, or the installed one. NOT_FOUND. */
int atoll_process_find_programs(char *out, size_t cap, struct atoll_error *err) ATOLL_MUST_CHECK;

/* A directory of data that comes with us ("registry", "drivers"), found likewise; "" when there is
 * none. */
void atoll_process_find_data(const char *name, char *out, size_t cap);

/* As many descriptors as we may have. */
void atoll_process_raise_files(void);
/* Rather a sandbox than the daemon when memory runs out. After the last program was started, which
 * would inherit it. */
void atoll_process_spare(void);
/* No capability and no way to get one back; the system calls a sandbox has; and files changed only
 * below the directory that Landlock was prepared with. */
int atoll_process_drop_privileges(struct atoll_error *err) ATOLL_MUST_CHECK;
