#pragma once
#include "api/e2b/envd.h"
#include "api/e2b/filesystem.h"

/* Shared by the plain HTTP routes for files (envd_download.c). */

/* "+NAME" from ?username=. False: the call has been answered with 401. */
bool atoll_envd_query_user(struct atoll_api_call *call, char *out);
/* Answers with the agent's error about a path, in envd's words. user: "+NAME". */
void atoll_envd_path_fail(struct atoll_api_call *call, const struct atoll_error *error,
                          const char *user);
/* envd_metadata.c: the X-Metadata-* headers of an upload, which become attributes of the file. */
struct atoll_envd_metadata {
    struct atoll_buf pairs; /* name NUL value NUL … */
};
/* INVALID_ARGUMENT. Call atoll_envd_metadata_done() in any case. */
int atoll_envd_metadata_take(struct atoll_envd_metadata *m, const struct atoll_http_request *req,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_envd_metadata_done(struct atoll_envd_metadata *m);
/* Replaces the metadata of a file: other metadata is removed. m is borrowed until done is
 * called. */
void atoll_envd_metadata_apply(const struct atoll_envd_metadata *m, struct atoll_engine *engine,
                               const char *sandbox_id, const char *user, const char *path,
                               atoll_done_fn *done, void *arg);
