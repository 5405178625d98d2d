/*
 * The control plane of Daytona, and the facade. docs/daytona.md has the same table.
 */
#include "api/daytona/daytona_internal.h"

#define BASE ATOLL_DAYTONA_BASE
#define NONE ATOLL_BODY_NONE

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    BASE "/health",             ATOLL_SCOPE_PUBLIC, NONE, atoll_daytona_health, NULL},
    {ATOLL_GET,    BASE "/health/ready",       ATOLL_SCOPE_PUBLIC, NONE, atoll_daytona_health, NULL},
};
/* clang-format on */

const struct atoll_routes atoll_daytona_control_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_daytona_control_protocol, atoll_daytona_params,
    ATOLL_DAYTONA_PARAM_COUNT};

static const struct atoll_routes *const tables[] = {
    &atoll_daytona_control_routes, &atoll_daytona_toolbox_routes, &atoll_daytona_git_routes, NULL};

const struct atoll_facade atoll_daytona_facade = {.tables = tables};
