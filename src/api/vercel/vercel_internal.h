#pragma once
#include <errno.h>
#include <jansson.h>
#include "api/fields.h"
#include "api/vercel/vercel.h"

/*
 * Shared by the files of the control plane. Names of members, statuses, codes and some texts are
 * Vercel's, since its clients depend on them.
 */
#define ATOLL_VERCEL_WHO "a client of the Vercel API"
#define ATOLL_VERCEL_REGION "iad1" /* the only region, and the default of `region` */
#define ATOLL_VERCEL_FACTS_MAX ((size_t)128 * 1024)
#define ATOLL_VERCEL_PORTS_MAX 15

/* --- errors.c and protocols.c --- */

/* errno of a FAILED_PRECONDITION that has a code of Vercel's. */
#define ATOLL_VERCEL_E_STOPPED ESHUTDOWN
#define ATOLL_VERCEL_E_STOPPING EINPROGRESS
#define ATOLL_VERCEL_E_SNAPSHOTTING EALREADY
#define ATOLL_VERCEL_E_NO_SNAPSHOT ESTALE
/* fail() of both protocols. */
void atoll_vercel_fail(struct atoll_api_call *call, int status, const struct atoll_error *error);
/* Why the session of the call refused a request of the engine: one of the above, or 0. */
int atoll_vercel_state_error(const struct atoll_api_call *call, const struct atoll_error *error);

/* --- facts.c: what the facade stores about a sandbox --- */

/* A new reference; defaults for a sandbox of another facade. */
json_t *atoll_vercel_facts(const struct atoll_sandbox *sandbox);
json_t *atoll_vercel_facts_new(void);
/* The text to store, malloced. INVALID_ARGUMENT: too large. */
int atoll_vercel_facts_text(json_t *facts, char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_vercel_facts_store(struct atoll_engine *engine, const char *id, json_t *facts,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
const char *atoll_vercel_fact_text(const json_t *facts, const char *name); /* or "" */
int64_t atoll_vercel_fact_number(const json_t *facts, const char *name, int64_t otherwise);
bool atoll_vercel_fact_flag(const json_t *facts, const char *name);
/* Sets one member and stores the facts; takes ownership of the value. */
int atoll_vercel_change(struct atoll_engine *engine, const char *id, const char *name,
                        json_t *value, struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- sessions.c: ids of sessions --- */

#define ATOLL_VERCEL_SID_MAX 65
/* "sbx_" and the id of the sandbox; from the second run on, with "_" and the number of the run. */
void atoll_vercel_sid_write(const char *sandbox_id, int64_t number, char out[ATOLL_VERCEL_SID_MAX]);
/* id: ATOLL_ID_LEN + 1 bytes. False: the text is not an id of a session. */
bool atoll_vercel_sid_read(const char *text, char *id, int64_t *ret_number);
/* The number of the current run. */
int64_t atoll_vercel_session_number(const json_t *facts);

/* --- views.c --- */

/* "pending", "running", "stopping", "stopped", "failed", "aborted" or "snapshotting". */
const char *atoll_vercel_status(const struct atoll_sandbox_view *v, const json_t *facts);

/* --- handlers, by file --- */

ATOLL_VERCEL_HANDLER(session_get); /* control_session.c */
