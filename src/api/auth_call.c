/*
 * Authorization, in one place for every route of every facade: the scope that a key needs, the
 * request rate of a key, and the ids that a caller may find. A sandbox of another tenant is
 * answered exactly like one that never existed. Handlers do not repeat these checks; handlers that
 * list, or that take an id from a body, call atoll_api_sees().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "base/clock.h"
#include "engine/sandbox/ended.h"

static int slow_down(struct atoll_api_call *call, int64_t wait_ms, const char *what,
                     struct atoll_error *err)
{
    call->retry_after_s = (unsigned)((wait_ms + 999) / 1000);
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN, "%s; wait %u s", what,
                      call->retry_after_s);
}

/* A valid key still works from an address that sends wrong keys: many clients may share the
 * address, and a key of 206 random bits cannot be guessed at any rate. The limit saves work. */
static int refuse_stranger(struct atoll_api_call *call, struct atoll_error *err)
{
    int64_t wait_ms = atoll_buckets_take(call->api->wrong_keys, atoll_http_peer(call->req)->source,
                                         atoll_loop_now_ms(call->api->config.loop));

    return wait_ms > 0 ? slow_down(call, wait_ms, "too many requests without a valid key", err)
                       : -EACCES;
}

static int check_rate(struct atoll_api_call *call, struct atoll_error *err)
{
    int64_t wait_ms;

    /* The limits protect the host from tenants; admins are exempt. */
    if (!call->caller.key_id[0] || call->caller.scope == ATOLL_SCOPE_ADMIN)
        return 0;
    wait_ms = atoll_buckets_take(call->api->key_rates, call->caller.key_id,
                                 atoll_loop_now_ms(call->api->config.loop));
    return wait_ms > 0 ? slow_down(call, wait_ms, "this key sends requests too fast", err) : 0;
}

static int check_scope(const struct atoll_api_call *call, enum atoll_scope needed,
                       struct atoll_error *err)
{
    if (call->caller.scope >= needed)
        return 0;
    return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                      "this needs a key of scope %s; yours has scope %s", atoll_scope_name(needed),
                      atoll_scope_name(call->caller.scope));
}

int atoll_api_authorize(struct atoll_api_call *call, enum atoll_scope needed,
                        struct atoll_error *err)
{
    int r;

    if (needed == ATOLL_SCOPE_PUBLIC)
        return 0;
    r = atoll_api_authorize_token(call, err);
    if (r > 0)
        r = atoll_auth_check(&call->api->config.auth, call->req, &call->caller, err);
    if (r < 0)
        return err->kind == ATOLL_ERR_UNAUTHENTICATED ? refuse_stranger(call, err) : r;
    r = check_rate(call, err);
    return r < 0 ? r : check_scope(call, needed, err);
}

/* Visibility of ids. */

bool atoll_api_sees(const struct atoll_api_call *call, const char *owner)
{
    return call->all || strcmp(owner ? owner : ATOLL_TENANT_DEFAULT, call->caller.tenant) == 0;
}

const char *atoll_api_list_tenant(const struct atoll_api_call *call)
{
    return call->all ? NULL : call->caller.tenant;
}

const char *atoll_api_owner_of(struct atoll_engine *engine, const char *sandbox_id)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, sandbox_id);
    struct atoll_sandbox_view view = {.owner = ""};

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    return view.owner;
}

void atoll_api_act_for_owner(struct atoll_api_call *call, enum atoll_scope scope,
                             const char *credential)
{
    const char *owner = atoll_api_owner_of(call->engine, call->params.id);

    call->caller = (struct atoll_caller){.scope = scope, .uid = (uid_t)-1};
    (void)snprintf(call->caller.tenant, sizeof(call->caller.tenant), "%s",
                   owner && *owner ? owner : ATOLL_TENANT_DEFAULT);
    (void)snprintf(call->caller.key_id, sizeof(call->caller.key_id), "%s", credential);
}

bool atoll_api_sees_sandbox(const struct atoll_api_call *call, const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;

    atoll_sandbox_get(sandbox, &view);
    return atoll_api_sees(call, view.owner);
}

static int check_all(struct atoll_api_call *call, struct atoll_error *err)
{
    bool all;
    int r = atoll_api_query_flag(call, "all", &all, err);

    if (r == 0 && all && !call->caller.every_tenant)
        r = atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                       "?all=true needs a key of scope admin, without X-Atoll-Tenant");
    call->all = r == 0 && all;
    return r;
}

