#pragma once
#include "api/daytona/daytona_internal.h"

/* A request to create a sandbox. */
struct atoll_daytona_minutes {
    int64_t stop, pause, archive, destroy, ttl;
};
#define ATOLL_DAYTONA_CONTEXTS_MAX 64 /* of one build */

struct atoll_daytona_create {
    const char *name, *snapshot, *user, *target, *addresses, *domains, *proxy, *linked;
    const char *const *env;
    const json_t *labels, *volumes, *cpu, *memory, *disk, *gpu_types, *secrets;
    const json_t *auto_stop, *auto_pause, *auto_archive, *auto_delete, *ttl;
    bool is_public, block_all, has_build, kvm;
    uint32_t gpus;
    const char *dockerfile;
    const char *const *hashes; /* of build contexts; or NULL */
    struct atoll_daytona_minutes minutes;
    int64_t asked_unix_ms; /* when the client asked */
    const void *text;      /* the request as it came */
    size_t text_len;
};

/* Reads a request. Of the call only the API, its engine and the tenant are used: it may be made up. What is
 * returned is valid until atoll_body_done(), which is due also after an error. */
int atoll_daytona_create_decode(const struct atoll_api_call *call, const void *bytes, size_t n,
                                int64_t asked_unix_ms, struct atoll_body *body,
                                struct atoll_daytona_create *ret, struct atoll_options *ret_options,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* An atoll_sandbox_fn whose arg is the call: answers with the sandbox. */
void atoll_daytona_created(void *arg, struct atoll_sandbox *sandbox,
                           const struct atoll_error *error);

/* control_build.c: the same with a template made from the Dockerfile of the request; answers the call.
 * Everything is borrowed for the call. */
void atoll_daytona_create_built(struct atoll_api_call *call, const struct atoll_daytona_create *q,
                                const struct atoll_options *options);

/* control_proxy.c: the outbound proxy of the request; NULL and "": none. */
int atoll_daytona_proxy_check(const struct atoll_daytona_create *q,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* A checked URL without its user and password, for views. */
int atoll_daytona_proxy_show(const char *url, struct atoll_body *body, const char **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* The member "proxy" of a network policy, a new reference; NULL: it is an HTTP proxy, or none. */
json_t *atoll_daytona_proxy_policy(const char *url);
/* Adds the variables of an HTTP proxy to *env; those that the client has set stay. */
int atoll_daytona_proxy_env(const char *url, struct atoll_body *body, const char *const **env,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* A number of CPUs or GiB; NULL and null leave *ret as it is. INVALID_ARGUMENT. */
int atoll_daytona_take_size(const json_t *value, const char *name, double *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
