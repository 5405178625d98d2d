#pragma once
#include "engine/engine_internal.h"

/*
 * Transfers contents of files if the agent cannot pass descriptors: in pieces over the agent's
 * connection, several in flight at a time, from or to an unnamed file of the daemon (the spool).
 * Spooled data is bounded by the sandbox's disk size and by the number of transfers.
 */

#define ATOLL_TRANSFERS_MAX 64 /* of all tenants; see base/shares.h */

/* Opens a spool for size_bytes (UINT64_MAX: not known yet) of a file of that sandbox: in memory if
 * small, else in the state directory. Returns the descriptor. RESOURCE_EXHAUSTED if the file is too
 * large, or there are too many transfers. */
int atoll_inband_spool(const struct atoll_sandbox *sandbox, uint64_t size_bytes,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens a file without a name in the directory. If the file system has no O_TMPFILE, makes one and
 * unlinks it. Returns the descriptor, or -errno. */
int atoll_file_nameless(int dir_fd) ATOLL_MUST_CHECK;
/* Maximum size of one file. */
uint64_t atoll_inband_max(const struct atoll_sandbox *sandbox);

/* Fetches the contents of a handle that is open for reading; the handle stays open. done is called
 * once and owns fd. */
typedef void atoll_fetched_fn(void *arg, int fd, uint64_t size_bytes,
                              const struct atoll_error *error);
void atoll_inband_fetch(struct atoll_sandbox *sandbox, uint32_t handle, uint64_t size_bytes,
                        atoll_fetched_fn *done, void *arg);
/* Sends the contents of fd (takes ownership) to a handle that is open for writing. done is called
 * once. */
void atoll_inband_send(struct atoll_engine *engine, const char *id, const char *owner,
                       uint32_t handle, int fd, atoll_done_fn *done, void *arg);
