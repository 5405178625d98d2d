/*
 * The life of sandboxes at the service. Their metadata has our id and that of this daemon, by which
 * they are found again if nothing else is known.
 */
#include "provider/e2b/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "net/url.h"

#define LIST_PAGE 100
#define LIST_MAX 16384 /* sandboxes; a list with more of ours is not trusted to end */
#define CLEAN_MS 15000 /* deadline to remove what a failed create left, independent of its own */

static struct atoll_e2b_provider *own(struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_e2b_provider, base);
}

/* Makes a path below /sandboxes/HANDLE. The handle comes from a stored spec and is checked. */
static int make_path(const struct atoll_spec *spec, const char *what, const char *rest, char *out,
                     size_t cap, struct atoll_error *err)
{
    for (const char *c = spec->handle; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", *c))
            return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s: no such E2B sandbox", what);
    if (!spec->handle[0])
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s: no such E2B sandbox", what);
    (void)snprintf(out, cap, "/sandboxes/%s%s", spec->handle, rest);
    return 0;
}

/* Finding. */

struct finding {
    const char *what; /* operation, for error texts */
    const char *id;   /* our id; NULL: all sandboxes of this daemon */
    size_t count;
    int (*found)(struct finding *f, const struct atoll_e2b_remote *remote, struct atoll_error *err);
    struct atoll_e2b_provider *p;
    const struct atoll_remote_api *api; /* with the key of the sandbox */
    const struct atoll_sync_call *call;
    void (*each)(void *arg, const char *id, const char *handle, bool alive);
    void *arg;
};

/* Our keys and values have no characters that need encoding; others would have to be encoded
 * twice. */
static int list_path(const struct finding *f, const char *token, char **ret)
{
    struct atoll_buf encoded;
    int n = -1;

    atoll_buf_init(&encoded, 2048);
    if (atoll_url_encode(&encoded, token, false) == 0)
        n = asprintf(ret,
                     "/v2/sandboxes?metadata=atoll_daemon%%3D%s%s%s&state=running%%2Cpaused"
                     "&limit=%d%s%s",
                     f->p->daemon_id, f->id ? "%26atoll_id%3D" : "", f->id ? f->id : "", LIST_PAGE,
                     *token ? "&nextToken=" : "", atoll_buf_str(&encoded));
    atoll_buf_done(&encoded);
    return n < 0 ? -ENOMEM : 0;
}

static int take_page(struct finding *f, struct atoll_remote_answer *answer, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *page = atoll_remote_answer_json(answer);
    int r = 0;

    if (!json_is_array(page))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "%s: the answer of the E2B service is not a list", f->what);
    for (size_t i = 0; r == 0 && i < json_array_size(page); i++) {
        struct atoll_e2b_remote remote;
        r = atoll_e2b_read_remote(json_array_get(page, i), &remote, err);
        /* The service's filter is not trusted: sandboxes that are not ours are skipped. */
        if (r < 0 || !remote.id[0] || (f->id && strcmp(f->id, remote.id) != 0))
            continue;
        if (++f->count > LIST_MAX)
            return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EOVERFLOW,
                              "%s: the list of the E2B service does not end", f->what);
        r = f->found(f, &remote, err);
    }
    return r;
}

static int find(struct finding *f, struct atoll_error *err)
{
    char token[sizeof(((struct atoll_remote_answer *)0)->header)] = "";
    int r;

    do {
        ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
        ATOLL_AUTOFREE char *path = NULL;
        r = list_path(f, token, &path);
        if (r < 0)
            return atoll_fail_errno(err, -r, "%s", f->what);
        r = atoll_remote_api_ask(f->api, f->call, f->what, "GET", path, NULL, &answer, err);
        if (r == 0 && answer.status != 200)
            r = atoll_remote_api_refused(f->api, f->what, &answer, err);
        if (r == 0)
            r = take_page(f, &answer, err);
        f->count++; /* also counts pages without a sandbox of ours, so that the loop ends */
        (void)snprintf(token, sizeof(token), "%s", answer.header);
    } while (r == 0 && token[0] && f->count <= LIST_MAX);
    return r;
}

static int tell_each(struct finding *f, const struct atoll_e2b_remote *remote,
                     struct atoll_error *err ATOLL_UNUSED)
{
    f->each(f->arg, remote->id, remote->handle, true);
    return 0;
}

