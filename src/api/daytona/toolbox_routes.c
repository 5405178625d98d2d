/*
 * The toolbox: requests to one sandbox. docs/daytona.md has the same table.
 */
#include "api/daytona/toolbox_internal.h"

#define NONE ATOLL_BODY_NONE
#define BODY ATOLL_BODY_JSON
#define LONG ATOLL_BODY_FILES
#define DATA ATOLL_BODY_STREAM
#define READ ATOLL_SCOPE_READ
#define CHANGE ATOLL_SCOPE_WRITE
#define CALL(name) atoll_daytona_##name, NULL

/* clang-format off */
#define ROWS(BASE) \
    {ATOLL_GET,    BASE "/version",                  READ,   NONE, CALL(version)}, \
    {ATOLL_POST,   BASE "/init",                     CHANGE, BODY, CALL(init)}, \
    {ATOLL_GET,    BASE "/user-home-dir",            READ,   NONE, CALL(home_dir)}, \
    {ATOLL_GET,    BASE "/work-dir",                 READ,   NONE, CALL(work_dir)}, \
    {ATOLL_GET,    BASE "/project-dir",              READ,   NONE, CALL(work_dir)}, \
    {ATOLL_GET,    BASE "/system/metrics",           READ,   NONE, CALL(metrics)}, \
    {ATOLL_GET,    BASE "/port",                     READ,   NONE, CALL(ports)}, \
    {ATOLL_GET,    BASE "/port/{port}/in-use",       READ,   NONE, CALL(port_in_use)}, \
    {ATOLL_GET,    BASE "/proxy/{port}/{rest}",      CHANGE, DATA, CALL(proxy)}, \
    {ATOLL_POST,   BASE "/proxy/{port}/{rest}",      CHANGE, DATA, CALL(proxy)}, \
    {ATOLL_PUT,    BASE "/proxy/{port}/{rest}",      CHANGE, DATA, CALL(proxy)}, \
    {ATOLL_PATCH,  BASE "/proxy/{port}/{rest}",      CHANGE, DATA, CALL(proxy)}, \
    {ATOLL_DELETE, BASE "/proxy/{port}/{rest}",      CHANGE, DATA, CALL(proxy)}, \
    {ATOLL_OPTIONS, BASE "/proxy/{port}/{rest}",     CHANGE, DATA, CALL(proxy)}, \
    {ATOLL_POST,   BASE "/process/execute",          CHANGE, LONG, CALL(execute)}, \
    {ATOLL_POST,   BASE "/process/code-run",         CHANGE, LONG, CALL(code_run)}, \
    {ATOLL_GET,    BASE "/process/session",          READ,   NONE, CALL(session_list)}, \
    {ATOLL_POST,   BASE "/process/session",          CHANGE, BODY, CALL(session_create)}, \
    {ATOLL_GET,    BASE "/process/session/entrypoint", READ, NONE, CALL(entrypoint_get)}, \
    {ATOLL_GET,    BASE "/process/session/entrypoint/logs", READ, NONE, CALL(entrypoint_logs)}, \
    {ATOLL_GET,    BASE "/process/session/{key}",    READ,   NONE, CALL(session_get)}, \
    {ATOLL_DELETE, BASE "/process/session/{key}",    CHANGE, NONE, CALL(session_delete)}, \
    {ATOLL_POST,   BASE "/process/session/{key}/exec", CHANGE, LONG, CALL(session_exec)}, \
    {ATOLL_GET,    BASE "/process/session/{key}/command/{item}", READ, NONE, CALL(command_get)}, \
    {ATOLL_GET,    BASE "/process/session/{key}/command/{item}/logs", READ, NONE, CALL(command_logs)}, \
    {ATOLL_POST,   BASE "/process/session/{key}/command/{item}/input", CHANGE, LONG, CALL(command_input)}, \
    {ATOLL_GET,    BASE "/process/pty",              READ,   NONE, CALL(pty_list)}, \
    {ATOLL_POST,   BASE "/process/pty",              CHANGE, BODY, CALL(pty_create)}, \
    {ATOLL_GET,    BASE "/process/pty/create-connect", CHANGE, NONE, CALL(pty_create_connect)}, \
    {ATOLL_GET,    BASE "/process/pty/{key}",        READ,   NONE, CALL(pty_get)}, \
    {ATOLL_DELETE, BASE "/process/pty/{key}",        CHANGE, NONE, CALL(pty_delete)}, \
    {ATOLL_POST,   BASE "/process/pty/{key}/resize", CHANGE, BODY, CALL(pty_resize)}, \
    {ATOLL_GET,    BASE "/process/pty/{key}/connect", CHANGE, NONE, CALL(pty_connect)}, \
    {ATOLL_GET,    BASE "/process/interpreter/context", READ, NONE, CALL(context_list)}, \
    {ATOLL_POST,   BASE "/process/interpreter/context", CHANGE, BODY, CALL(context_create)}, \
    {ATOLL_DELETE, BASE "/process/interpreter/context/{key}", CHANGE, NONE, CALL(context_delete)}, \
    {ATOLL_GET,    BASE "/process/interpreter/execute", CHANGE, NONE, CALL(interpreter_execute)}, \
    {ATOLL_GET,    BASE "/processes",                READ,   NONE, CALL(process_list)}, \
    {ATOLL_POST,   BASE "/processes",                CHANGE, LONG, CALL(process_create)}, \
    {ATOLL_GET,    BASE "/processes/{item}",         READ,   NONE, CALL(process_get)}, \
    {ATOLL_DELETE, BASE "/processes/{item}",         CHANGE, NONE, CALL(process_delete)}, \
    {ATOLL_GET,    BASE "/processes/{item}/logs",    READ,   NONE, CALL(process_logs)}, \
    {ATOLL_GET,    BASE "/processes/{item}/wait",    READ,   NONE, CALL(process_wait)}, \
    {ATOLL_GET,    BASE "/processes/{item}/attach",  CHANGE, NONE, CALL(process_attach)}, \
    {ATOLL_POST,   BASE "/processes/{item}/stdin",   CHANGE, LONG, CALL(process_stdin)}, \
    {ATOLL_POST,   BASE "/processes/{item}/signals", CHANGE, BODY, CALL(process_signal)}, \
    {ATOLL_POST,   BASE "/processes/{item}/resize",  CHANGE, BODY, CALL(process_resize)}, \
    {ATOLL_GET,    BASE "/files",                    READ,   NONE, CALL(file_list)}, \
    {ATOLL_DELETE, BASE "/files",                    CHANGE, NONE, CALL(file_delete)}, \
    {ATOLL_GET,    BASE "/files/info",               READ,   NONE, CALL(file_info)}, \
    {ATOLL_POST,   BASE "/files/folder",             CHANGE, BODY, CALL(folder_create)}, \
    {ATOLL_POST,   BASE "/files/move",               CHANGE, BODY, CALL(file_move)}, \
    {ATOLL_POST,   BASE "/files/permissions",        CHANGE, BODY, CALL(file_permissions)}, \
    {ATOLL_GET,    BASE "/files/find",               READ,   NONE, CALL(file_find)}, \
    {ATOLL_GET,    BASE "/files/search",             READ,   NONE, CALL(file_search)}, \
    {ATOLL_POST,   BASE "/files/replace",            CHANGE, LONG, CALL(file_replace)}, \
    {ATOLL_POST,   BASE "/files/upload",             CHANGE, DATA, CALL(file_upload)}, \
    {ATOLL_POST,   BASE "/files/upload-v2",          CHANGE, DATA, CALL(file_upload)}, \
    {ATOLL_POST,   BASE "/files/bulk-upload",        CHANGE, DATA, CALL(file_bulk_upload)}, \
    {ATOLL_GET,    BASE "/files/download",           READ,   NONE, CALL(file_download)}, \
    {ATOLL_POST,   BASE "/files/bulk-download",      CHANGE, BODY, CALL(file_bulk_download)}, \
    {ATOLL_GET,    BASE "/files/watch",              READ,   NONE, CALL(file_watch)}, \
    {ATOLL_POST,   BASE "/env",                      CHANGE, BODY, CALL(change_env)}, \
    {ATOLL_POST,   BASE "/lsp/start",                CHANGE, BODY, CALL(lsp_start)}, \
    {ATOLL_POST,   BASE "/lsp/stop",                 CHANGE, BODY, CALL(lsp_stop)}, \
    {ATOLL_POST,   BASE "/lsp/did-open",             CHANGE, BODY, CALL(lsp_open)}, \
    {ATOLL_POST,   BASE "/lsp/did-close",            CHANGE, BODY, CALL(lsp_close)}, \
    {ATOLL_POST,   BASE "/lsp/completions",          CHANGE, BODY, CALL(lsp_completions)}, \
    {ATOLL_GET,    BASE "/lsp/document-symbols",     READ,   NONE, CALL(lsp_document_symbols)}, \
    {ATOLL_GET,    BASE "/lsp/workspacesymbols",     READ,   NONE, CALL(lsp_workspace_symbols)}, \
    {ATOLL_GET,    BASE "/computeruse/{path}",       READ,   NONE, CALL(no_desktop)}, \
    {ATOLL_POST,   BASE "/computeruse/{path}",       CHANGE, BODY, CALL(no_desktop)}, \
    {ATOLL_DELETE, BASE "/computeruse/{path}",       CHANGE, NONE, CALL(no_desktop)}

static const struct atoll_route rows[] = {ROWS(ATOLL_DAYTONA_TOOLBOX), ROWS(ATOLL_DAYTONA_TOOLBOX_OLD)};
/* clang-format on */

const struct atoll_routes atoll_daytona_toolbox_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_daytona_toolbox_protocol, atoll_daytona_params,
    ATOLL_DAYTONA_PARAM_COUNT};
