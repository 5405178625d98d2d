#include "api/rest/rest.h"
#include "api/rest/rest_internal.h"
#include "network/placeholder.h"

#define READ ATOLL_SCOPE_READ
#define TOOLS ATOLL_SCOPE_TOOLS
#define WRITE ATOLL_SCOPE_WRITE
#define ADMIN ATOLL_SCOPE_ADMIN
#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define STREAM ATOLL_BODY_STREAM
#define FILES ATOLL_BODY_FILES
#define BOX "/api/sandboxes/{id}"
#define VOLUME "/api/volumes/{name}"
#define EXEC BOX "/execs/{exec}"
#define CONTEXT BOX "/contexts/{name}"
#define SESSION "/api/sessions/{session}"
#define REGISTRY "/api/registry"
#define TASK "/api/tasks/{name}"
#define SWARM "/api/swarms/{name}"

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    "/healthz",             ATOLL_SCOPE_PUBLIC, NONE, atoll_rest_health, NULL},
    {ATOLL_GET,    "/readyz",              ATOLL_SCOPE_PUBLIC, NONE, atoll_rest_ready, NULL},
    {ATOLL_GET,    "/metrics",             ATOLL_SCOPE_PUBLIC, NONE, atoll_rest_metrics, NULL},
    {ATOLL_GET,    "/api/host",            READ,  NONE,   atoll_rest_host, ""},
    {ATOLL_GET,    "/api/stats",           READ,  NONE,   atoll_rest_stats_all, "all"},
    {ATOLL_GET,    "/api/health",          READ,  NONE,   atoll_rest_health_all, "all"},
    {ATOLL_GET,    "/api/events",          READ,  NONE,   atoll_rest_events, "after, sandbox, all"},
    {ATOLL_GET,    "/api/providers",       READ,  NONE,   atoll_rest_providers, "all"},
    {ATOLL_GET,    "/api/quota",           READ,  NONE,   atoll_rest_quota, "all"},
    {ATOLL_GET,    "/api/openapi.json",    ATOLL_SCOPE_PUBLIC, NONE, atoll_rest_openapi, ""},

    {ATOLL_POST,   "/api/sandboxes",       WRITE, JSON,   atoll_rest_sandbox_create, ""},
    {ATOLL_GET,    "/api/sandboxes",       READ,  NONE,   atoll_rest_sandbox_list,
     "state, template, metadata, limit, cursor, all"},
    {ATOLL_DELETE, "/api/sandboxes",       WRITE, NONE,   atoll_rest_sandbox_destroy_all, "all"},
    {ATOLL_GET,    BOX,                    READ,  NONE,   atoll_rest_sandbox_get, "ended"},
    {ATOLL_DELETE, BOX,                    WRITE, NONE,   atoll_rest_sandbox_destroy, "artifacts"},
    {ATOLL_PATCH,  BOX,                    WRITE, JSON,   atoll_rest_sandbox_patch, ""},
    {ATOLL_POST,   BOX "/timeout",         WRITE, JSON,   atoll_rest_sandbox_timeout, ""},
    {ATOLL_POST,   BOX "/heartbeat",       WRITE, NONE,   atoll_rest_sandbox_heartbeat, ""},
    {ATOLL_POST,   BOX "/pause",           WRITE, JSON,   atoll_rest_sandbox_pause, ""},
    {ATOLL_POST,   BOX "/resume",          WRITE, NONE,   atoll_rest_sandbox_resume, ""},
    {ATOLL_POST,   BOX "/stop",            WRITE, NONE,   atoll_rest_sandbox_stop, ""},
    {ATOLL_POST,   BOX "/snapshot",        WRITE, JSON,   atoll_rest_sandbox_snapshot, ""},
    {ATOLL_POST,   BOX "/snapshots",       WRITE, JSON,   atoll_rest_snapshot_create, ""},
    {ATOLL_GET,    BOX "/snapshots",       READ,  NONE,   atoll_rest_sandbox_snapshots, ""},
    {ATOLL_POST,   BOX "/fork",            WRITE, JSON,   atoll_rest_sandbox_fork, ""},
    {ATOLL_POST,   BOX "/restore",         WRITE, JSON,   atoll_rest_sandbox_restore, ""},
    {ATOLL_GET,    BOX "/diff",            READ,  NONE,   atoll_rest_sandbox_diff,
     "from, to, format, path, limit"},
    {ATOLL_GET,    BOX "/history",         READ,  NONE,   atoll_rest_sandbox_history, "limit"},
    {ATOLL_GET,    BOX "/blame",           READ,  NONE,   atoll_rest_sandbox_blame, "path"},
    {ATOLL_POST,   BOX "/undo",            WRITE, JSON,   atoll_rest_sandbox_undo, ""},
    {ATOLL_POST,   BOX "/merge",           WRITE, JSON,   atoll_rest_sandbox_merge, ""},
    {ATOLL_POST,   BOX "/capture",         WRITE, JSON,   atoll_rest_sandbox_capture, ""},
    {ATOLL_POST,   BOX "/try",             WRITE, JSON,   atoll_rest_sandbox_try, ""},
    {ATOLL_GET,    BOX "/stats",           READ,  NONE,   atoll_rest_stats_one, ""},
    {ATOLL_GET,    BOX "/health",          READ,  NONE,   atoll_rest_health_one, ""},
    {ATOLL_GET,    BOX "/network",         READ,  NONE,   atoll_rest_network_get, ""},
    {ATOLL_PUT,    BOX "/network",         WRITE, JSON,   atoll_rest_network_set, ""},
    {ATOLL_GET,    BOX "/network/connections", READ, NONE, atoll_rest_connections,
     "limit, cursor, follow, after, ended"},

    {ATOLL_POST,   BOX "/execs",           WRITE, JSON,   atoll_rest_exec_start, "wait, stream"},
    {ATOLL_GET,    BOX "/execs",           READ,  NONE,   atoll_rest_exec_list,
     "limit, cursor, ended"},
    {ATOLL_GET,    BOX "/execs/stream",    WRITE, NONE,   atoll_rest_ws_exec, ""},
    {ATOLL_GET,    BOX "/pty",             WRITE, NONE,   atoll_rest_ws_pty,
     "cols, rows, user, cwd, command, exec, from"},
    {ATOLL_GET,    EXEC,                   READ,  NONE,   atoll_rest_exec_get, "ended"},
    {ATOLL_GET,    EXEC "/output",         READ,  NONE,   atoll_rest_exec_output,
     "stdout, stderr, follow, ended"},
    {ATOLL_POST,   EXEC "/stdin",          WRITE, STREAM, atoll_rest_exec_stdin, "close"},
    {ATOLL_POST,   EXEC "/signal",         WRITE, JSON,   atoll_rest_exec_signal, ""},
    {ATOLL_POST,   EXEC "/resize",         WRITE, JSON,   atoll_rest_exec_resize, ""},

    {ATOLL_GET,    "/api/run",             WRITE, NONE,   atoll_rest_ws_run, ""},
    {ATOLL_POST,   "/api/run",             WRITE, ATOLL_BODY_FILES, atoll_rest_run, ""},

    {ATOLL_GET,    BOX "/files",           READ,  NONE,   atoll_rest_file_download,
     "path, user, expires, signature"},
    {ATOLL_PUT,    BOX "/files",           WRITE, STREAM, atoll_rest_file_upload,
     "path, user, mode, expires, signature"},
    {ATOLL_DELETE, BOX "/files",           WRITE, NONE,   atoll_rest_file_remove,
     "path, user, recursive"},
    {ATOLL_GET,    BOX "/files/stat",      READ,  NONE,   atoll_rest_file_stat, "path, user"},
    {ATOLL_GET,    BOX "/files/list",      READ,  NONE,   atoll_rest_file_list,
     "path, user, depth"},
    {ATOLL_POST,   BOX "/files/mkdir",     WRITE, NONE,   atoll_rest_file_mkdir, "path, user"},
    {ATOLL_POST,   BOX "/files/move",      WRITE, NONE,   atoll_rest_file_move, "path, user, to"},
    {ATOLL_POST,   BOX "/files/chmod",     WRITE, NONE,   atoll_rest_file_chmod,
     "path, user, mode"},
    {ATOLL_POST,   BOX "/files/chown",     WRITE, NONE,   atoll_rest_file_chown,
     "path, user, owner, group"},
    {ATOLL_POST,   BOX "/files/symlink",   WRITE, NONE,   atoll_rest_file_symlink,
     "path, user, target"},
    {ATOLL_POST,   BOX "/files/batch",     WRITE, ATOLL_BODY_FILES, atoll_rest_file_batch, ""},
    {ATOLL_POST,   BOX "/files/sign",      WRITE, JSON,   atoll_rest_file_sign, ""},
    {ATOLL_GET,    BOX "/files/watch",     READ,  NONE,   atoll_rest_file_watch,
     "path, user, recursive"},
    {ATOLL_GET,    BOX "/files/xattrs",    READ,  NONE,   atoll_rest_xattr_list, "path, user"},
    {ATOLL_PUT,    BOX "/files/xattrs",    WRITE, JSON,   atoll_rest_xattr_set, ""},
    {ATOLL_DELETE, BOX "/files/xattrs",    WRITE, NONE,   atoll_rest_xattr_remove,
     "path, name, user"},
    {ATOLL_GET,    BOX "/archive",         READ,  NONE,   atoll_rest_archive_get, "path, user"},
    {ATOLL_PUT,    BOX "/archive",         WRITE, STREAM, atoll_rest_archive_put,
     "path, user, compression"},

    {ATOLL_POST,   BOX "/previews",        WRITE, JSON,   atoll_rest_preview_create, ""},
    {ATOLL_GET,    BOX "/previews",        WRITE, NONE,   atoll_rest_preview_list, ""},
    {ATOLL_DELETE, BOX "/previews/{port}", WRITE, NONE,   atoll_rest_preview_remove, ""},

    {ATOLL_GET,    "/api/tools",           READ,  NONE,   atoll_rest_tool_list, "format"},
    {ATOLL_POST,   BOX "/mcp",             WRITE, JSON,   atoll_rest_gateway_start, ""},
    {ATOLL_GET,    "/api/tools/policy",    READ,  NONE,   atoll_rest_tenant_policy_get, ""},
    {ATOLL_PUT,    "/api/tools/policy",    WRITE, JSON,   atoll_rest_tenant_policy_set, ""},
    {ATOLL_DELETE, "/api/tools/policy",    WRITE, NONE,   atoll_rest_tenant_policy_remove, ""},
    {ATOLL_GET,    "/api/tools/calls",     READ,  NONE,   atoll_rest_tool_calls, "limit, cursor"},
    {ATOLL_GET,    BOX "/tools/policy",    READ,  NONE,   atoll_rest_tool_policy_get, ""},
    {ATOLL_PUT,    BOX "/tools/policy",    WRITE, JSON,   atoll_rest_tool_policy_set, ""},
    {ATOLL_DELETE, BOX "/tools/policy",    WRITE, NONE,   atoll_rest_tool_policy_remove, ""},
    {ATOLL_GET,    BOX "/tools/calls",     READ,  NONE,   atoll_rest_sandbox_tool_calls,
     "limit, cursor, ended"},
    {ATOLL_GET,    "/api/approvals",       READ,  NONE,   atoll_rest_approval_list, "all"},
    {ATOLL_GET,    "/api/approvals/{name}", READ, NONE,   atoll_rest_approval_get, ""},
    {ATOLL_POST,   "/api/approvals/{name}", WRITE, JSON,  atoll_rest_approval_answer, ""},
    {ATOLL_POST,   BOX "/tools/{name}",    TOOLS, ATOLL_BODY_FILES, atoll_rest_tool_call, "map"},

    {ATOLL_POST,   BOX "/contexts",        WRITE, JSON,   atoll_rest_context_create, ""},
    {ATOLL_GET,    BOX "/contexts",        READ,  NONE,   atoll_rest_context_list, ""},
    {ATOLL_DELETE, CONTEXT,                WRITE, NONE,   atoll_rest_context_remove, ""},
    {ATOLL_POST,   CONTEXT "/restart",     WRITE, NONE,   atoll_rest_context_restart, ""},
    {ATOLL_POST,   CONTEXT "/execute",     WRITE, FILES,  atoll_rest_context_execute, ""},

    {ATOLL_GET,    "/api/snapshots",       READ,  NONE,   atoll_rest_snapshot_list, "all"},

    {ATOLL_GET,    "/api/templates",       READ,  NONE,   atoll_rest_template_list, "all"},
    {ATOLL_POST,   "/api/templates/{name}/build", ADMIN, STREAM, atoll_rest_template_build,
     "provider, file, network, memoryMB"},

    {ATOLL_GET,    "/api/images",          READ,  NONE,   atoll_rest_image_list, "all"},
    {ATOLL_PUT,    "/api/images",          WRITE, STREAM, atoll_rest_image_load, "name"},
    {ATOLL_POST,   "/api/images/pull",     WRITE, JSON,   atoll_rest_image_pull, ""},

    {ATOLL_POST,   "/api/builds",          WRITE, FILES,  atoll_rest_make_create, ""},
    {ATOLL_GET,    "/api/builds",          READ,  NONE,   atoll_rest_make_list, "all"},
    {ATOLL_GET,    "/api/builds/contexts/{name}", READ, NONE, atoll_rest_make_context_get, ""},
    {ATOLL_PUT,    "/api/builds/contexts/{name}", WRITE, STREAM, atoll_rest_make_context_put, ""},
    {ATOLL_GET,    "/api/builds/{name}",   READ,  NONE,   atoll_rest_make_get, ""},
    {ATOLL_DELETE, "/api/builds/{name}",   WRITE, NONE,   atoll_rest_make_cancel, ""},
    {ATOLL_GET,    "/api/builds/{name}/log", READ, NONE,  atoll_rest_make_log, "offset, follow"},

    {ATOLL_POST,   "/api/tasks",           WRITE, FILES,  atoll_rest_task_create, "wait"},
    {ATOLL_GET,    "/api/tasks",           READ,  NONE,   atoll_rest_task_list,
     "state, agent, agentName, type, branch, repo, swarmId, step, limit, all"},
    {ATOLL_GET,    TASK,                   READ,  NONE,   atoll_rest_task_get, "wait"},
    {ATOLL_DELETE, TASK,                   WRITE, NONE,   atoll_rest_task_remove, ""},
    {ATOLL_GET,    TASK "/log",            READ,  NONE,   atoll_rest_task_log, "offset, follow"},
    {ATOLL_POST,   TASK "/cancel",         WRITE, NONE,   atoll_rest_task_cancel, ""},
    {ATOLL_POST,   TASK "/retry",          WRITE, JSON,   atoll_rest_task_retry, ""},
    {ATOLL_POST,   TASK "/source",         WRITE, NONE,   atoll_rest_task_source, ""},

    {ATOLL_POST,   BOX "/agents",          WRITE, FILES,  atoll_rest_agent_start, "wait"},
    {ATOLL_GET,    BOX "/agents",          READ,  NONE,   atoll_rest_agent_list, ""},
    {ATOLL_DELETE, BOX "/agents",          WRITE, NONE,   atoll_rest_agent_cancel, ""},
    {ATOLL_POST,   "/api/swarms",          WRITE, FILES,  atoll_rest_swarm_create, "wait"},
    {ATOLL_GET,    "/api/swarms",          READ,  NONE,   atoll_rest_swarm_list, "all"},
    {ATOLL_GET,    SWARM,                  READ,  NONE,   atoll_rest_swarm_get, "wait"},
    {ATOLL_POST,   SWARM "/cancel",        WRITE, NONE,   atoll_rest_swarm_cancel, ""},
    {ATOLL_POST,   SWARM "/heartbeat",     WRITE, NONE,   atoll_rest_swarm_heartbeat, ""},
    {ATOLL_GET,    SWARM "/memory",        READ,  NONE,   atoll_rest_swarm_memory_get, ""},
    {ATOLL_PATCH,  SWARM "/memory",        WRITE, FILES,  atoll_rest_swarm_memory_set, ""},

    {ATOLL_GET,    "/api/volumes",         READ,  NONE,   atoll_rest_volume_list, "provider"},
    {ATOLL_POST,   "/api/volumes",         WRITE, JSON,   atoll_rest_volume_create, ""},
    {ATOLL_DELETE, VOLUME,                 WRITE, NONE,   atoll_rest_volume_remove, "provider"},
    {ATOLL_GET,    VOLUME "/files",        READ,  NONE,   atoll_rest_volume_download,
     "path, user, provider"},
    {ATOLL_PUT,    VOLUME "/files",        WRITE, STREAM, atoll_rest_volume_upload,
     "path, user, mode, provider"},
    {ATOLL_DELETE, VOLUME "/files",        WRITE, NONE,   atoll_rest_volume_file_remove,
     "path, user, recursive, provider"},
    {ATOLL_GET,    VOLUME "/files/stat",   READ,  NONE,   atoll_rest_volume_stat,
     "path, user, provider"},
    {ATOLL_GET,    VOLUME "/files/list",   READ,  NONE,   atoll_rest_volume_files,
     "path, user, depth, provider"},
    {ATOLL_POST,   VOLUME "/files/mkdir",  WRITE, NONE,   atoll_rest_volume_mkdir,
     "path, user, provider"},
    {ATOLL_POST,   VOLUME "/files/move",   WRITE, NONE,   atoll_rest_volume_move,
     "path, user, to, provider"},
    {ATOLL_POST,   VOLUME "/files/chmod",  WRITE, NONE,   atoll_rest_volume_chmod,
     "path, user, mode, provider"},
    {ATOLL_POST,   VOLUME "/files/chown",  WRITE, NONE,   atoll_rest_volume_chown,
     "path, user, owner, group, provider"},
    {ATOLL_POST,   VOLUME "/files/symlink", WRITE, NONE,  atoll_rest_volume_symlink,
     "path, user, target, provider"},

    {ATOLL_GET,    "/api/keys",            ADMIN, NONE,   atoll_rest_key_list, ""},
    {ATOLL_POST,   "/api/keys",            ADMIN, JSON,   atoll_rest_key_create, ""},
    {ATOLL_DELETE, "/api/keys/{name}",     ADMIN, NONE,   atoll_rest_key_remove, ""},

    {ATOLL_GET,    "/api/secrets",         READ,  NONE,   atoll_rest_secret_list, "all"},
    {ATOLL_POST,   "/api/secrets",         WRITE, JSON,   atoll_rest_secret_create, ""},
    {ATOLL_DELETE, "/api/secrets/{secret}", WRITE, NONE,  atoll_rest_secret_remove, ""},

    {ATOLL_POST,   "/api/sessions",        WRITE, FILES,  atoll_rest_session_create, ""},
    {ATOLL_GET,    "/api/sessions",        READ,  NONE,   atoll_rest_session_list,
     "state, limit, cursor, all"},
    {ATOLL_GET,    SESSION,                READ,  NONE,   atoll_rest_session_get, "ended"},
    {ATOLL_DELETE, SESSION,                WRITE, NONE,   atoll_rest_session_destroy,
     "artifacts, sandbox_id"},
    {ATOLL_POST,   SESSION "/execute",     WRITE, FILES,  atoll_rest_session_execute, ""},
    {ATOLL_GET,    SESSION "/files",       READ,  NONE,   atoll_rest_file_download, "path, user"},
    {ATOLL_PUT,    SESSION "/files",       WRITE, STREAM, atoll_rest_file_upload,
     "path, user, mode"},
    {ATOLL_DELETE, SESSION "/files",       WRITE, NONE,   atoll_rest_file_remove,
     "path, user, recursive"},
    {ATOLL_GET,    SESSION "/files/stat",  READ,  NONE,   atoll_rest_file_stat, "path, user"},
    {ATOLL_GET,    SESSION "/files/list",  READ,  NONE,   atoll_rest_file_list,
     "path, user, depth"},
    {ATOLL_POST,   "/api/e2b/execute",     WRITE, FILES,  atoll_rest_e2b_execute, ""},
    {ATOLL_POST,   "/api/e2b/files",       WRITE, FILES,  atoll_rest_e2b_file_write, ""},
    {ATOLL_GET,    "/api/e2b/files",       READ,  NONE,   atoll_rest_e2b_file_get,
     "session_id, path"},
    {ATOLL_GET,    "/api/e2b/files/{session}", READ, NONE, atoll_rest_e2b_file_list, ""},

    {ATOLL_POST,   "/api/connectors",      WRITE, JSON,   atoll_rest_connector_create, ""},
    {ATOLL_GET,    "/api/connectors",      READ,  NONE,   atoll_rest_connector_list, ""},
    {ATOLL_GET,    "/api/connectors/{name}", READ, NONE,  atoll_rest_connector_get, ""},
    {ATOLL_PUT,    "/api/connectors/{name}", WRITE, JSON, atoll_rest_connector_put, ""},
    {ATOLL_DELETE, "/api/connectors/{name}", WRITE, NONE, atoll_rest_connector_remove, ""},
    {ATOLL_POST,   "/api/connectors/{name}/login", WRITE, JSON, atoll_rest_connector_login, ""},

    {ATOLL_GET,    REGISTRY,                          READ, NONE, atoll_rest_registry_get, ""},
    {ATOLL_GET,    REGISTRY "/environments",          READ, NONE, atoll_rest_registry_list, ""},
    {ATOLL_GET,    REGISTRY "/environments/{name}",   READ, NONE, atoll_rest_registry_item, ""},
    {ATOLL_GET,    REGISTRY "/agents",                READ, NONE, atoll_rest_registry_list, ""},
    {ATOLL_GET,    REGISTRY "/agents/{name}",         READ, NONE, atoll_rest_registry_item, ""},
    {ATOLL_GET,    REGISTRY "/tools",                 READ, NONE, atoll_rest_registry_list, ""},
    {ATOLL_GET,    REGISTRY "/tools/{name}",          READ, NONE, atoll_rest_registry_item, ""},
    {ATOLL_GET,    REGISTRY "/prompts",               READ, NONE, atoll_rest_registry_list, ""},
    {ATOLL_GET,    REGISTRY "/prompts/{name}",        READ, NONE, atoll_rest_registry_item, ""},
    {ATOLL_POST,   "/api/prompts/{name}/render", WRITE, FILES,  atoll_rest_prompt_render, ""},
};
/* clang-format on */

static const struct atoll_param_kind params[] = {
    {"{secret}", offsetof(struct atoll_route_params, name),
     sizeof(((struct atoll_route_params *)0)->name), atoll_secret_is_name, "the name of a secret",
     '\0', NULL},
};

static const struct atoll_routes routes = {.rows = rows,
                                           .count = ATOLL_ARRAY_LEN(rows),
                                           .params = params,
                                           .param_count = ATOLL_ARRAY_LEN(params)};
static const struct atoll_routes *const tables[] = {&routes, &atoll_rest_artifact_routes,
                                                    &atoll_rest_template_routes,
                                                    &atoll_rest_git_routes, NULL};

const struct atoll_facade atoll_rest_facade = {.is_own = true, .tables = tables};
