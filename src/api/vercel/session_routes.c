/*
 * Routes below a session, in both forms of its path. docs/vercel.md has the same table.
 */
#include "api/vercel/session_internal.h"

#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define FILES ATOLL_BODY_FILES
#define STREAM ATOLL_BODY_STREAM
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE

/* clang-format off */
#define ROWS(BASE) \
    {ATOLL_POST, BASE "/cmd",             WRITE, FILES,  atoll_vercel_command_run, NULL}, \
    {ATOLL_GET,  BASE "/cmd/{cid}",       READ,  NONE,   atoll_vercel_command_get, NULL}, \
    {ATOLL_GET,  BASE "/cmd/{cid}/logs",  READ,  NONE,   atoll_vercel_command_logs, NULL}, \
    {ATOLL_POST, BASE "/cmd/{cid}/kill",  WRITE, JSON,   atoll_vercel_command_kill, NULL}, \
    {ATOLL_POST, BASE "/cmd/{cid}/stdin", WRITE, FILES,  atoll_vercel_command_stdin, NULL}, \
    {ATOLL_POST, BASE "/fs/mkdir",        WRITE, JSON,   atoll_vercel_file_mkdir, NULL}, \
    {ATOLL_POST, BASE "/fs/write",        WRITE, STREAM, atoll_vercel_file_write, NULL}, \
    {ATOLL_POST, BASE "/fs/read",         WRITE, JSON,   atoll_vercel_file_read, NULL}

static const struct atoll_route rows[] = {
    ROWS(ATOLL_VERCEL_SESSION),
    ROWS(ATOLL_VERCEL_SESSION_OLD),
    {ATOLL_POST, ATOLL_VERCEL_SESSION_OLD "/{cid}/kill", WRITE, JSON, atoll_vercel_command_kill, NULL},
    {ATOLL_POST, ATOLL_VERCEL_SESSION "/interactive", WRITE, JSON, atoll_vercel_interactive_open, NULL},
};
/* clang-format on */

const struct atoll_routes atoll_vercel_session_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_vercel_session_protocol, atoll_vercel_params,
    ATOLL_VERCEL_PARAM_COUNT};
