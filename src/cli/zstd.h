#pragma once
#include "base/error.h"

/* Archives that are compressed with zstd, by the program zstd. */

/* Whether a file begins as zstd's do. */
bool atoll_cli_is_zstd(int fd);
/* A new file without a name, which programs that we start inherit. The caller owns the descriptor. */
int atoll_cli_nameless_file(int *ret_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the file, compressed, to out_fd. */
int atoll_cli_compress(int fd, int out_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The other way; out_fd is at its beginning then. */
int atoll_cli_decompress(char *path, int out_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