int atoll_e2b_op_list(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                      void (*each)(void *arg, const char *id, const char *handle, bool alive),
                      void *arg, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = own(base);
    struct finding f = {.what = "list",
                        .found = tell_each,
                        .p = p,
                        .api = &p->api,
                        .call = call,
                        .each = each,
                        .arg = arg};

    return p->key ? find(&f, err) : 0;
}

/* Removing. */

static int kill_one(struct atoll_e2b_provider *p, const struct atoll_remote_api *api,
                    const struct atoll_sync_call *call, const char *handle, struct atoll_error *err)
{
    char path[ATOLL_E2B_HANDLE_MAX + 16];
    int r;

    (void)snprintf(path, sizeof(path), "/sandboxes/%s", handle);
    r = atoll_remote_api_json(api, call, "destroy", "DELETE", path, NULL, NULL, err);
    if (r < 0 && err->kind != ATOLL_ERR_NOT_FOUND)
        return r;
    atoll_remote_leases_forget(p->leases, handle);
    return 0;
}

static int kill_found(struct finding *f, const struct atoll_e2b_remote *remote,
                      struct atoll_error *err)
{
    return kill_one(f->p, f->api, f->call, remote->handle, err);
}

/* Kills every sandbox with our id, known or not. */
static int kill_by_id(struct atoll_e2b_provider *p, const struct atoll_remote_api *api,
                      const struct atoll_sync_call *call, const char *what, const char *id,
                      struct atoll_error *err)
{
    struct finding f = {
        .what = what, .id = id, .found = kill_found, .p = p, .api = api, .call = call};
    int r = find(&f, err);

    if (r == 0)
        atoll_remote_leases_set_confirmed(p->leases, id);
    return r;
}

int atoll_e2b_op_destroy(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = own(base);
    ATOLL_E2B_AUTOACCOUNT struct atoll_e2b_account account = {0};
    char path[ATOLL_E2B_HANDLE_MAX + 16];
    int r = atoll_e2b_account_open(p, spec, &account, err);

    if (r == 0 && spec->handle[0]) {
        r = make_path(spec, "destroy", "", path, sizeof(path), err);
        if (r == 0)
            r = kill_one(p, &account.api, call, spec->handle, err);
    }
    if (r == 0 && (!spec->handle[0] || atoll_remote_leases_is_unconfirmed(p->leases, spec->id)))
        r = kill_by_id(p, &account.api, call, "destroy", spec->id, err);
    return r;
}

/* Making. */

/* The template that the request names, else the smallest size that fits, else the default. */
static const char *choose_template(const struct atoll_e2b_provider *p,
                                   const struct atoll_spec *spec)
{
    const struct atoll_size *size =
        atoll_size_choose(p->sizes, p->size_count, &spec->limits, spec->waived);

    return spec->image[0] ? spec->image : size ? size->template_name : p->template_id;
}

static json_t *new_sandbox(struct atoll_e2b_provider *p, const struct atoll_spec *spec,
                           json_t *network)
{
    const struct atoll_e2b_create_params request = {
        .template_id = choose_template(p, spec),
        .timeout_s = atoll_remote_leases_lease_s(p->leases),
        .internet = spec->network == ATOLL_NETWORK_BRIDGE,
        .id = spec->id,
        .daemon_id = p->daemon_id,
        .metadata_json = spec->metadata_json,
        .env = spec->env,
        .network = network,
    };

    return atoll_e2b_create_message(&request);
}

/* A service that allows less time than requested names its maximum, which is used from then on. */
static bool lower_lease(struct atoll_e2b_provider *p, struct atoll_remote_answer *answer)
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

