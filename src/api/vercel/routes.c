/*
 * The control plane of Vercel, and the facade. docs/vercel.md has the same table.
 */
#include <string.h>
#include "api/vercel/vercel_internal.h"

#define NEW ATOLL_VERCEL_BASE "/v3/sandboxes"
#define BASE ATOLL_VERCEL_BASE "/v2/sandboxes"
#define OLD ATOLL_VERCEL_BASE "/v1/sandboxes"
#define SESSION ATOLL_VERCEL_SESSION
#define OLD_SESSION ATOLL_VERCEL_SESSION_OLD
#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE
#define CALL(name) atoll_vercel_##name, NULL

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_POST,   NEW,                 WRITE, JSON, CALL(create)},
    {ATOLL_POST,   BASE,                WRITE, JSON, CALL(create)},
    {ATOLL_GET,    BASE,                READ,  NONE, CALL(sandbox_list)},
    {ATOLL_GET,    BASE "/sessions",    READ,  NONE, CALL(session_list)},
    {ATOLL_GET,    BASE "/snapshots",   READ,  NONE, CALL(snapshot_list)},
    {ATOLL_GET,    BASE "/snapshots/tree", READ, NONE, CALL(snapshot_tree)},
    {ATOLL_GET,    BASE "/snapshots/{key}", READ, NONE, CALL(snapshot_get)},
    {ATOLL_DELETE, BASE "/snapshots/{key}", WRITE, NONE, CALL(snapshot_delete)},
    {ATOLL_GET,    BASE "/drives",      READ,  NONE, CALL(drive_list)},
    {ATOLL_POST,   BASE "/drives/{key}", WRITE, JSON, CALL(drive_create)},
    {ATOLL_DELETE, BASE "/drives/{key}", WRITE, NONE, CALL(drive_delete)},
    {ATOLL_GET,    BASE "/{sandbox}",   READ,  NONE, CALL(sandbox_get)},
    {ATOLL_PATCH,  BASE "/{sandbox}",   WRITE, JSON, CALL(sandbox_update)},
    {ATOLL_DELETE, BASE "/{sandbox}",   WRITE, NONE, CALL(sandbox_delete)},
    {ATOLL_POST,   BASE "/{sandbox}/fork", WRITE, JSON, CALL(sandbox_fork)},
    {ATOLL_GET,    SESSION,             READ,  NONE, CALL(session_get)},
    {ATOLL_POST,   SESSION "/stop",     WRITE, JSON, CALL(session_stop)},

    {ATOLL_POST,   OLD,                 WRITE, JSON, CALL(create)},
    {ATOLL_GET,    OLD,                 READ,  NONE, CALL(sandbox_list)},
    {ATOLL_GET,    OLD "/snapshots",    READ,  NONE, CALL(snapshot_list)},
    {ATOLL_GET,    OLD "/snapshots/{key}", READ, NONE, CALL(snapshot_get)},
    {ATOLL_DELETE, OLD "/snapshots/{key}", WRITE, NONE, CALL(snapshot_delete)},
    {ATOLL_GET,    OLD_SESSION,         READ,  NONE, CALL(session_get)},
    {ATOLL_POST,   OLD_SESSION "/stop", WRITE, JSON, CALL(session_stop)},
};

/* Those that need a session that runs. */
#define LIFE_ROWS(BASE_OF_SESSION) \
    {ATOLL_POST, BASE_OF_SESSION "/extend-timeout", WRITE, JSON, CALL(session_extend)}, \
    {ATOLL_POST, BASE_OF_SESSION "/network-policy", WRITE, JSON, CALL(session_policy)}, \
    {ATOLL_POST, BASE_OF_SESSION "/snapshot",       WRITE, JSON, CALL(snapshot_create)}
/* clang-format on */

static const struct atoll_route life_rows[] = {LIFE_ROWS(SESSION), LIFE_ROWS(OLD_SESSION)};

const struct atoll_routes atoll_vercel_control_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_vercel_control_protocol, atoll_vercel_params,
    ATOLL_VERCEL_PARAM_COUNT};

static const struct atoll_routes life_routes = {life_rows, ATOLL_ARRAY_LEN(life_rows),
                                                &atoll_vercel_session_protocol, atoll_vercel_params,
                                                ATOLL_VERCEL_PARAM_COUNT};

static const struct atoll_routes *const tables[] = {
    &atoll_vercel_control_routes, &life_routes,
    &atoll_vercel_session_routes, &atoll_vercel_interactive_routes,
    &atoll_vercel_account_routes, NULL};

/* Whether a path continues with this name where others have {sandbox}. */
static bool has_segment(const char *path, const char *name)
{
    static const char base[] = BASE "/";
    const size_t n = strlen(name);

    if (strncmp(path, base, sizeof(base) - 1) != 0)
        return false;
    path += sizeof(base) - 1;
    return strncmp(path, name, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool atoll_vercel_is_segment(const char *name)
{
    for (size_t i = 0; tables[i]; i++)
        for (size_t j = 0; j < tables[i]->count; j++)
            if (has_segment(tables[i]->rows[j].path, name))
                return true;
    return false;
}

const struct atoll_facade atoll_vercel_facade = {.tables = tables,
                                                 .key = &atoll_vercel_key,
                                                 .open = atoll_vercel_open,
                                                 .close = atoll_vercel_close,
                                                 .serve = atoll_vercel_serve};
