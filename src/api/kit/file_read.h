#pragma once
#include "engine/engine.h"

/*
 * Reads a whole file of a sandbox into memory.
 *
 * Thread: the loop's; a worker reads.
 */
/* bytes: borrowed during the call. mode: its permission bits. RESOURCE_EXHAUSTED: the file has more than
 * `max` bytes; other errors of atoll_files_open(). */
typedef void atoll_file_read_fn(void *arg, const uint8_t *bytes, size_t n, uint32_t mode,
                                const struct atoll_error *error);
void atoll_file_read_whole(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                           size_t max, atoll_file_read_fn *done, void *arg);
