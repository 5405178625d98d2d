/*
 * Requests about sandboxes to the service.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "net/url.h"
#include "provider/daytona/daytona_internal.h"

#define LIST_PAGE 100
#define PATH_MAX_LEN (ATOLL_REMOTE_HANDLE_MAX + 64)
#define PREVIEW_PORT 3000 /* any port */

static void make_path(const char *handle, const char *rest, char out[PATH_MAX_LEN])
{
    (void)snprintf(out, PATH_MAX_LEN, "/sandbox/%s%s", handle, rest);
}

/* Finding. */

static int list_path(const struct atoll_remote_provider *p, const char *id, const char *cursor,
                     char **ret)
{
    struct atoll_buf labels, next;
    char text[256];
    int n = -1;

    (void)snprintf(text, sizeof(text), "{\"" ATOLL_REMOTE_LABEL_DAEMON "\":\"%s\"%s%s%s}",
                   p->daemon_id, id ? ",\"" ATOLL_REMOTE_LABEL_ID "\":\"" : "", id ? id : "",
                   id ? "\"" : "");
    atoll_buf_init(&labels, 1024);
    atoll_buf_init(&next, 4096);
    if (atoll_url_encode(&labels, text, false) == 0 && atoll_url_encode(&next, cursor, false) == 0)
        n = asprintf(ret, "/sandbox?labels=%s&limit=%d%s%s", atoll_buf_str(&labels), LIST_PAGE,
                     *cursor ? "&cursor=" : "", atoll_buf_str(&next));
    atoll_buf_done(&labels);
    atoll_buf_done(&next);
    return n < 0 ? -ENOMEM : 0;
}

static int list(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *id,
                const char *cursor, json_t **ret_items, char *ret_cursor, size_t cap,
                struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_AUTOFREE char *path = NULL;
    int r = list_path(p, id, cursor, &path);

    if (r < 0)
        return atoll_fail_errno(err, -r, "%s", what);
    r = atoll_remote_api_json(api, call, what, "GET", path, NULL, &json, err);
    if (r == 0)
        *ret_items = atoll_daytona_read_list(json, ret_cursor, cap);
    return r;
}

static int read_item(const json_t *item, struct atoll_remote_sandbox *record,
                     struct atoll_error *err)
{
    return atoll_daytona_read_remote(item, atoll_daytona_record(record), err);
}

static int look(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *handle,
                struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    char path[PATH_MAX_LEN];
    int r;

    make_path(handle, "", path);
    r = atoll_remote_api_json(api, call, what, "GET", path, NULL, &json, err);
    if (r == 0)
        r = read_item(json, record, err);
    if (r == 0 && atoll_daytona_record(record)->gone)
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s: %s has destroyed this sandbox", what,
                       p->api.service->name);
    return r;
}

static int remove_one(struct atoll_remote_provider *p ATOLL_UNUSED,
                      const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                      const char *handle, struct atoll_error *err)
{
    char path[PATH_MAX_LEN];

    make_path(handle, "", path);
    return atoll_remote_api_json(api, call, "destroy", "DELETE", path, NULL, NULL, err);
}

/* Making. */

/* Minutes without activity until the service stops a sandbox, and with that deletes it. */
static uint32_t lease_minutes(struct atoll_remote_provider *p)
{
    return ATOLL_MAX(atoll_remote_leases_lease_s(p->leases) / 60, 1u);
}

static int new_sandbox(struct atoll_remote_provider *p, const struct atoll_spec *spec, json_t **ret,
                       struct atoll_error *err)
{
    const struct atoll_daytona_provider *own = atoll_daytona_of_remote(p);
    json_t *body =
        json_pack("{s:o, s:o, s:i, s:i, s:b}", "labels", atoll_remote_labels(p, spec), "env",
                  atoll_remote_env(spec->env), "autoStopInterval", (int)lease_minutes(p),
                  "autoDeleteInterval", 0, "public", own->is_public);
    int r = body ? 0 : atoll_fail_errno(err, ENOMEM, "create");

    atoll_remote_put_text(body, "snapshot", atoll_remote_template(p, spec, own->snapshot));
    atoll_remote_put_text(body, "target", spec->region ? spec->region : own->target);
    atoll_remote_put_text(body, "user", own->user);
    if (r == 0 && spec->network == ATOLL_NETWORK_BRIDGE)
        r = atoll_daytona_network(spec->network_json, body, err);
    else if (r == 0)
        (void)json_object_set_new(body, "networkBlockAll", json_true());
    if (r < 0)
        json_decref(body);
    else
        *ret = body;
    return r;
}

static int ask_for_one(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                       json_t *body, struct atoll_remote_sandbox *record, bool *ret_maybe,
                       struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    int r = atoll_remote_api_ask(api, call, "create", "POST", "/sandbox", body, &answer, err);

    if (r == 0 && (answer.status < 200 || answer.status > 299)) {
        r = atoll_remote_api_refused(api, "create", &answer, err);
        /* "Total CPU limit exceeded": another provider may have room. */
        if (answer.status == 403 && strstr(err->text, "exceeded"))
            err->kind = ATOLL_ERR_RESOURCE_EXHAUSTED;
    } else if (r == 0) {
        json = atoll_remote_answer_json(&answer);
        r = read_item(json, record, err);
    }
    *ret_maybe = r < 0 && atoll_remote_is_unconfirmed(answer.status);
    return r;
}

