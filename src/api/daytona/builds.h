#pragma once
#include "api/daytona/control_create.h"
#include "engine/build/build.h"

/*
 * Builds of Dockerfiles. A sandbox that waits for its build has an id from the start: clients ask for it
 * and see pending_build, building_snapshot, and then the sandbox, or build_failed. Waiting sandboxes are
 * stored (store/waiting.h): after a restart of the daemon they wait again. One whose build failed stays
 * until the client deletes it, or until a newer one needs its place.
 */
#define ATOLL_DAYTONA_WAITING_MAX 256 /* sandboxes, of all tenants */
#define ATOLL_DAYTONA_TENANT_WAITING_MAX 32

struct atoll_daytona_definition {
    const char *dockerfile;
    const char *const *hashes;     /* of build contexts; or NULL */
    const char *const *entrypoint; /* or NULL */
    const char *name;              /* of the snapshot, with an optional tag */
    uint32_t cpu_millis;           /* 0: default; and so are the following */
    uint64_t memory_bytes;
    uint32_t disk_gib;
};
/* Starts a build of the tenant. id: of the version. INVALID_ARGUMENT, RESOURCE_EXHAUSTED … */
int atoll_daytona_build_start(const struct atoll_api_call *call,
                              const struct atoll_daytona_definition *definition,
                              char id[ATOLL_VERSION_ID_LEN + 1],
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* A waiting sandbox of the tenant, by its id, or by a name that no sandbox of the engine has; NULL. */
struct atoll_daytona_waiting;
struct atoll_daytona_waiting *atoll_daytona_waiting_find(const struct atoll_api *api,
                                                         const char *tenant, const char *text);
/* ALREADY_EXISTS: a sandbox of the tenant has the name, or one that waits. */
int atoll_daytona_check_name(const struct atoll_api_call *call, const char *name,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
const char *atoll_daytona_waiting_id(const struct atoll_daytona_waiting *w);
const char *atoll_daytona_waiting_build(const struct atoll_daytona_waiting *w);
/* Calls fn for each of the tenant that the engine does not have yet; tenant NULL: of all tenants. The view and the
 * facts are as of a sandbox; the view is valid while w is. */
typedef void atoll_daytona_waiting_fn(void *arg, const struct atoll_daytona_waiting *w,
                                      const struct atoll_sandbox_view *view, const json_t *facts);
void atoll_daytona_waiting_each(const struct atoll_api *api, const char *tenant,
                                atoll_daytona_waiting_fn *fn, void *arg);
void atoll_daytona_waiting_view(struct atoll_json_out *out, const struct atoll_daytona_waiting *w,
                                const char *origin, enum atoll_daytona_detail detail);
/* FAILED_PRECONDITION for requests that need the sandbox; says what the client can do. */
int atoll_daytona_waiting_refuse(const struct atoll_daytona_waiting *w,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* Answers the call with a sandbox that waits for the build of the request's Dockerfile. */
void atoll_daytona_wait_for_build(struct atoll_api_call *call, const struct atoll_daytona_create *q,
                                  const struct atoll_options *options);
/* Forgets it, and cancels its build. */
void atoll_daytona_waiting_drop(struct atoll_daytona_waiting *w);
/* Those that an earlier daemon stored. */
int atoll_daytona_waiting_load(struct atoll_daytona *daytona,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Frees memory only. */
void atoll_daytona_waiting_done(struct atoll_daytona *daytona);
