/*
 * Pausing a sandbox, and resuming it by connecting to it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"

static const struct atoll_field pause_fields[] = {
    {"memory", ATOLL_FIELD_BOOL, 0, 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

struct wake_request {
    uint64_t timeout_s;
    bool memory; /* false: keep only its disk */
};

#define AT(member) offsetof(struct wake_request, member)
static const struct atoll_field wake_fields[] = {
    {"timeout", ATOLL_FIELD_U64, AT(timeout_s), 0, 1e12, NULL, 0},
    {"memory", ATOLL_FIELD_BOOL, AT(memory), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

void atoll_e2b_pause(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_sandbox_view view;
    const struct atoll_sandbox *sandbox;
    struct atoll_error error;
    struct atoll_body body;
    bool memory = true;

    if (atoll_e2b_decode(&body, bytes, n, pause_fields, &memory, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_body_done(&body);
    sandbox = atoll_e2b_find(call, &error);
    if (!sandbox) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    if (atoll_e2b_is_paused(&view)) {
        (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, EALREADY,
                         "Sandbox %s is already paused", view.id);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_engine_pause(call->engine, call->params.id, memory, ATOLL_E2B_WHO, atoll_e2b_done, call);
}

/* Resuming. */

struct waking {
    struct atoll_api_call *call;
    uint32_t timeout_s;
    bool cold; /* its processes must be ended first */
};

static void awake(void *arg, const struct atoll_error *error);

static void wake_fail(struct waking *w, const struct atoll_error *error)
{
    struct atoll_api_call *call = w->call;

    free(w);
    atoll_api_fail(call, error);
}

static void set_aside(void *arg, const struct atoll_error *error)
{
    struct waking *w = arg;

    if (error)
        wake_fail(w, error);
    else
        atoll_engine_resume(w->call->engine, w->call->params.id, awake, w);
}

static void awake(void *arg, const struct atoll_error *error)
{
    struct waking *w = arg;
    struct atoll_api_call *call = w->call;
    const struct atoll_sandbox *sandbox;
    struct atoll_error failed;

    if (error) {
        wake_fail(w, error);
        return;
    }
    if (w->cold) {
        w->cold = false;
        atoll_engine_pause(call->engine, call->params.id, false, ATOLL_E2B_WHO, set_aside, w);
        return;
    }
    sandbox = atoll_e2b_find(call, &failed);
    if (!sandbox ||
        atoll_engine_set_timeout(call->engine, call->params.id, w->timeout_s, &failed) < 0) {
        wake_fail(w, &failed);
        return;
    }
    free(w);
    atoll_e2b_reply_made(call, 201, sandbox);
}

static void wake(struct atoll_api_call *call, const struct wake_request *q)
{
    struct waking *w = atoll_api_alloc(sizeof(*w));

    *w = (struct waking){
        .call = call,
        .timeout_s =
            (uint32_t)ATOLL_MIN(ATOLL_MAX(q->timeout_s, UINT64_C(1)), (uint64_t)UINT32_MAX),
        .cold = !q->memory,
    };
    atoll_engine_resume(call->engine, call->params.id, awake, w);
}

static int decode_wake(const struct atoll_api_call *call, const uint8_t *bytes, size_t n,
                       struct wake_request *q, struct atoll_sandbox **ret_sandbox,
                       struct atoll_sandbox_view *ret_view, struct atoll_error *err)
{
    struct atoll_body body;
    int r = atoll_e2b_decode(&body, bytes, n, wake_fields, q, err);

    if (r < 0)
        return r;
    atoll_body_done(&body);
    r = atoll_e2b_check_timeout(call, q->timeout_s, err);
    if (r < 0)
        return r;
    *ret_sandbox = atoll_e2b_find(call, err);
    if (!*ret_sandbox)
        return -ENOENT;
    atoll_sandbox_get(*ret_sandbox, ret_view);
    return 0;
}

void atoll_e2b_connect(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct wake_request q = {.timeout_s = ATOLL_E2B_TIMEOUT_S, .memory = true};
    struct atoll_sandbox *sandbox = NULL;
    struct atoll_sandbox_view view;
    struct atoll_error error;

    if (decode_wake(call, bytes, n, &q, &sandbox, &view, &error) < 0)
        atoll_api_fail(call, &error);
    else if (atoll_e2b_is_paused(&view))
        wake(call, &q);
    else if (atoll_e2b_extend(call->engine, &view,
                              (uint32_t)ATOLL_MIN(q.timeout_s, (uint64_t)UINT32_MAX), &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_e2b_reply_made(call, 200, sandbox);
}

/* The predecessor of connect: accepts only a paused sandbox. */
void atoll_e2b_resume(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct wake_request q = {.timeout_s = ATOLL_E2B_TIMEOUT_V1_S, .memory = true};
    struct atoll_sandbox *sandbox = NULL;
    struct atoll_sandbox_view view;
    struct atoll_error error;
    int r = decode_wake(call, bytes, n, &q, &sandbox, &view, &error);

    if (r == 0 && !atoll_e2b_is_paused(&view))
        r = atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, EALREADY,
                       "Sandbox %s is already running", view.id);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        wake(call, &q);
}
