/*
 * Requests to one session. docs/vercel.md has the same table.
 */
#include "api/vercel/session_internal.h"

#define NONE ATOLL_BODY_NONE
#define JSON ATOLL_BODY_JSON
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE
#define CALL(name) atoll_vercel_##name, NULL

/* clang-format off */
#define ROWS(BASE) \
    {ATOLL_POST, BASE "/fs/mkdir", WRITE, JSON, CALL(fs_mkdir)}
/* clang-format on */

static const struct atoll_route rows[] = {ROWS(ATOLL_VERCEL_SESSION),
                                          ROWS(ATOLL_VERCEL_SESSION_OLD)};

const struct atoll_routes atoll_vercel_session_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_vercel_session_protocol, atoll_vercel_params,
    ATOLL_VERCEL_PARAM_COUNT};
