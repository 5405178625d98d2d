/*
 * Requests about sandboxes to the service. A sandbox is called "atoll-" and our id there, so that it is
 * found by that name even if a create got no answer.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "net/url.h"
#include "provider/vercel/vercel_internal.h"

#define LIST_PAGE 50
#define BASE "/v2/sandboxes"
#define NAME_PREFIX "atoll-"

/* The path of a request, in the caller's account. */
static int path_of(const struct atoll_remote_api *api, const char *what, const char *project_name,
                   char **ret, struct atoll_error *err, const char *fmt, ...) ATOLL_PRINTF(6, 7);
static int path_of(const struct atoll_remote_api *api, const char *what, const char *project_name,
                   char **ret, struct atoll_error *err, const char *fmt, ...)
{
    ATOLL_AUTOFREE char *path = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&path, fmt, args) < 0)
        path = NULL;
    va_end(args);
    *ret = path ? atoll_vercel_request_path(api->scope, path, project_name) : NULL;
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "%s", what);
}

/* Finding. */

static int get(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
               const char *what, const char *handle, json_t **ret, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *path = NULL;
    int r = path_of(api, what, "projectId", &path, err, BASE "/%s?resume=false&", handle);

    return r < 0 ? r : atoll_remote_api_json(api, call, what, "GET", path, NULL, ret, err);
}

/* One sandbox as a list, by its name. */
static int list_one(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                    const char *what, const char *id, json_t **ret_items, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    char name[ATOLL_REMOTE_HANDLE_MAX];
    int r;

    (void)snprintf(name, sizeof(name), NAME_PREFIX "%s", id);
    r = get(api, call, what, name, &json, err);
    if (r < 0 && err->kind != ATOLL_ERR_NOT_FOUND)
        return r;
    *ret_items = r < 0 ? json_array() : json_pack("[O]", json_object_get(json, "sandbox"));
    return 0;
}

static int list(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *id,
                const char *cursor, json_t **ret_items, char *ret_cursor, size_t cap,
                struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_buf next;
    int r;

    if (id)
        return list_one(api, call, what, id, ret_items, err);
    atoll_buf_init(&next, 4096);
    r = atoll_url_encode(&next, cursor, false);
    r = r < 0 ? atoll_fail_errno(err, -r, "%s", what)
              : path_of(api, what, "project", &path, err,
                        BASE "?limit=%d&tags=" ATOLL_REMOTE_LABEL_DAEMON "%%3A%s%s%s&", LIST_PAGE,
                        p->daemon_id, *cursor ? "&cursor=" : "", atoll_buf_str(&next));
    atoll_buf_done(&next);
    if (r == 0)
        r = atoll_remote_api_json(api, call, what, "GET", path, NULL, &json, err);
    if (r == 0)
        *ret_items = atoll_vercel_read_list(json, ret_cursor, cap);
    return r;
}

static int read_item(const json_t *item, struct atoll_remote_sandbox *record,
                     struct atoll_error *err)
{
    return atoll_vercel_read_sandbox(item, atoll_vercel_record(record), err);
}

static int look(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *handle,
                struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    int r = get(api, call, what, handle, &json, err);

    return r < 0 ? r
                 : atoll_vercel_read_answer(json, atoll_vercel_of_remote(p)->relay_port,
                                            atoll_vercel_record(record), err);
}

static int remove_one(struct atoll_remote_provider *p ATOLL_UNUSED,
                      const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                      const char *handle, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *path = NULL;
    int r = path_of(api, "destroy", "projectId", &path, err, BASE "/%s?deleteOrphanSnapshots=true&",
                    handle);

    return r < 0 ? r : atoll_remote_api_json(api, call, "destroy", "DELETE", path, NULL, NULL, err);
}

/* Making. */

/* Vercel bounds the number of tags: the metadata of the request is not among them. */
static json_t *tags_of(const struct atoll_remote_provider *p, const struct atoll_spec *spec)
{
    return json_pack("{s:s, s:s}", ATOLL_REMOTE_LABEL_ID, spec->id, ATOLL_REMOTE_LABEL_DAEMON,
                     p->daemon_id);
}

static int put_network(json_t *body, const struct atoll_spec *spec, struct atoll_error *err)
{
    json_t *policy = NULL;
    int r = 0;

    if (spec->network == ATOLL_NETWORK_BRIDGE)
        r = atoll_vercel_network(spec->network_json, &policy, err);
    else
        policy = json_pack("{s:s}", "mode", "deny-all");
    if (policy)
        (void)json_object_set_new(body, "networkPolicy", policy);
    return r;
}

/* *ret_runtime: it is made from a runtime. */
static int new_sandbox(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                       const struct atoll_spec *spec, const char *name, json_t **ret,
                       bool *ret_runtime, struct atoll_error *err)
{
    const struct atoll_vercel_provider *own = atoll_vercel_of_remote(p);
    uint32_t vcpus = own->max_vcpus ? atoll_vercel_vcpus(&spec->limits, spec->waived) : 0;
    struct atoll_vercel_scope scope = {"", ""};
    json_t *body =
        json_pack("{s:s, s:[i], s:I, s:b, s:o, s:o}", "name", name, "ports", (int)own->relay_port,
                  "timeout", (json_int_t)atoll_remote_leases_lease_s(p->leases) * 1000,
                  "persistent", 0, "tags", tags_of(p, spec), "env", atoll_remote_env(spec->env));
    int r = body ? 0 : atoll_fail_errno(err, ENOMEM, "create");

    if (r == 0 && !atoll_vercel_read_scope(api->scope, &scope))
        r = atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "vercel.teamId and vercel.projectId must be of letters, digits, '-' and '_'");
    atoll_remote_put_text(body, "projectId", scope.project);
    atoll_remote_put_text(body, "region", spec->region ? spec->region : own->region);
    *ret_runtime = atoll_vercel_put_source(body, spec->image[0] ? spec->image : own->template_id);
    if (vcpus > 0)
        (void)json_object_set_new(body, "resources", json_pack("{s:i}", "vcpus", (int)vcpus));
    if (r == 0)
        r = put_network(body, spec, err);
    if (r < 0)
        json_decref(body);
    else
        *ret = body;
    return r;
}

