#pragma once
#include <errno.h>
#include <jansson.h>
#include "api/fields.h"
#include "api/kit/facts.h"
#include "api/vercel/vercel.h"

/*
 * Shared by the files of the control plane. Names of members, statuses, codes and some texts are
 * Vercel's, since its clients depend on them.
 */
#define ATOLL_VERCEL_WHO "a client of the Vercel API"
#define ATOLL_VERCEL_REGION "iad1" /* the only region, and the default of `region` */
#define ATOLL_VERCEL_FACTS_MAX ((size_t)128 * 1024)
#define ATOLL_VERCEL_RUNTIME "node24" /* of requests that name none */
#define ATOLL_VERCEL_PORTS_MAX 15

/* state.c: the state of the facade. */
struct atoll_vercel {
    struct atoll_api *api;
    struct atoll_timer sweep;
};
void atoll_vercel_close(void *state);

/* --- errors.c and protocols.c --- */

/* errno of a FAILED_PRECONDITION that has a code of Vercel's. */
#define ATOLL_VERCEL_E_STOPPED ESHUTDOWN
#define ATOLL_VERCEL_E_STOPPING EINPROGRESS
#define ATOLL_VERCEL_E_SNAPSHOTTING EALREADY
#define ATOLL_VERCEL_E_NO_SNAPSHOT ESTALE
/* fail() of both protocols. */
void atoll_vercel_fail(struct atoll_api_call *call, int status, const struct atoll_error *error);
/* NOT_FOUND, with what may have become of it. what: "Sandbox" or "Session". */
int atoll_vercel_missing(const char *what, const char *text,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Answers with it. */
void atoll_vercel_refuse_missing(struct atoll_api_call *call, const char *what, const char *text);
/* Why the session of the call refused a request of the engine: one of the above, or 0. */
int atoll_vercel_state_error(const struct atoll_api_call *call, const struct atoll_error *error);
/* Checks that this run of the sandbox of the call is the one that runs now. FAILED_PRECONDITION with one of
 * the above, NOT_FOUND. */
int atoll_vercel_check_runs(const struct atoll_api_call *call, int64_t number,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- facts.c: what the facade stores about a sandbox --- */

extern const struct atoll_facts_kind atoll_vercel_kind;
/* A new reference; those of a sandbox of another facade are foreign. */
json_t *atoll_vercel_facts(const struct atoll_sandbox *sandbox);
int atoll_vercel_facts_store(struct atoll_engine *engine, const char *id, json_t *facts,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets one member and stores the facts; takes ownership of the value. */
int atoll_vercel_change(struct atoll_engine *engine, const char *id, const char *name,
                        json_t *value, struct atoll_error *err) ATOLL_MUST_CHECK;

/* A sandbox with its view and facts. Valid until control returns to the loop. */
struct atoll_vercel_box {
    const struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    json_t *facts; /* owned */
};
/* False: there is no sandbox of this id. After true: atoll_vercel_box_done(). */
bool atoll_vercel_box_get(struct atoll_engine *engine, const char *id,
                          struct atoll_vercel_box *ret);
void atoll_vercel_box_done(struct atoll_vercel_box *box);
/* Whether this facade made it. */
bool atoll_vercel_box_is_ours(const struct atoll_vercel_box *box);

/* --- sessions.c: runs of a sandbox --- */

#define ATOLL_VERCEL_SID_MAX 65
#define ATOLL_VERCEL_SESSIONS_MAX 100 /* of which a sandbox keeps records; the oldest ones go */
/* "sbx_" and the id of the sandbox; from the second run on, with "_" and the number of the run. */
void atoll_vercel_sid_write(const char *sandbox_id, int64_t number, char out[ATOLL_VERCEL_SID_MAX]);
/* id: ATOLL_ID_LEN + 1 bytes. False: the text is not an id of a session. */
bool atoll_vercel_sid_read(const char *text, char *id, int64_t *ret_number);
/* The number of the current run. */
int64_t atoll_vercel_session_number(const json_t *facts);
/* The record of a run; borrowed. NULL: it has none any more. Members: "n", "createdAt", "startedAt",
 * "stoppedAt", "requestedStopAt", "timeout" (ms), "sourceSnapshotId", "snapshottedAt", "restored" (its disk
 * was replaced when it started). */
json_t *atoll_vercel_session_record(const json_t *facts, int64_t number);
/* Adds the record of the next run, which becomes the current one. ended_unix_ms: when the one before
 * stopped; 0: this is the first. source: id of the snapshot that it started from, or "". */
void atoll_vercel_session_add(json_t *facts, int64_t ended_unix_ms, int64_t timeout_ms,
                              const char *source);

/* --- views.c --- */

/* "pending", "running", "stopping", "stopped", "failed", "aborted" or "snapshotting". */
const char *atoll_vercel_status(const struct atoll_sandbox_view *v);
void atoll_vercel_view_sandbox(struct atoll_json_out *out, const char *key,
                               const struct atoll_vercel_box *box);
void atoll_vercel_view_session(struct atoll_json_out *out, const char *key,
                               const struct atoll_vercel_box *box, int64_t number);
/* Writes "routes": [{url, subdomain, port}]. ports: an array, or NULL. */
void atoll_vercel_view_routes(struct atoll_json_out *out, const struct atoll_api *api,
                              const char *sandbox_id, const json_t *ports);
/* The current state of a sandbox as the answer to a request that creates, gets or resumes it. */
void atoll_vercel_reply_box(struct atoll_api_call *call, const char *id, bool resumed);
/* {"session","routes"}; in /v1 {"sandbox","routes"}. */
void atoll_vercel_reply_session(struct atoll_api_call *call, const char *id, int64_t number);
/* Makes previews for the ports of the facts; other ones of the sandbox are removed. */
int atoll_vercel_open_ports(const struct atoll_api *api, const struct atoll_vercel_box *box,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* control_list.c: calls fn for the sandboxes of the caller that this facade made, oldest first. */
void atoll_vercel_each_box(const struct atoll_api_call *call,
                           void (*fn)(void *arg, const struct atoll_vercel_box *box), void *arg);

/* --- policy.c --- */

/* A policy as requests have it, to the canonical one of the engine, malloced, and to the form of answers,
 * a new reference. NULL or null: all is allowed. INVALID_ARGUMENT, UNIMPLEMENTED. Pure. */
int atoll_vercel_policy(const json_t *policy, char **ret_policy, json_t **ret_answer,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- snapshots.c --- */

/* The reference of the template version that a snapshot is, malloced. FAILED_PRECONDITION, which is
 * answered as 410 snapshot_not_found. */
int atoll_vercel_snapshot_reference(const struct atoll_api_call *call, const char *snapshot,
                                    char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Which automatic snapshots of a sandbox stay. */
struct atoll_vercel_retention {
    size_t count; /* the newest ones */
    bool
        evicted_stay; /* the others stay for evicted_ms from their making on; else they go at once */
    int64_t evicted_ms; /* 0 and less: for ever */
};
/* control_snapshots.c: removes the automatic snapshots of a sandbox that do not stay. */
void atoll_vercel_snapshots_trim(struct atoll_engine *engine, const char *sandbox_id,
                                 const struct atoll_vercel_retention *retention);
/* Removes the automatic snapshots of a sandbox that is gone; with `manual` all of them. */
void atoll_vercel_snapshots_drop(struct atoll_engine *engine, const char *sandbox_id, bool manual);
/* Removes those of all tenants whose time is over, and automatic ones whose sandbox is gone. */
void atoll_vercel_snapshots_expire(struct atoll_engine *engine);

/* drives.c: {PATH: {"drive", "mode"}} as mounts of volumes. INVALID_ARGUMENT. */
int atoll_vercel_mounts(const json_t *mounts, struct atoll_body *body, struct atoll_options *o,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- control_create.c --- */

#define ATOLL_VERCEL_TIMEOUT_MS INT64_C(300000) /* of requests that give none */
#define ATOLL_VERCEL_TIMEOUT_MAX_MS INT64_C(86400000)
/* Arrays and objects of requests. INVALID_ARGUMENT; NULL and null are valid. */
int atoll_vercel_ports_check(const json_t *ports, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_vercel_timeout_check(const json_t *value, const char *name, int64_t *ret_ms,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* control_session.c: gives the current run more time. OUT_OF_RANGE. */
int atoll_vercel_extend(struct atoll_engine *engine, const char *id, int64_t more_ms,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* routes.c: whether paths have this text where others have the name of a sandbox, which therefore could not
 * be reached by it. */
bool atoll_vercel_is_segment(const char *name);

/* --- handlers, by file --- */

/* control_create.c */
ATOLL_VERCEL_HANDLER(create);
/* control_change.c */
ATOLL_VERCEL_HANDLER(sandbox_update);
ATOLL_VERCEL_HANDLER(session_policy);
/* control_fork.c */
ATOLL_VERCEL_HANDLER(sandbox_fork);
/* control_snapshots.c */
ATOLL_VERCEL_HANDLER(snapshot_create);
ATOLL_VERCEL_HANDLER(snapshot_list);
ATOLL_VERCEL_HANDLER(snapshot_get);
ATOLL_VERCEL_HANDLER(snapshot_delete);
ATOLL_VERCEL_HANDLER(snapshot_tree);
/* drives.c */
ATOLL_VERCEL_HANDLER(drive_list);
ATOLL_VERCEL_HANDLER(drive_create);
ATOLL_VERCEL_HANDLER(drive_delete);
/* control_sandbox.c */
ATOLL_VERCEL_HANDLER(sandbox_get);
ATOLL_VERCEL_HANDLER(sandbox_delete);
/* control_list.c */
ATOLL_VERCEL_HANDLER(sandbox_list);
ATOLL_VERCEL_HANDLER(session_list);
/* control_session.c */
ATOLL_VERCEL_HANDLER(session_get);
ATOLL_VERCEL_HANDLER(session_stop);
ATOLL_VERCEL_HANDLER(session_extend);
