#pragma once
#include "api/fields.h"
#include "api/vercel/vercel.h"

/*
 * Shared by the files that serve what is below a session: commands, files, terminals. A command is an
 * exec of the engine.
 */
#define ATOLL_VERCEL_PATH_MAX 4095
#define ATOLL_VERCEL_INTERACTIVE "/vercel/interactive" /* base of WebSockets of terminals */
#define ATOLL_VERCEL_NDJSON "application/x-ndjson"

/* session_body.c: decodes a body; false: the call has been refused. */
bool atoll_vercel_decode(struct atoll_api_call *call, struct atoll_body *body, const uint8_t *bytes,
                         size_t n, const struct atoll_field *table, void *into);
/* An absolute path from `path` and the directory that the client gave for it, or NULL. out holds
 * ATOLL_VERCEL_PATH_MAX + 1 bytes. False: the call has been refused. */
bool atoll_vercel_path(struct atoll_api_call *call, const char *path, const char *cwd, char *out);

/* commands.c: the command that {cid} names; NULL: the call has been refused. *ret_ended: of a destroyed
 * sandbox; the caller closes the exec with atoll_ended_exec_close(). */
struct atoll_exec *atoll_vercel_command_find(struct atoll_api_call *call, bool *ret_ended);
/* {"command":{…}} in two parts, the outermost value: what does not change, and how the command ended (NULL:
 * it runs). */
void atoll_vercel_command_head(struct atoll_json_out *out, const struct atoll_api_call *call,
                               const struct atoll_exec_view *view);
void atoll_vercel_command_tail(struct atoll_json_out *out, const struct atoll_exec_result *result);

/* command_stream.c: how the output and the end of a command are sent. */
enum atoll_vercel_stream {
    ATOLL_VERCEL_RUN,      /* lines: the command, its output, the command with its end */
    ATOLL_VERCEL_RUN_ONLY, /* the same without output */
    ATOLL_VERCEL_LOGS,     /* lines: the output */
    ATOLL_VERCEL_WAIT,     /* one JSON body: the command with its end */
};
/* Answers the call. The command continues if the client disconnects. */
void atoll_vercel_stream_start(struct atoll_api_call *call, struct atoll_exec *exec,
                               enum atoll_vercel_stream kind);

ATOLL_VERCEL_HANDLER(command_run);
ATOLL_VERCEL_HANDLER(command_get);
ATOLL_VERCEL_HANDLER(command_kill);
ATOLL_VERCEL_HANDLER(command_stdin);
ATOLL_VERCEL_HANDLER(command_logs); /* command_stream.c */
ATOLL_VERCEL_HANDLER(file_mkdir);   /* session_files.c */
ATOLL_VERCEL_HANDLER(file_write);
ATOLL_VERCEL_HANDLER(file_read);
ATOLL_VERCEL_HANDLER(interactive_open); /* interactive.c */
ATOLL_VERCEL_HANDLER(interactive_connect);
