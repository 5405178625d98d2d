#pragma once
#include "engine/engine_internal.h"

/*
 * Contents of files where descriptors do not pass: piece by piece through the agent's connection,
 * several pieces on their way at a time, from and to a file of ours without a name. What waits there
 * is bounded: by the sandbox's disk, and by how many such transfers there are.
 */

#define ATOLL_TRANSFERS_MAX 64 /* of all tenants; see base/shares.h */

/* A place for so many bytes (UINT64_MAX: not known yet) of a file of that sandbox; memory for few,
 * else in the state directory. Returns the descriptor. RESOURCE_EXHAUSTED when a file of that size
 * is too large for this. */
int atoll_inband_spool(const struct atoll_sandbox *sandbox, uint64_t size_bytes,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Most bytes of one file. */
uint64_t atoll_inband_max(const struct atoll_sandbox *sandbox);

/* The contents of a handle that is open for reading, which stays open. done is called once and owns fd. */
typedef void atoll_fetched_fn(void *arg, int fd, uint64_t size_bytes,
                              const struct atoll_error *error);
void atoll_inband_fetch(struct atoll_sandbox *sandbox, uint32_t handle, uint64_t size_bytes,
                        atoll_fetched_fn *done, void *arg);
/* The contents of fd (taken over) to a handle that is open for writing. done is called once. */
void atoll_inband_send(struct atoll_engine *engine, const char *id, const char *owner,
                       uint32_t handle, int fd, atoll_done_fn *done, void *arg);