/* Whether a failed request may have created a sandbox all the same. */
static bool is_unconfirmed(long status)
{
    return status == 0 || status >= 500 || (status >= 200 && status < 300);
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

/* Reads an answer about the sandbox of this spec. */
static int read_own(const struct atoll_spec *spec, const json_t *answer,
                    struct atoll_e2b_remote *ret, struct atoll_error *err)
{
    int r = atoll_e2b_read_remote(answer, ret, err);

    (void)snprintf(ret->key, sizeof(ret->key), "%s", spec->credential ? spec->credential : "");
    return r;
}

static int ask_for_one(struct atoll_e2b_provider *p, const struct atoll_remote_api *given,
                       const struct atoll_sync_call *call, const struct atoll_spec *spec,
                       json_t *network, struct atoll_e2b_remote *ret, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    struct atoll_remote_api api = *given;
    int r;

    api.headers = NULL;
    r = create_headers(given, spec, &api.headers, err);
    if (r == 0)
        r = atoll_remote_api_ask(&api, call, "create", "POST", "/sandboxes",
                                 new_sandbox(p, spec, network), &answer, err);
    if (r == 0 && lower_lease(p, &answer)) {
        atoll_remote_answer_done(&answer);
        r = atoll_remote_api_ask(&api, call, "create", "POST", "/sandboxes",
                                 new_sandbox(p, spec, network), &answer, err);
    }
    curl_slist_free_all(api.headers);
    if (r == 0 && (answer.status < 200 || answer.status > 299)) {
        r = atoll_remote_api_refused(&api, "create", &answer, err);
    } else if (r == 0) {
        json = atoll_remote_answer_json(&answer);
        r = read_own(spec, json, ret, err);
    }
    if (r < 0 && is_unconfirmed(answer.status))
        atoll_remote_leases_set_unconfirmed(p->leases, spec->id);
    return r;
}

static void clean_up(struct atoll_e2b_provider *p, const struct atoll_remote_api *api,
                     const struct atoll_spec *spec, const char *handle)
{
    struct atoll_sync_call call = {.deadline_ms = atoll_clock_ms() + CLEAN_MS, .cancel_fd = -1};
    struct atoll_error ignored;

    if (handle[0] && kill_one(p, api, &call, handle, &ignored) < 0) {
        atoll_remote_leases_forget(p->leases, handle);
        atoll_remote_leases_set_unconfirmed(p->leases, spec->id);
    } else if (!handle[0] && atoll_remote_leases_is_unconfirmed(p->leases, spec->id) &&
               kill_by_id(p, api, &call, "create", spec->id, &ignored) < 0) {
        return; /* it stays unconfirmed: the next create or destroy of this id checks again */
    }
}

int atoll_e2b_op_create(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                        struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = own(base);
    ATOLL_E2B_AUTOACCOUNT struct atoll_e2b_account account = {0};
    ATOLL_REMOTE_AUTOJSON json_t *network = NULL;
    struct atoll_e2b_remote remote = {0};
    int r = spec->network == ATOLL_NETWORK_BRIDGE
                ? atoll_e2b_network(spec->network_json, &network, err)
                : 0;

    if (r == 0)
        r = atoll_e2b_account_open(p, spec, &account, err);
    if (r == 0 && atoll_remote_leases_is_unconfirmed(p->leases, spec->id))
        r = kill_by_id(p, &account.api, call, "create", spec->id, err);
    if (r < 0)
        return r;
    r = ask_for_one(p, &account.api, call, spec, network, &remote, err);
    if (r == 0)
        r = atoll_remote_leases_put(p->leases, remote.handle, &remote, remote.paused, true, err);
    if (r == 0)
        r = atoll_e2b_agent_start(p, call, &remote, err);
    if (r == 0)
        r = atoll_e2b_agent_dial(p, call, &remote, ret_fd, err);
    if (r < 0)
        clean_up(p, &account.api, spec, remote.handle);
    else
        (void)snprintf(spec->handle, sizeof(spec->handle), "%s", remote.handle);
    return r;
}

/* Inspecting. */

static int ask_about(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                     const struct atoll_spec *spec, const char *what, struct atoll_e2b_remote *ret,
                     struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_E2B_AUTOACCOUNT struct atoll_e2b_account account = {0};
    char path[ATOLL_E2B_HANDLE_MAX + 16];
    int r = make_path(spec, what, "", path, sizeof(path), err);

    if (r == 0)
        r = atoll_e2b_account_open(p, spec, &account, err);
    if (r == 0)
        r = atoll_remote_api_json(&account.api, call, what, "GET", path, NULL, &json, err);
    if (r == 0)
        r = read_own(spec, json, ret, err);
    if (r == 0 && strcmp(ret->handle, spec->handle) != 0)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                       "%s: the E2B service answers about another sandbox", what);
    return r;
}