static int ask_for_one(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                       const struct atoll_sync_call *call, const char *path, json_t *body,
                       struct atoll_remote_sandbox *record, bool *ret_maybe,
                       struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    int r = atoll_remote_api_ask(api, call, "create", "POST", path, body, &answer, err);

    if (r == 0 && (answer.status < 200 || answer.status > 299)) {
        r = atoll_remote_api_refused(api, "create", &answer, err);
    } else if (r == 0) {
        json = atoll_remote_answer_json(&answer);
        r = atoll_vercel_read_answer(json, atoll_vercel_of_remote(p)->relay_port,
                                     atoll_vercel_record(record), err);
    }
    /* 409: the name is that of an earlier try. */
    *ret_maybe = r < 0 && (atoll_remote_is_unconfirmed(answer.status) || answer.status == 409);
    return r;
}

static int make(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                struct atoll_remote_sandbox *record, bool *ret_maybe, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *path = NULL;
    char name[sizeof(record->handle)];
    json_t *body = NULL;
    bool runtime;
    int r;

    (void)snprintf(name, sizeof(name), NAME_PREFIX "%s", spec->id);
    r = new_sandbox(p, api, spec, name, &body, &runtime, err);
    if (r == 0)
        r = path_of(api, "create", NULL, &path, err, "%s",
                    runtime ? "/v2/sandboxes" : "/v3/sandboxes");
    if (r == 0)
        r = ask_for_one(p, api, call, path, body, record, ret_maybe, err);
    else
        json_decref(body);
    if (r < 0 && *ret_maybe)
        memcpy(record->handle, name, sizeof(name));
    if (r == 0 && strcmp(record->handle, name) != 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "create: %s answers about another sandbox", p->api.service->name);
    /* Our clock, not that of the service: extensions are counted with it. */
    if (r == 0)
        atoll_vercel_record(record)->began_unix_ms = atoll_clock_unix_ms();
    return r < 0 ? r : atoll_remote_await(p, api, call, "create", ATOLL_REMOTE_RUNS, record, err);
}

/* Changing. */

/* The request is about the session, so that one which has ended refuses it. */
int atoll_vercel_op_set_network(struct atoll_sync_provider *base,
                                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                                const char *policy, struct atoll_error *err)
{
    static const char what[] = "change the network policy";
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    ATOLL_REMOTE_AUTOJSON json_t *body = NULL, *json = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_vercel_remote remote = {0};
    char about[sizeof(spec->handle) + 64];
    int r = atoll_remote_about(p, spec, what, BASE, "", &account, about, sizeof(about), err);

    if (r == 0)
        r = atoll_vercel_network(policy, &body, err);
    if (r == 0 && !body)
        body = json_pack("{s:s}", "mode", "allow-all");
    if (r == 0)
        r = get(&account.api, call, what, spec->handle, &json, err);
    if (r == 0)
        r = atoll_vercel_read_answer(json, atoll_vercel_of_remote(p)->relay_port, &remote, err);
    if (r == 0)
        r = path_of(&account.api, what, NULL, &path, err, BASE "/sessions/%s/network-policy",
                    remote.session);
    return r < 0 ? r
                 : atoll_remote_api_json(&account.api, call, what, "POST", path, json_incref(body),
                                         NULL, err);
}

/* Leases: the service counts from the start of the session, so the request says how much is missing. */

static void extend(const struct atoll_remote_api *api, const struct atoll_remote_sandbox *record,
                   uint32_t lease_s, char **ret_path, char **ret_body)
{
    const struct atoll_vercel_remote *remote =
        ATOLL_CONTAINER_OF(record, const struct atoll_vercel_remote, of);
    struct atoll_error ignored;

    if (path_of(api, "extend", NULL, ret_path, &ignored, BASE "/sessions/%s/extend-timeout",
                remote->session) < 0)
        *ret_path = NULL;
    if (asprintf(ret_body, "{\"duration\":%lld}",
                 (long long)atoll_vercel_more_ms(remote, lease_s, atoll_clock_unix_ms())) < 0)
        *ret_body = NULL;
}

static void extended(const json_t *answer, struct atoll_remote_sandbox *record)
{
    struct atoll_vercel_remote *remote = atoll_vercel_record(record);
    int64_t began = remote->began_unix_ms;

    atoll_vercel_read_times(json_object_get(answer, "session"), remote);
    remote->began_unix_ms = began;
}

const struct atoll_remote_ops atoll_vercel_remote_ops = {
    .make = make,
    .look = look,
    .remove = remove_one,
    .list = list,
    .read = read_item,
    .start_agent = atoll_vercel_start_agent,
    .dial_agent = atoll_vercel_dial_agent,
    .extend = extend,
    .extended = extended,
    .record_size = sizeof(struct atoll_vercel_remote),
};