struct ended_lookup {
    const struct atoll_api_call *call;
    bool seen;
    char id[33];
    int64_t unix_ms;
};

static int take_ended(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    struct ended_lookup *l = arg;

    (void)err;
    l->seen = l->call->caller.every_tenant || atoll_api_sees(l->call, row->owner);
    l->unix_ms = row->ended_unix_ms;
    (void)snprintf(l->id, sizeof(l->id), "%s", row->id);
    return 0;
}

/* Routes of our own API say so by the parameter. */
static bool route_shows_ended(const struct atoll_api_call *call)
{
    if (call->protocol)
        return call->protocol->shows_ended;
    return call->route->query && strstr(call->route->query, "ended");
}

int atoll_api_check_ended(struct atoll_api_call *call, const char *what, const char *id,
                          struct atoll_error *err)
{
    const bool shows = route_shows_ended(call), is_session = strcmp(what, "session") == 0;
    bool wanted = shows;
    struct ended_lookup l = {.call = call};
    char when[ATOLL_CLOCK_TEXT_MAX];
    int r = is_session ? atoll_ended_find_session(call->engine, id, take_ended, &l, err)
                       : atoll_ended_find(call->engine, id, take_ended, &l, err);

    if (r >= 0 && l.seen && shows && atoll_http_query(call->req, "ended"))
        r = atoll_api_query_flag(call, "ended", &wanted, err);
    if (r < 0)
        return r;
    if (!l.seen && !is_session)
        return atoll_engine_no_sandbox(id, err);
    if (!l.seen)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s %.64s does not exist", what, id);
    if (!wanted) {
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                       "%s %s does not exist: it ended at %s; GET /api/%s/%s shows its record",
                       what, id, atoll_clock_format(l.unix_ms, when),
                       is_session ? "sessions" : "sandboxes", id);
        atoll_advise(err, "its record says what ended it; see docs/troubleshooting.md");
        return r;
    }
    call->ended = true;
    (void)snprintf(call->params.id, sizeof(call->params.id), "%s", l.id);
    return 0;
}

int atoll_api_check_owner(struct atoll_api_call *call, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    int r;

    if (call->route->scope == ATOLL_SCOPE_PUBLIC)
        return 0;
    if (call->params.session[0])
        return atoll_api_enter_session(call, call->params.session, err);
    if (!call->params.id[0])
        return check_all(call, err);
    r = atoll_engine_resolve(call->engine, call->caller.tenant, call->caller.every_tenant,
                             call->params.id, &sandbox, err);
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND &&
        (!call->protocol || call->protocol->shows_ended))
        return atoll_api_check_ended(call, "sandbox", call->params.id, err);
    if (r < 0)
        return r;
    atoll_sandbox_get(sandbox, &view);
    if (call->caller.sandbox_id[0] && strcmp(call->caller.sandbox_id, view.id) != 0)
        return atoll_engine_no_sandbox(call->params.id, err);
    if (call->caller.every_tenant || atoll_api_sees_sandbox(call, sandbox)) {
        (void)snprintf(call->params.id, sizeof(call->params.id), "%s", view.id);
        return 0;
    }
    return atoll_engine_no_sandbox(call->params.id, err);
}

/* The audit log. */

void atoll_api_audit(const struct atoll_api_call *call, int status)
{
    const struct atoll_caller *who = &call->caller;
    struct atoll_audit_entry entry = {
        .tenant = who->tenant,
        .key_id = who->key_id,
        .uid = who->tenant[0] && !who->key_id[0] ? (int64_t)who->uid : -1,
        .peer = call->req ? atoll_http_peer(call->req)->address : "",
        .sandbox_id = call->params.id,
        .exec_id = call->params.exec,
        .name = call->params.name,
        .request_id = call->request_id,
        .status = status,
    };

    if (!call->api->config.audit || !call->route || call->route->scope < ATOLL_SCOPE_TOOLS)
        return;
    if (call->route->scope == ATOLL_SCOPE_ADMIN && call->route->method == ATOLL_GET)
        return;
    /* Requests without a valid key that are rate-limited must not fill the disk. */
    if (!who->tenant[0] && status == 429)
        return;
    entry.method = atoll_http_method_name(call->route->method);
    entry.route = call->route->path;
    atoll_audit_write(call->api->config.audit, &entry);
}