int atoll_e2b_op_inspect(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                         struct atoll_error *err)
{
    struct atoll_e2b_provider *p = own(base);
    struct atoll_e2b_remote remote;
    int r = ask_about(p, call, spec, "look", &remote, err);

    *ret = (struct atoll_provider_inspection){.state = ATOLL_INSPECT_ALIVE};
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND) {
        atoll_remote_leases_forget(p->leases, spec->handle);
        ret->state = ATOLL_INSPECT_GONE;
        (void)snprintf(
            ret->cause, sizeof(ret->cause),
            "the E2B service no longer has it: it was killed there, or its time to live is over");
        return 0;
    }
    if (r == 0 && remote.paused) {
        ret->state = ATOLL_INSPECT_PAUSED;
    } else if (r == 0 && atoll_remote_leases_is_silent(p->leases, spec->handle)) {
        ret->state = ATOLL_INSPECT_EXITED;
        ret->exit.code = -1;
        (void)snprintf(ret->cause, sizeof(ret->cause),
                       "the E2B service still runs it, but the agent in it is gone");
    }
    return r;
}

/* Finds out why a stream cannot be opened, if the service knows. */
static int explain(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_e2b_remote remote;
    struct atoll_error failure;
    int r = ask_about(p, call, spec, "dial the agent", &remote, &failure);

    if (r < 0 && failure.kind == ATOLL_ERR_NOT_FOUND) {
        *err = failure;
        return r;
    }
    if (r == 0 && remote.paused)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                          "the E2B sandbox is paused; resume it");
    return err->errnum > 0 ? -err->errnum : -EIO;
}

int atoll_e2b_op_dial(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                      const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = own(base);
    struct atoll_e2b_remote remote;
    int r = 0;

    /* Made by an earlier daemon: the service has its token. */
    if (!atoll_remote_leases_get(p->leases, spec->handle, &remote)) {
        r = ask_about(p, call, spec, "dial the agent", &remote, err);
        if (r == 0)
            r = atoll_remote_leases_put(p->leases, remote.handle, &remote, remote.paused, false,
                                        err);
        if (r < 0)
            return r;
    }
    r = atoll_e2b_agent_dial(p, call, &remote, ret_fd, err);
    return r < 0 && err->kind != ATOLL_ERR_ABORTED ? explain(p, call, spec, err) : r;
}

/* Pausing. */

int atoll_e2b_op_pause(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = own(base);
    ATOLL_E2B_AUTOACCOUNT struct atoll_e2b_account account = {0};
    char path[ATOLL_E2B_HANDLE_MAX + 24];
    int r = make_path(spec, "pause", "/pause", path, sizeof(path), err);

    if (r == 0)
        r = atoll_e2b_account_open(p, spec, &account, err);
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
    struct atoll_e2b_provider *p = own(base);
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_E2B_AUTOACCOUNT struct atoll_e2b_account account = {0};
    char path[ATOLL_E2B_HANDLE_MAX + 24];
    struct atoll_e2b_remote remote;
    int r = make_path(spec, "resume", "/connect", path, sizeof(path), err);

    if (r == 0)
        r = atoll_e2b_account_open(p, spec, &account, err);
    if (r == 0)
        r = atoll_remote_api_json(
            &account.api, call, "resume", "POST", path,
            json_pack("{s:I}", "timeout", (json_int_t)atoll_remote_leases_lease_s(p->leases)),
            &json, err);
    if (r == 0)
        r = read_own(spec, json, &remote, err);
    return r < 0 ? r
                 : atoll_remote_leases_put(p->leases, remote.handle, &remote, remote.paused, true,
                                           err);
}

int atoll_e2b_op_stats(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                       struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_E2B_AUTOACCOUNT struct atoll_e2b_account account = {0};
    char path[ATOLL_E2B_HANDLE_MAX + 24];
    struct atoll_e2b_sample sample;
    int r = make_path(spec, "stats", "/metrics", path, sizeof(path), err);

    if (r == 0)
        r = atoll_e2b_account_open(own(base), spec, &account, err);
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
    struct atoll_e2b_provider *p = own(base);
    struct atoll_e2b_remote remote = {0};
    const char *domain = p->domain_is_known ? p->domain : "";
    bool tls = strncmp(p->api.url, "https:", 6) == 0;
    int n;

    /* The domain that a service without TLS reports has no TLS either; it is not used. */
    if (atoll_remote_leases_get(p->leases, spec->handle, &remote) && remote.domain[0] && tls)
        domain = remote.domain;
    if (!*domain || !spec->handle[0])
        return false;
    n = snprintf(out, cap, "{port}-%s.%s", spec->handle, domain);
    return n > 0 && (size_t)n < cap;
}
