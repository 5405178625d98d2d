/*
 * Copies of a sandbox: snapshots of its disk, and forks.
 */
#include <errno.h>
#include <stdio.h>
#include "api/daytona/builds.h"
#include "api/daytona/daytona_internal.h"
#include "base/text.h"
#include "engine/state/state.h"

struct request {
    const char *name;
};

static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct request, name), 0, 64, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

/* A name of at most 64 bytes; *out is "" if none is given. */
static int take_name(const uint8_t *bytes, size_t n, char out[65], struct atoll_error *err)
{
    struct request q = {0};
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, err);

    out[0] = '\0';
    if (r == 0 && q.name && *q.name && !atoll_text_is_name(q.name))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must have up to 64 letters, digits, \".\", \"_\" and \"-\"");
    if (r == 0 && q.name)
        (void)snprintf(out, 65, "%s", q.name);
    atoll_body_done(&body);
    return r;
}

static void made(void *arg, const struct atoll_template_view *view ATOLL_UNUSED,
                 const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                 const struct atoll_error *error)
{
    atoll_daytona_done(arg, error);
}

void atoll_daytona_snapshot_sandbox(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_error error;
    char name[65];
    int r = take_name(bytes, n, name, &error);

    if (r == 0 && !*name)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "name is missing");
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_snapshot(call->engine, call->params.id, name, made, call);
}

/* Forks. The name waits in call->params.name. */

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void forked(void *arg, const char (*ids)[ATOLL_ID_LEN + 1], size_t count,
                   const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error failure;
    char id[ATOLL_ID_LEN + 1] = "";

    if (!error && count > 0) {
        (void)snprintf(id, sizeof(id), "%s", ids[0]);
        if (*call->params.name &&
            (atoll_daytona_check_name(call, call->params.name, &failure) < 0 ||
             atoll_engine_set_name(call->engine, id, call->params.name, &failure) < 0)) {
            atoll_engine_destroy(call->engine, id, ATOLL_DAYTONA_WHO, forgotten, NULL);
            error = &failure;
        }
    }
    if (error)
        atoll_api_fail(call, error);
    else
        atoll_daytona_reply_sandbox(call, 200, id);
}

void atoll_daytona_fork(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    const struct atoll_fork_request request = {.count = 1};
    struct atoll_error error;
    int r = take_name(bytes, n, call->params.name, &error);

    if (r == 0)
        r = atoll_daytona_check_name(call, call->params.name, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_fork(call->engine, call->params.id, &request, forked, call);
}
