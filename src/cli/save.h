#pragma once
#include "base/error.h"

/*
 * Files and directories that are written with contents from a sandbox: below open directories, without
 * following links.
 */

/* Opens the directory dir_fd/name, and makes it if it does not exist. Returns its descriptor. */
int atoll_cli_save_directory(int dir_fd, const char *name, bool *ret_made,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Lets fill() write to a new file of a random name, and renames the complete file. If `name` is a
 * link, the rename replaces the link. */
int atoll_cli_save_file(int dir_fd, const char *name, mode_t mode,
                        int (*fill)(void *arg, int fd, struct atoll_error *err), void *arg,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
