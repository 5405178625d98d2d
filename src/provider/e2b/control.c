/*
 * Requests about sandboxes to the service.
 */
#include "provider/e2b/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "net/url.h"

#define LIST_PAGE 100
#define PATH_MAX_LEN (ATOLL_REMOTE_HANDLE_MAX + 32)

static void make_path(const char *handle, char out[PATH_MAX_LEN])
{
    (void)snprintf(out, PATH_MAX_LEN, "/sandboxes/%s", handle);
}

/* Finding. */

/* Our keys and values have no characters that need encoding; others would have to be encoded
 * twice. */
static int list_path(const struct atoll_remote_provider *p, const char *id, const char *cursor,
                     char **ret)
{
    struct atoll_buf encoded;
    int n = -1;

    atoll_buf_init(&encoded, 2048);
    if (atoll_url_encode(&encoded, cursor, false) == 0)
        n = asprintf(ret,
                     "/v2/sandboxes?metadata=" ATOLL_REMOTE_LABEL_DAEMON "%%3D%s%s%s"
                     "&state=running%%2Cpaused&limit=%d%s%s",
                     p->daemon_id, id ? "%26" ATOLL_REMOTE_LABEL_ID "%3D" : "", id ? id : "",
                     LIST_PAGE, *cursor ? "&nextToken=" : "", atoll_buf_str(&encoded));
    atoll_buf_done(&encoded);
    return n < 0 ? -ENOMEM : 0;
}

static int list(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *id,
                const char *cursor, json_t **ret_items, char *ret_cursor, size_t cap,
                struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_AUTOFREE char *path = NULL;
    int r = list_path(p, id, cursor, &path);

    if (r < 0)
        return atoll_fail_errno(err, -r, "%s", what);
    r = atoll_remote_api_ask(api, call, what, "GET", path, NULL, &answer, err);
    if (r == 0 && answer.status != 200)
        r = atoll_remote_api_refused(api, what, &answer, err);
    if (r == 0)
        *ret_items = atoll_remote_answer_json(&answer);
    (void)snprintf(ret_cursor, cap, "%s", answer.header);
    return r;
}

static int read_item(const json_t *item, struct atoll_remote_sandbox *record,
                     struct atoll_error *err)
{
    return atoll_e2b_read_remote(item, atoll_e2b_record(record), err);
}

static int look(struct atoll_remote_provider *p ATOLL_UNUSED, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const char *what, const char *handle,
                struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    char path[PATH_MAX_LEN];
    int r;

    make_path(handle, path);
    r = atoll_remote_api_json(api, call, what, "GET", path, NULL, &json, err);
    return r < 0 ? r : read_item(json, record, err);
}

static int remove_one(struct atoll_remote_provider *p ATOLL_UNUSED,
                      const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                      const char *handle, struct atoll_error *err)
{
    char path[PATH_MAX_LEN];

    make_path(handle, path);
    return atoll_remote_api_json(api, call, "destroy", "DELETE", path, NULL, NULL, err);
}

/* Making. */

static json_t *new_sandbox(struct atoll_remote_provider *p, const struct atoll_spec *spec,
                           json_t *network)
{
    const struct atoll_e2b_create_params request = {
        .template_id = atoll_remote_template(p, spec, atoll_e2b_of(p)->template_id),
        .timeout_s = atoll_remote_leases_lease_s(p->leases),
        .internet = spec->network == ATOLL_NETWORK_BRIDGE,
        .metadata = atoll_remote_labels(p, spec),
        .env = atoll_remote_env(spec->env),
        .network = network,
    };

    return atoll_e2b_create_message(&request);
}

/* A service that allows less time than requested names its maximum, which is used from then on. */
static bool lower_lease(struct atoll_remote_provider *p, struct atoll_remote_answer *answer)
{
    uint32_t hours = answer->status == 400
                         ? atoll_e2b_most_hours((const char *)atoll_buf_head(&answer->body),
                                                atoll_buf_size(&answer->body))
                         : 0;

    if (hours == 0 || hours * 3600 >= atoll_remote_leases_lease_s(p->leases))
        return false;
    atoll_remote_leases_set_lease_s(p->leases, hours * 3600);
    return true;
}

/* The headers of a create: with the region of the request, if it names one. */
static int create_headers(const struct atoll_remote_api *given, const struct atoll_spec *spec,
                          struct curl_slist **ret, struct atoll_error *err)
{
    static const char region[] = "X-Region:";
    int r = 0;

    for (const struct curl_slist *h = given->headers; r == 0 && h; h = h->next)
        if (!spec->region || strncmp(h->data, region, sizeof(region) - 1) != 0)
            r = atoll_remote_header(ret, err, "%s", h->data);
    if (r == 0 && spec->region)
        r = atoll_remote_header(ret, err, "%s %s", region, spec->region);
    return r;
}

static int ask_for_one(struct atoll_remote_provider *p, const struct atoll_remote_api *given,
                       const struct atoll_sync_call *call, const struct atoll_spec *spec,
                       json_t *network, struct atoll_remote_answer *answer, struct atoll_error *err)
{
    struct atoll_remote_api api = *given;
    int r;

    api.headers = NULL;
    r = create_headers(given, spec, &api.headers, err);
    if (r == 0)
        r = atoll_remote_api_ask(&api, call, "create", "POST", "/sandboxes",
                                 new_sandbox(p, spec, network), answer, err);
    if (r == 0 && lower_lease(p, answer)) {
        atoll_remote_answer_done(answer);
        r = atoll_remote_api_ask(&api, call, "create", "POST", "/sandboxes",
                                 new_sandbox(p, spec, network), answer, err);
    }
    curl_slist_free_all(api.headers);
    return r;
}

