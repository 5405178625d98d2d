#pragma once
#include "api/e2b/connect.h"
#include "api/e2b/e2b.h"

/*
 * envd: what the E2B SDKs use inside a sandbox, on port 49983. Processes and file operations are
 * Connect calls; file contents and a few other requests are plain HTTP. File operations have root's
 * access; the user determines where relative paths start and who owns new files.
 */
extern const struct atoll_routes atoll_e2b_envd_routes;
extern const struct atoll_routes atoll_e2b_interpreter_routes; /* interpreter.c */

#define ATOLL_ENVD_HANDLER(name) \
    void atoll_envd_##name(struct atoll_api_call *call, const uint8_t *body, size_t n)

/* envd_facts.c */
ATOLL_ENVD_HANDLER(health);
ATOLL_ENVD_HANDLER(metrics);
ATOLL_ENVD_HANDLER(envs);
/* process.c */
ATOLL_ENVD_HANDLER(process_list);
ATOLL_ENVD_HANDLER(process_update);
ATOLL_ENVD_HANDLER(process_signal);
/* process_start.c */
ATOLL_ENVD_HANDLER(process_start);
ATOLL_ENVD_HANDLER(process_connect);
/* process_input.c */
ATOLL_ENVD_HANDLER(process_send_input);
ATOLL_ENVD_HANDLER(process_stream_input);
ATOLL_ENVD_HANDLER(process_close_stdin);
/* filesystem.c */
ATOLL_ENVD_HANDLER(fs_stat);
ATOLL_ENVD_HANDLER(fs_make_dir);
ATOLL_ENVD_HANDLER(fs_move);
ATOLL_ENVD_HANDLER(fs_list_dir);
ATOLL_ENVD_HANDLER(fs_remove);
/* watch_stream.c, watchers.c */
ATOLL_ENVD_HANDLER(watch_dir);
ATOLL_ENVD_HANDLER(watcher_create);
ATOLL_ENVD_HANDLER(watcher_events);
ATOLL_ENVD_HANDLER(watcher_remove);
/* envd_download.c, envd_upload.c, envd_compose.c */
ATOLL_ENVD_HANDLER(download);
ATOLL_ENVD_HANDLER(upload);
ATOLL_ENVD_HANDLER(compose);

/* Answers {"code":status,"message":text}, the error format of envd's plain HTTP. Ends the
 * request. */
void atoll_envd_refuse(struct atoll_http_request *req, int status, const char *text);
/* The same for a call. */
void atoll_envd_fail(struct atoll_api_call *call, int status, const char *text);

#define ATOLL_ENVD_USER_MAX 66
/* The user of a Connect call, from its Authorization header: a name, "" for the default user.
 * UNAUTHENTICATED. */
int atoll_envd_user(const struct atoll_api_call *call, char *out,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for files: "+NAME". */
int atoll_envd_file_user(const struct atoll_api_call *call, char *out,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Prefix of the extended attributes that hold file metadata. */
#define ATOLL_ENVD_ATTRIBUTES "user.e2b."
/* Whether the sandbox of the call exists and is running. */
bool atoll_envd_is_running(const struct atoll_api_call *call);
