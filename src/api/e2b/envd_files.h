#pragma once
#include "api/e2b/envd.h"
#include "api/e2b/filesystem.h"

/* What plain HTTP of files shares (envd_download.c). */

/* "+NAME" from ?username=; 401. False has answered. */
bool atoll_envd_query_user(struct atoll_api_call *call, char *out);
/* Answers with what the agent said about a path, in envd's words. user: "+NAME". */
void atoll_envd_path_fail(struct atoll_api_call *call, const struct atoll_error *error,
                          const char *user);
/* envd_metadata.c: what X-Metadata-* headers say: attributes of a file. */
struct atoll_envd_metadata {
    struct atoll_buf pairs; /* name NUL value NUL … */
};
/* INVALID_ARGUMENT. Done with in any case. */
int atoll_envd_metadata_take(struct atoll_envd_metadata *m, const struct atoll_http_request *req,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_envd_metadata_done(struct atoll_envd_metadata *m);
/* Makes it the whole metadata of a file: what is not in it goes. m is borrowed until done comes. */
void atoll_envd_metadata_apply(const struct atoll_envd_metadata *m, struct atoll_engine *engine,
                               const char *sandbox_id, const char *user, const char *path,
                               atoll_done_fn *done, void *arg);
