/*
 * Operations on one sandbox: get, kill, timeouts, network settings.
 */
#include <errno.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "base/clock.h"

#define REFRESH_MIN_S 15
#define REFRESH_MAX_S 3600

void atoll_e2b_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                   size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_sandbox *sandbox = atoll_e2b_find(call, &error);
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, sandbox ? NULL : &error, &buf, &out))
        return;
    atoll_e2b_view_sandbox(&out, call->api, sandbox, true);
    atoll_api_reply(call, 200, &out);
}

static void removed(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

/* Unlike Atoll's own API, this answers before cleanup has finished. At that point the sandbox is
 * in no list, its commands have ended, and its end is stored, so that a crash cannot bring it back.
 * A failed sandbox is invisible to these clients otherwise, but they can still kill it. */
void atoll_e2b_kill(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view = {.state = ATOLL_SANDBOX_STOPPING};
    struct atoll_error error;

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    if (view.state == ATOLL_SANDBOX_STOPPING) {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %s",
                         call->params.id);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_engine_destroy(call->engine, call->params.id, ATOLL_E2B_WHO, removed, NULL);
    atoll_api_reply_empty(call, 204);
}

/* Timeouts. */

static const struct atoll_field timeout_fields[] = {
    {"timeout", ATOLL_FIELD_JSON, 0, 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static const struct atoll_field refresh_fields[] = {
    {"duration", ATOLL_FIELD_U64, 0, 0, REFRESH_MAX_S, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

/* Finds a running sandbox and its view; a paused sandbox has no deadline that could be moved. */
static int find_running(const struct atoll_api_call *call, struct atoll_sandbox_view *ret,
                        struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_e2b_find(call, err);

    if (!sandbox)
        return -ENOENT;
    atoll_sandbox_get(sandbox, ret);
    if (ret->state != ATOLL_SANDBOX_RUNNING)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s is paused", ret->id);
    return 0;
}

/* Performs the action of the deadline now. */
static void expire(struct atoll_api_call *call, const struct atoll_sandbox_view *v)
{
    static const char who[] = "its deadline";

    if (v->options.lifetime.persistent)
        atoll_engine_stop(call->engine, v->id, who, ATOLL_STOP_WRITTEN, atoll_e2b_done, call);
    else if (v->options.lifetime.at_deadline == ATOLL_DEADLINE_DESTROY)
        atoll_engine_destroy(call->engine, v->id, who, atoll_e2b_done, call);
    else
        atoll_engine_pause(call->engine, v->id,
                           v->options.lifetime.at_deadline == ATOLL_DEADLINE_PAUSE, who,
                           atoll_e2b_done, call);
}

static int parse_timeout(const struct atoll_api_call *call, const uint8_t *bytes, size_t n,
                         uint32_t *ret_seconds, struct atoll_error *err)
{
    const json_t *timeout = NULL;
    struct atoll_body body;
    int r = atoll_e2b_decode(&body, bytes, n, timeout_fields, &timeout, err);

    if (r < 0)
        return r;
    if (!json_is_integer(timeout) || json_integer_value(timeout) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "timeout must be a whole number of seconds, 0 or more");
    else if ((r = atoll_e2b_check_timeout(call, (uint64_t)json_integer_value(timeout), err)) == 0)
        *ret_seconds =
            (uint32_t)ATOLL_MIN((uint64_t)json_integer_value(timeout), (uint64_t)UINT32_MAX);
    atoll_body_done(&body);
    return r;
}

void atoll_e2b_set_timeout(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_sandbox_view view = {0};
    struct atoll_error error;
    uint32_t seconds = 0;
    int r = parse_timeout(call, bytes, n, &seconds, &error);

    if (r == 0)
        r = find_running(call, &view, &error);
    if (r == 0 && seconds == 0) {
        expire(call, &view);
        return;
    }
    if (r == 0)
        r = atoll_engine_set_timeout(call->engine, call->params.id, seconds, &error);
    atoll_e2b_done(call, r < 0 ? &error : NULL);
}

int atoll_e2b_extend(struct atoll_engine *engine, const struct atoll_sandbox_view *view,
                     uint32_t seconds, struct atoll_error *err)
{
    int64_t end = atoll_clock_unix_ms() + (int64_t)seconds * 1000;

    if (view->expires_unix_ms == 0 || end <= view->expires_unix_ms)
        return 0;
    return atoll_engine_set_timeout(engine, view->id, seconds, err);
}

void atoll_e2b_refresh(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_sandbox_view view;
    uint64_t seconds = REFRESH_MIN_S;
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_e2b_decode(&body, bytes, n, refresh_fields, &seconds, &error);

    if (r == 0) {
        atoll_body_done(&body);
        r = find_running(call, &view, &error);
    }
    if (r == 0)
        r = atoll_e2b_extend(call->engine, &view,
                             (uint32_t)ATOLL_MAX(seconds, (uint64_t)REFRESH_MIN_S), &error);
    atoll_e2b_done(call, r < 0 ? &error : NULL);
}

/* Network settings. */

/* The facts with other network settings, malloced. */
static int write_facts(const struct atoll_sandbox *sandbox, const json_t *network, char **ret,
                       struct atoll_error *err)
{
    const json_t *internet = json_object_get(network, "allow_internet_access");
    struct atoll_e2b_facts facts;
    json_t *old;

    atoll_e2b_facts_get(sandbox, &facts);
    /* The rules for inbound traffic stay: an update cannot contain them. */
    old = facts.network ? facts.network : json_object();
    facts.network = atoll_e2b_network_keep(network, old);
    json_decref(old);
    facts.allow_internet = json_is_boolean(internet) ? json_is_true(internet) : -1;
    *ret = atoll_e2b_facts_json(&facts);
    atoll_e2b_facts_done(&facts);
    if (strlen(*ret) > ATOLL_E2B_FACTS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "network must be at most 64 KiB");
    return 0;
}

/* Answers the call, unless it fails. */
static int apply_network(struct atoll_api_call *call, const struct atoll_sandbox *sandbox,
                         const json_t *network, struct atoll_error *err)
{
    bool denied = json_is_false(json_object_get(network, "allow_internet_access"));
    ATOLL_AUTOFREE char *facts = NULL, *policy = NULL;
    struct atoll_sandbox_view view;
    int r = write_facts(sandbox, network, &facts, err);

    atoll_sandbox_get(sandbox, &view);
    if (r == 0)
        r = atoll_e2b_network_policy(network, denied, view.options.network_json, &policy, err);
    if (r == 0)
        r = atoll_engine_set_facade(call->engine, view.id, facts, err);
    if (r < 0)
        return r;
    if (view.options.network == ATOLL_NETWORK_NONE)
        atoll_e2b_done(call, NULL); /* get_info tells that it has none */
    else
        atoll_engine_set_network(call->engine, view.id, policy, atoll_e2b_done, call);
    return 0;
}

void atoll_e2b_set_network(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_sandbox_view view;
    const struct atoll_sandbox *sandbox;
    struct atoll_error error;
    struct atoll_body body;
    const json_t *internet;
    int r = atoll_body_parse(&body, bytes, n, &error);

    internet = r == 0 ? json_object_get(body.root, "allow_internet_access") : NULL;
    if (r == 0 && internet && !json_is_null(internet) && !json_is_boolean(internet))
        r = atoll_fields_refuse(&error, "", "allow_internet_access", internet, "true or false");
    if (r == 0)
        r = atoll_e2b_network_check(body.root, json_is_false(internet), &error);
    sandbox = r == 0 ? atoll_e2b_find(call, &error) : NULL;
    if (r == 0 && !sandbox)
        r = -ENOENT;
    if (r == 0) {
        atoll_sandbox_get(sandbox, &view);
        if (view.state != ATOLL_SANDBOX_RUNNING)
            r = atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                           "Sandbox %s is paused; connect to it first", view.id);
    }
    if (r == 0)
        r = apply_network(call, sandbox, body.root, &error);
    atoll_body_done(&body);
    if (r < 0)
        atoll_e2b_done(call, &error);
}
