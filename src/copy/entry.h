#pragma once
#include <sys/stat.h>
#include "copy/copy.h"

/*
 * Copies single entries of a tree: content, links, owners, modes, attributes, times.
 */

/* The error of a system call about a path of the client. */
int atoll_copy_failed(struct atoll_error *err, int errnum, const char *what, const char *path);

/* A file, symbolic link or FIFO `name` of the directory `from`, to `to_name` of `to`, where a file or link is
 * replaced. Other types are left out. path: for errors. */
int atoll_copy_entry(int from, const char *name, const struct stat *st, int to, const char *to_name,
                     const char *path, const struct atoll_copy_options *options,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* A file that is open for reading, to `to_name` of `to`. A link there is replaced; out >= 0 (borrowed): to this
 * file, which is open for writing. */
int atoll_copy_opened(int in, int out, int to, const char *to_name, const char *path,
                      const struct atoll_copy_options *options,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* Attributes, owner, mode and time of a file or directory; both descriptors are open for reading or writing. */
int atoll_copy_facts(int from, const struct stat *st, int to, const char *path,
                     const struct atoll_copy_options *options,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