static int make(struct atoll_remote_provider *p, const struct atoll_remote_api *api,
                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                struct atoll_remote_sandbox *record, bool *ret_maybe, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOJSON json_t *network = NULL, *json = NULL;
    int r = spec->network == ATOLL_NETWORK_BRIDGE
                ? atoll_e2b_network(spec->network_json, &network, err)
                : 0;

    if (r < 0)
        return r;
    r = ask_for_one(p, api, call, spec, network, &answer, err);
    if (r == 0 && (answer.status < 200 || answer.status > 299)) {
        r = atoll_remote_api_refused(api, "create", &answer, err);
    } else if (r == 0) {
        json = atoll_remote_answer_json(&answer);
        r = read_item(json, record, err);
    }
    *ret_maybe = r < 0 && atoll_remote_is_unconfirmed(answer.status);
    return r;
}

static void extend(const struct atoll_remote_api *api ATOLL_UNUSED,
                   const struct atoll_remote_sandbox *record, uint32_t lease_s, char **ret_path,
                   char **ret_body)
{
    if (asprintf(ret_path, "/sandboxes/%s/timeout", record->handle) < 0)
        *ret_path = NULL;
    if (asprintf(ret_body, "{\"timeout\":%u}", lease_s) < 0)
        *ret_body = NULL;
}

const struct atoll_remote_ops atoll_e2b_remote_ops = {
    .make = make,
    .look = look,
    .remove = remove_one,
    .list = list,
    .read = read_item,
    .start_agent = atoll_e2b_start_agent,
    .dial_agent = atoll_e2b_dial_agent,
    .extend = extend,
    .record_size = sizeof(struct atoll_e2b_remote),
};

/* Pausing. */

int atoll_e2b_op_pause(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    char path[PATH_MAX_LEN];
    int r = atoll_remote_about(p, spec, "pause", "/sandboxes", "/pause", &account, path,
                               sizeof(path), err);

    if (r == 0)
        r = atoll_remote_api_json(&account.api, call, "pause", "POST", path, json_object(), NULL,
                                  err);
    /* 409: it is paused already. */
    if (r < 0 && err->kind == ATOLL_ERR_FAILED_PRECONDITION && err->errnum == EEXIST)
        r = 0;
    if (r == 0)
        atoll_remote_leases_set_paused(p->leases, spec->handle, true);
    return r;
}

int atoll_e2b_op_resume(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    char path[PATH_MAX_LEN];
    struct atoll_e2b_remote remote;
    int r = atoll_remote_about(p, spec, "resume", "/sandboxes", "/connect", &account, path,
                               sizeof(path), err);

    if (r == 0)
        r = atoll_remote_api_json(
            &account.api, call, "resume", "POST", path,
            json_pack("{s:I}", "timeout", (json_int_t)atoll_remote_leases_lease_s(p->leases)),
            &json, err);
    if (r == 0)
        r = atoll_e2b_read_remote(json, &remote, err);
    return r < 0 ? r : atoll_remote_keep(p, spec, &remote.of, true, err);
}

int atoll_e2b_op_stats(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                       struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_REMOTE_AUTOACCOUNT struct atoll_remote_account account = {0};
    char path[PATH_MAX_LEN];
    struct atoll_e2b_sample sample;
    int r = atoll_remote_about(p, spec, "stats", "/sandboxes", "/metrics", &account, path,
                               sizeof(path), err);

    if (r == 0)
        r = atoll_remote_api_json(&account.api, call, "stats", "GET", path, NULL, &json, err);
    if (r < 0)
        return r;
    if (atoll_e2b_read_sample(json, &sample) < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENODATA,
                          "stats: the E2B service has not measured this sandbox yet");
    *ret = (struct atoll_provider_stats){
        .memory_bytes = sample.memory_bytes,
        .memory_limit_bytes = sample.memory_total_bytes,
        .disk_bytes = sample.disk_bytes,
        .disk_limit_bytes = sample.disk_total_bytes,
        .cpu_limit_millis = (uint32_t)ATOLL_MIN(sample.cpus * 1000, 1e9),
        .has_cpu_percent = true,
        .cpu_percent = sample.cpu_percent * ATOLL_MAX(sample.cpus, 1.0),
    };
    return 0;
}

bool atoll_e2b_op_public_host(struct atoll_sync_provider *base, const struct atoll_spec *spec,
                              char *out, size_t cap)
{
    struct atoll_e2b_provider *p = atoll_e2b_of(atoll_remote_of(base));
    struct atoll_e2b_remote remote = {0};
    const char *domain = p->domain_is_known ? p->domain : "";
    bool tls = strncmp(p->remote.api.url, "https:", 6) == 0;
    int n;

    /* The domain that a service without TLS reports has no TLS either; it is not used. */
    if (atoll_remote_leases_get(p->remote.leases, spec->handle, &remote) && remote.domain[0] && tls)
        domain = remote.domain;
    if (!*domain || !spec->handle[0])
        return false;
    n = snprintf(out, cap, "{port}-%s.%s", spec->handle, domain);
    return n > 0 && (size_t)n < cap;
}
