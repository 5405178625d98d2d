#include "api/rest/rest.h"
#include "api/rest/rest_internal.h"

#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE
#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define STREAM ATOLL_BODY_STREAM
#define BOX "/api/sandboxes/{id}"
#define EXEC BOX "/execs/{exec}"

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    "/healthz",             ATOLL_SCOPE_PUBLIC, NONE, atoll_rest_health},
    {ATOLL_GET,    "/api/host",            READ,  NONE,   atoll_rest_host},
    {ATOLL_GET,    "/api/stats",           READ,  NONE,   atoll_rest_stats_all},

    {ATOLL_POST,   "/api/sandboxes",       WRITE, JSON,   atoll_rest_sandbox_create},
    {ATOLL_GET,    "/api/sandboxes",       READ,  NONE,   atoll_rest_sandbox_list},
    {ATOLL_DELETE, "/api/sandboxes",       WRITE, NONE,   atoll_rest_sandbox_destroy_all},
    {ATOLL_GET,    BOX,                    READ,  NONE,   atoll_rest_sandbox_get},
    {ATOLL_DELETE, BOX,                    WRITE, NONE,   atoll_rest_sandbox_destroy},
    {ATOLL_GET,    BOX "/stats",           READ,  NONE,   atoll_rest_stats_one},

    {ATOLL_POST,   BOX "/execs",           WRITE, JSON,   atoll_rest_exec_start},
    {ATOLL_GET,    BOX "/execs",           READ,  NONE,   atoll_rest_exec_list},
    {ATOLL_GET,    BOX "/execs/stream",    WRITE, NONE,   atoll_rest_exec_stream},
    {ATOLL_GET,    EXEC,                   READ,  NONE,   atoll_rest_exec_get},
    {ATOLL_GET,    EXEC "/output",         READ,  NONE,   atoll_rest_exec_output},
    {ATOLL_POST,   EXEC "/stdin",          WRITE, STREAM, atoll_rest_exec_stdin},
    {ATOLL_POST,   EXEC "/signal",         WRITE, JSON,   atoll_rest_exec_signal},
    {ATOLL_POST,   EXEC "/resize",         WRITE, JSON,   atoll_rest_exec_resize},

    {ATOLL_GET,    "/api/run",             WRITE, NONE,   atoll_rest_run_stream},
    {ATOLL_POST,   "/api/run",             WRITE, ATOLL_BODY_FILES, atoll_rest_run},

    {ATOLL_GET,    BOX "/files",           READ,  NONE,   atoll_rest_file_download},
    {ATOLL_PUT,    BOX "/files",           WRITE, STREAM, atoll_rest_file_upload},
    {ATOLL_DELETE, BOX "/files",           WRITE, NONE,   atoll_rest_file_remove},
    {ATOLL_GET,    BOX "/files/stat",      READ,  NONE,   atoll_rest_file_stat},
    {ATOLL_GET,    BOX "/files/list",      READ,  NONE,   atoll_rest_file_list},
    {ATOLL_POST,   BOX "/files/mkdir",     WRITE, NONE,   atoll_rest_file_mkdir},
    {ATOLL_POST,   BOX "/files/move",      WRITE, NONE,   atoll_rest_file_move},
    {ATOLL_POST,   BOX "/files/chmod",     WRITE, NONE,   atoll_rest_file_chmod},

    {ATOLL_GET,    "/api/templates",       READ,  NONE,   atoll_rest_template_list},
    {ATOLL_PUT,    "/api/templates/{name}", WRITE, STREAM, atoll_rest_template_import},
    {ATOLL_DELETE, "/api/templates/{name}", WRITE, NONE,   atoll_rest_template_remove},
};
/* clang-format on */

const struct atoll_routes atoll_rest_routes = {rows, ATOLL_ARRAY_LEN(rows)};
