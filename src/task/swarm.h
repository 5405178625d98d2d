#pragma once
#include "task/task.h"

/*
 * Swarms: several tasks with one memory. A member begins when the members that it depends on have
 * succeeded and fewer than `concurrency` run. The memory is an object of JSON values that agents read and
 * write through a file (ATOLL_SWARM_MEMORY), and clients by the API.
 *
 * A swarm is stored whenever a member begins or ends, and when its memory changes: the next daemon
 * continues it.
 *
 * Thread: the loop's. Views are borrowed until control returns to the loop.
 */
struct atoll_swarms;

#define ATOLL_SWARM_MEMBERS_MAX 100
#define ATOLL_SWARM_MEMORY_MAX ((size_t)256 * 1024)
#define ATOLL_SWARMS_MAX \
    100 /* of one tenant; the oldest ended one is forgotten, else new ones are refused */

/* tasks and store are borrowed. Call before atoll_tasks_resume(). */
int atoll_swarms_new(struct atoll_tasks *tasks, struct atoll_store *store,
                     struct atoll_swarms **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Continues the swarms that have not ended; after atoll_tasks_resume(). */
void atoll_swarms_resume(struct atoll_swarms *swarms);
struct atoll_swarms *atoll_swarms_free(struct atoll_swarms *swarms);

/* request: {"tasks": [{"name", "dependsOn": [names], and a task's members}], "concurrency", "failFast",
 * "memory", "leaseSeconds", "lifetimeSeconds", "hub": {"url", "swarm", "secret"}}, whose types have been checked;
 * its reference is taken. ret_id: ATOLL_ID_LEN + 1 bytes.
 * INVALID_ARGUMENT (names, circles), RESOURCE_EXHAUSTED. */
int atoll_swarms_start(struct atoll_swarms *swarms, const char *tenant, json_t *request,
                       char *ret_id, struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_swarm_view {
    const char *id, *tenant;
    enum atoll_task_state state;
    const json_t *members; /* [{"name", "task_id", "state"}]; state also "pending" and "skipped" */
    const json_t *memory;
    int64_t created_unix_ms, ended_unix_ms;
    int64_t lease_unix_ms; /* when its lease ends; 0: it has none */
};
/* tenant NULL: of any. NOT_FOUND. */
int atoll_swarms_find(struct atoll_swarms *swarms, const char *tenant, const char *id,
                      struct atoll_swarm_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Newest first, those older than (created, id): start with INT64_MAX and "". */
bool atoll_swarms_before(struct atoll_swarms *swarms, int64_t created_unix_ms, const char *id,
                         struct atoll_swarm_view *ret);
/* Cancels its members. NOT_FOUND. */
int atoll_swarms_cancel(struct atoll_swarms *swarms, const char *id,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* A task is tried again: the swarm that it is a member of goes on, unless it was cancelled. */
void atoll_swarms_task_again(struct atoll_swarms *swarms, const char *task_id);
/* The lease lasts leaseSeconds from now. NOT_FOUND; FAILED_PRECONDITION: it has none. */
int atoll_swarms_heartbeat(struct atoll_swarms *swarms, const char *id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets the members of `changes` in the memory; null removes one. NOT_FOUND; RESOURCE_EXHAUSTED: it would be
 * larger than ATOLL_SWARM_MEMORY_MAX. */
int atoll_swarms_remember(struct atoll_swarms *swarms, const char *id, const json_t *changes,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
#define ATOLL_HUB_URL_MAX 1000
/* Whether it is the address of a hub. INVALID_ARGUMENT says what is supported. */
int atoll_hub_check_url(const char *url, struct atoll_error *err) ATOLL_MUST_CHECK;
/* fn is called from the loop when a member or the memory has changed, until it is unwatched. */
struct atoll_swarm_watch;
int atoll_swarms_watch(struct atoll_swarms *swarms, const char *id, void (*fn)(void *arg),
                       void *arg, struct atoll_swarm_watch **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_swarm_watch *atoll_swarms_unwatch(struct atoll_swarm_watch *watch); /* accepts NULL */
