#pragma once
#include "engine/engine.h"
#include "store/ended.h"

/*
 * Records of ended sandboxes: what they were, how they ended, and their newest commands with their
 * results and output. A record is made when a sandbox that once ran is destroyed, and is
 * removed when it is too old or when there are too many: then the oldest record of the tenant that
 * has the most. Output may be removed before that (engine/exec/ended_output.c). A name or the beginning of an id does not find a record.
 *
 * Thread: the loop's. Blocking: as store/ended.h.
 */

/* Kinds of end: "request", "deadline", "idle", "lease", "connection"; or "failed" for a sandbox that
 * had failed before it was destroyed. */
#define ATOLL_ENDED_FAILED "failed"
#define ATOLL_ENDED_REQUEST "request"

/* As in store/ended.h: 1 found, 0 not found. */
int atoll_ended_find(struct atoll_engine *engine, const char *id, atoll_store_ended_fn *fn,
                     void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_ended_find_session(struct atoll_engine *engine, const char *session_id,
                             atoll_store_ended_fn *fn, void *arg,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* tenant NULL: of all tenants. */
int atoll_ended_each(struct atoll_engine *engine, const char *tenant, int64_t after_number,
                     uint32_t most, atoll_store_ended_fn *fn, void *arg,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* The commands of one of them, in the order in which they started. Views are borrowed for the
 * call. */
int atoll_ended_execs(struct atoll_engine *engine, const char *sandbox_id,
                      void (*fn)(void *arg, const struct atoll_exec_view *view), void *arg,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* One of them, with its output, for atoll_reader_open() and atoll_exec_get(). Readers may outlive
 * the close. NOT_FOUND. */
int atoll_ended_exec_open(struct atoll_engine *engine, const char *sandbox_id, const char *exec_id,
                          struct atoll_exec **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_ended_exec_close(struct atoll_exec *exec);
