#pragma once
#include "api/vercel/vercel_internal.h"

/* A request to create a sandbox. */
struct atoll_vercel_create {
    const char *project, *name, *runtime, *image, *network_id, *region;
    const char *const *env;
    const json_t *ports, *source, *timeout, *vcpus, *memory, *persistent, *policy, *tags;
    const json_t *expiration, *keep_last, *mounts, *failover;
    /* Derived. */
    int64_t timeout_ms;
    bool keeps_files;
    bool forks;            /* runtime and image are those of the source */
    const char *snapshot;  /* id of the snapshot that it starts from, or NULL */
    json_t *answer_policy; /* owned; if it is given, `policy` is not looked at */
};

int atoll_vercel_create_decode(struct atoll_body *body, const uint8_t *bytes, size_t n,
                               struct atoll_vercel_create *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* cpu_millis and memory_bytes; defaults if they are not given. INVALID_ARGUMENT. */
int atoll_vercel_limits(const struct atoll_vercel_create *q, struct atoll_limits *limits,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* control_root.c: what it is made from. Beside a snapshot, `runtime` is not looked at. INVALID_ARGUMENT,
 * FAILED_PRECONDITION. */
int atoll_vercel_choose_root(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                             struct atoll_body *body, struct atoll_options *o,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Checks the request and fills in the options, which borrow from the request and the body. */
int atoll_vercel_prepare(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                         struct atoll_body *body, struct atoll_options *o,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The members that do not choose the root. INVALID_ARGUMENT. */
int atoll_vercel_settings_check(const struct atoll_vercel_create *q,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* making.c: makes the sandbox, then its files from the source (a repository or an archive; else it is
 * ignored), and answers the call. Everything is borrowed for the call. */
void atoll_vercel_make(struct atoll_api_call *call, const struct atoll_options *options,
                       const json_t *source);