/* Learns the host of published ports. A failure leaves it unknown: previews go through the agent. */
static void ask_preview(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                        struct atoll_daytona_remote *remote)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    char path[PATH_MAX_LEN], url[ATOLL_DAYTONA_URL_MAX];
    struct atoll_error ignored;

    make_path(remote->of.handle, "/ports/" ATOLL_STRINGIFY(PREVIEW_PORT) "/preview-url", path);
    if (atoll_remote_api_json(api, call, "create", "GET", path, NULL, &json, &ignored) == 0 &&
        atoll_remote_take_field(json, "url", url, sizeof(url)) &&
        !atoll_daytona_read_preview(url, PREVIEW_PORT, remote->preview, sizeof(remote->preview)))
        remote->preview[0] = '\0';
}

static int make(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                struct atoll_remote_sandbox *record, bool *ret_maybe, struct atoll_error *err)
{
    json_t *body = NULL;
    int r = new_sandbox(p, spec, &body, err);

    if (r == 0)
        r = ask_for_one(api, call, body, record, ret_maybe, err);
    if (r == 0)
        r = atoll_remote_await(p, api, call, "create", ATOLL_REMOTE_RUNS, record, err);
    if (r == 0 && atoll_daytona_of_remote(p)->is_public)
        ask_preview(api, call, atoll_daytona_record(record));
    return r;
}

static void extend(const struct atoll_remote_api *api ATOLL_UNUSED,
                   const struct atoll_remote_sandbox *record, uint32_t lease_s ATOLL_UNUSED,
                   char **ret_path, char **ret_body)
{
    if (asprintf(ret_path, "/sandbox/%s/last-activity", record->handle) < 0)
        *ret_path = NULL;
    *ret_body = strdup("{}");
}

const struct atoll_remote_ops atoll_daytona_remote_ops = {
    .make = make,
    .look = look,
    .remove = remove_one,
    .list = list,
    .read = read_item,
    .start_agent = atoll_daytona_start_agent,
    .dial_agent = atoll_daytona_dial_agent,
    .extend = extend,
    .record_size = sizeof(struct atoll_daytona_remote),
};

/* Pausing. */

/* Sends the request unless the sandbox has that state, and waits for it. */
static int change(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                  const struct atoll_spec *spec, const char *what, const char *rest, int state,
                  struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    struct atoll_daytona_remote remote = {0};
    char path[PATH_MAX_LEN];
    int r = atoll_remote_about(p, spec, what, "/sandbox", rest, &account, path, sizeof(path), err);

    if (r == 0)
        r = look(p, &account.api, call, what, spec->handle, &remote.of, err);
    if (r == 0 && (remote.of.changing || (int)remote.of.state != state)) {
        r = atoll_remote_api_json(&account.api, call, what, "POST", path, json_object(), NULL, err);
        remote.of.changing = true;
    }
    if (r == 0)
        r = atoll_remote_await(p, &account.api, call, what, state, &remote.of, err);
    if (r == 0)
        atoll_remote_leases_set_paused(p->leases, spec->handle, state == ATOLL_REMOTE_PAUSED);
    return r;
}

int atoll_daytona_op_pause(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_error *err)
{
    return change(base, call, spec, "pause", "/pause", ATOLL_REMOTE_PAUSED, err);
}

int atoll_daytona_op_resume(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec, struct atoll_error *err)
{
    return change(base, call, spec, "resume", "/start", ATOLL_REMOTE_RUNS, err);
}

/* All settings are sent, since the service keeps those that a request does not name. */
int atoll_daytona_op_set_network(struct atoll_sync_provider *base,
                                 const struct atoll_sync_call *call, const struct atoll_spec *spec,
                                 const char *policy, struct atoll_error *err)
{
    static const char what[] = "change the network policy";
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    ATOLL_REMOTE_AUTOJSON json_t *body = json_pack("{s:b, s:s, s:s}", "networkBlockAll", false,
                                                   "networkAllowList", "", "domainAllowList", "");
    char path[PATH_MAX_LEN];
    int r = body ? 0 : atoll_fail_errno(err, ENOMEM, "%s", what);

    if (r == 0)
        r = atoll_remote_about(p, spec, what, "/sandbox", "/network-settings", &account, path,
                               sizeof(path), err);
    if (r == 0)
        r = atoll_daytona_network(policy, body, err);
    return r < 0 ? r
                 : atoll_remote_api_json(&account.api, call, what, "POST", path, json_incref(body),
                                         NULL, err);
}

bool atoll_daytona_op_public_host(struct atoll_sync_provider *base, const struct atoll_spec *spec,
                                  char *out, size_t cap)
{
    struct atoll_daytona_remote remote = {0};
    int n = 0;

    if (atoll_remote_leases_get(atoll_remote_of(base)->leases, spec->handle, &remote))
        n = snprintf(out, cap, "%s", remote.preview);
    return n > 0 && (size_t)n < cap;
}
