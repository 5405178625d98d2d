#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/idempotency.h"
#include "api/lease.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/sandbox/ended.h"
#include "api/rest/views.h"
#include "base/text.h"

struct atoll_sandbox *atoll_rest_find_sandbox(const struct atoll_api_call *call,
                                              struct atoll_error *err)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);

    if (!sandbox)
        (void)atoll_engine_no_sandbox(call->params.id, err);
    return sandbox;
}

char (*atoll_rest_sandbox_ids(struct atoll_api_call *call, size_t *ret_count))[ATOLL_ID_LEN + 1]
{
    const char *tenant = atoll_api_list_tenant(call);
    size_t states[ATOLL_SANDBOX_STATES];
    size_t count = atoll_engine_count(call->engine, tenant, NULL, states, NULL), i = 0;
    char(*ids)[ATOLL_ID_LEN + 1] = atoll_api_alloc((count + 1) * sizeof(*ids));
    struct atoll_sandbox_view view = {.created_unix_ms = INT64_MIN, .id = ""};
    struct atoll_sandbox *sandbox;

    while (i < count &&
           (sandbox = atoll_engine_after(call->engine, tenant, view.created_unix_ms, view.id))) {
        atoll_sandbox_get(sandbox, &view);
        (void)snprintf(ids[i++], sizeof(ids[0]), "%s", view.id);
    }
    *ret_count = i;
    return ids;
}

void atoll_rest_done(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 204);
}

void atoll_rest_ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

/* Create. */

/* With getOrCreate, whose name is in params: answers with the sandbox that has it already. */
static bool reply_existing(struct atoll_api_call *call)
{
    const char *name = call->params.name;
    const struct atoll_sandbox *sandbox =
        *name ? atoll_engine_find_name(call->engine, call->caller.tenant, name) : NULL;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!sandbox)
        return false;
    atoll_api_reply_init(&buf, &out);
    atoll_view_sandbox(&out, NULL, sandbox);
    atoll_api_reply(call, 200, &out);
    return true;
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_sandbox_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    /* Another request with the same name may have been faster. */
    if (error && error->kind == ATOLL_ERR_ALREADY_EXISTS && reply_existing(call))
        return;
    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    if (atoll_api_client_is_gone(call) &&
        (!call->idempotency || view.options.lifetime.connection_lease)) {
        /* The client did not receive the id, so no client could destroy the sandbox. */
        atoll_engine_destroy(call->engine, view.id, ATOLL_REST_WHO_GONE, atoll_rest_ignore, NULL);
        atoll_api_drop(call);
    } else {
        if (view.options.lifetime.connection_lease)
            atoll_api_lease(call, view.id);
        (void)snprintf(call->params.id, sizeof(call->params.id), "%s",
                       view.id); /* for the audit log */
        atoll_api_reply_init(&buf, &out);
        atoll_view_sandbox(&out, NULL, sandbox);
        atoll_api_reply(call, 201, &out);
    }
}

/* Other requests for sandboxes do not have it. */
static const struct atoll_field create_fields[] = {
    {"mcp", ATOLL_FIELD_JSON, 0, 0, 0, NULL, 0},
    {0},
};

void atoll_rest_sandbox_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_rest_sandbox request = {0};
    const json_t *mcp = NULL;
    const struct atoll_field_set sets[] = {{atoll_rest_sandbox_fields, &request},
                                           {create_fields, &mcp}};
    struct atoll_options create;
    struct atoll_body body;
    struct atoll_error error;
    int r;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    r = atoll_body_parse(&body, bytes, n, &error);
    if (r == 0)
        r = atoll_fields_decode(&body, body.root, "", sets, ATOLL_ARRAY_LEN(sets), &error);
    if (r == 0)
        r = atoll_rest_sandbox_check(&request, &body, &create, &error);
    create.owner = call->caller.tenant;
    if (r == 0 && mcp && (request.get_or_create || create.lifetime.connection_lease))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "mcp goes neither with getOrCreate nor with leaseConnection");
    if (r == 0 && request.get_or_create)
        (void)!atoll_text_copy(call->params.name, sizeof(call->params.name), request.options.name);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if (mcp)
        atoll_rest_gateway_create(call, &create, mcp);
    else if (!reply_existing(call))
        atoll_engine_create(call->engine, &create, created, call);
    atoll_body_done(&body);
}

/* Get. */

void atoll_rest_sandbox_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_sandbox *sandbox;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (call->ended) {
        atoll_rest_ended_get(call);
        return;
    }
    sandbox = atoll_rest_find_sandbox(call, &error);
    if (!atoll_api_reply_begin(call, sandbox ? NULL : &error, &buf, &out))
        return;
    atoll_view_sandbox(&out, NULL, sandbox);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_sandbox_heartbeat(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    if (atoll_engine_heartbeat(call->engine, call->params.id, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

/* Destroy. */

void atoll_rest_sandbox_destroy(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    if (atoll_rest_artifacts_want(call, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_destroy(call->engine, call->params.id, ATOLL_REST_WHO, atoll_rest_done, call);
}

/* Limits of destroy-all: this many at a time, and some per turn of the loop, so that other
 * clients are served meanwhile. */
#define DESTROYS_MAX 64
#define DESTROYS_STEP 16

struct destroy_all {
    struct atoll_api_call *call;
    char (*ids)[ATOLL_ID_LEN + 1]; /* owned copy: destroying changes the engine's list */
    size_t count, next;
    size_t waiting; /* destroys in progress */
    bool starting;
    struct atoll_timer again;
    size_t destroyed;
    struct atoll_error error; /* the first error other than NOT_FOUND */
};

static void reply_all(struct destroy_all *all)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (all->error.kind != ATOLL_ERR_NONE) {
        atoll_api_fail(all->call, &all->error);
    } else {
        atoll_api_reply_init(&buf, &out);
        atoll_json_open(&out, NULL, '{');
        atoll_json_u64(&out, "destroyed", all->destroyed);
        atoll_json_close(&out, '}');
        atoll_api_reply(all->call, 200, &out);
    }
    free(all->ids);
    free(all);
}

static void start_some(void *arg);

static void go_on(struct destroy_all *all)
{
    if (all->starting)
        return;
    if (all->next == all->count && all->waiting == 0)
        reply_all(all);
    else if (all->next < all->count && all->waiting < DESTROYS_MAX && !all->again.loop)
        atoll_timer_set(&all->again, atoll_http_loop(all->call->req), 0, start_some, all);
}

static void destroyed_one(void *arg, const struct atoll_error *error)
{
    struct destroy_all *all = arg;

    if (!error)
        all->destroyed++;
    else if (error->kind != ATOLL_ERR_NOT_FOUND && all->error.kind == ATOLL_ERR_NONE)
        all->error = *error;
    all->waiting--;
    go_on(all);
}

static void start_some(void *arg)
{
    struct destroy_all *all = arg;

    all->starting = true;
    for (size_t i = 0; i < DESTROYS_STEP && all->next < all->count && all->waiting < DESTROYS_MAX;
         i++) {
        all->waiting++;
        atoll_engine_destroy(all->call->engine, all->ids[all->next++], ATOLL_REST_WHO,
                             destroyed_one, all);
    }
    all->starting = false;
    go_on(all);
}

void atoll_rest_sandbox_destroy_all(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                    size_t n ATOLL_UNUSED)
{
    struct destroy_all *all = atoll_api_alloc(sizeof(*all));

    all->call = call;
    all->ids = atoll_rest_sandbox_ids(call, &all->count);
    start_some(all);
}
