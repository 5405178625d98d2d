/*
 * The control plane of Vercel, and the facade. docs/vercel.md has the same table.
 */
#include "api/vercel/vercel_internal.h"

#define BASE ATOLL_VERCEL_BASE "/v2/sandboxes"
#define OLD ATOLL_VERCEL_BASE "/v1/sandboxes"
#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE
#define CALL(name) atoll_vercel_##name, NULL

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET, BASE "/sessions/{sid}", READ, NONE, CALL(session_get)},
    {ATOLL_GET, OLD "/{sid}",           READ, NONE, CALL(session_get)},
};
/* clang-format on */

const struct atoll_routes atoll_vercel_control_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_vercel_control_protocol, atoll_vercel_params,
    ATOLL_VERCEL_PARAM_COUNT};

static const struct atoll_routes *const tables[] = {&atoll_vercel_control_routes,
                                                    &atoll_vercel_session_routes,
                                                    &atoll_vercel_interactive_routes, NULL};

const struct atoll_facade atoll_vercel_facade = {.tables = tables,
                                                 .open = atoll_vercel_open,
                                                 .serve = atoll_vercel_serve};
