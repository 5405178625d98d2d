#include "provider/e2b/e2b.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "provider/e2b/control.h"
#include "provider/remote/settings.h"

#define CLOUD "e2b.app"
#define REQUEST_MS 60000 /* timeout of one request of a longer operation */

/* The service sets memory, CPUs and disk by template and does not limit processes. So only the
 * limits of memory and CPUs can hold, and only if a configured size is large enough. */
static uint32_t missing_limits(const struct atoll_sync_provider *base,
                               const struct atoll_spec *spec)
{
    const struct atoll_e2b_provider *p =
        ATOLL_CONTAINER_OF(base, const struct atoll_e2b_provider, base);
    bool fits = !spec->image[0] &&
                atoll_size_choose(p->sizes, p->size_count, &spec->limits, spec->waived) != NULL;

    return fits ? ATOLL_LIMIT_ALL & ~(ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU) : ATOLL_LIMIT_ALL;
}

/* The service answers and accepts the key, if the provider has one. */
static int health(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                  char *detail, size_t cap, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = ATOLL_CONTAINER_OF(base, struct atoll_e2b_provider, base);
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    int64_t began_ms = atoll_clock_ms();
    int r = atoll_remote_api_json(&p->api, call, "health", "GET", "/health", NULL, NULL, err);

    if (r == 0 && p->key)
        r = atoll_remote_api_json(&p->api, call, "health", "GET", "/v2/sandboxes?limit=1", NULL,
                                  &json, err);
    if (r < 0)
        return r;
    if (p->key && !json_is_array(json))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "health: the service does not speak E2B's protocol");
    (void)snprintf(detail, cap, "template %s, answers in %lld ms", p->template_id,
                   (long long)(atoll_clock_ms() - began_ms) / (p->key ? 2 : 1));
    return 0;
}

static struct atoll_sync_provider *provider_free(struct atoll_sync_provider *base)
{
    struct atoll_e2b_provider *p = ATOLL_CONTAINER_OF(base, struct atoll_e2b_provider, base);

    p->pump = atoll_remote_pump_free(p->pump);
    p->api.http = atoll_remote_http_free(p->api.http);
    p->leases = atoll_remote_leases_free(p->leases);
    p->agent = atoll_remote_agent_free(p->agent);
    curl_slist_free_all(p->api.headers);
    atoll_remote_key_free(p->key);
    free(p->api.url);
    free(p->sandbox_url);
    free(p->domain);
    free(p->template_id);
    free(p->isolation);
    free(p->daemon_id);
    free(p);
    return NULL;
}

static const struct atoll_sync_ops ops = {
    .name = "e2b",
    .caps = {.isolation = "unknown",
             .remote = true,
             .own_templates = true,
             .pause = true,
             .stats = true,
             .policies = true,
             .networks = 1u << ATOLL_NETWORK_NONE | 1u << ATOLL_NETWORK_BRIDGE},
    .missing_limits = missing_limits,
    .create = atoll_e2b_op_create,
    .dial = atoll_e2b_op_dial,
    .inspect = atoll_e2b_op_inspect,
    .list = atoll_e2b_op_list,
    .destroy = atoll_e2b_op_destroy,
    .pause = atoll_e2b_op_pause,
    .resume = atoll_e2b_op_resume,
    .stats = atoll_e2b_op_stats,
    .public_host = atoll_e2b_op_public_host,
    .health = health,
    .free = provider_free,
};

/* The config. */

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "e2b: %s", text);
}

static int take_addresses(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                          struct atoll_error *err)
{
    char url[300];
    int r = atoll_remote_take_text(c->domain, CLOUD, &p->domain, err);

    if (r < 0)
        return r;
    if (strlen(p->domain) > ATOLL_E2B_DOMAIN_MAX || strpbrk(p->domain, "/@?# \t\r\n"))
        return refuse(err, "domain must be a name such as e2b.app");
    p->domain_is_known = (c->domain && *c->domain) || !c->api_url || !*c->api_url;
    (void)snprintf(url, sizeof(url), "https://api.%s", p->domain);
    r = atoll_remote_take_url("e2b", "api_url", c->api_url && *c->api_url ? c->api_url : url,
                              &p->api.url, err);
    if (r == 0 && c->sandbox_url && *c->sandbox_url)
        r = atoll_remote_take_url("e2b", "sandbox_url", c->sandbox_url, &p->sandbox_url, err);
    return r;
}

static int take_key(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                    struct atoll_error *err)
{
    const struct atoll_remote_key key = {
        .value = c->api_key,
        .file = c->api_key_file,
        .env = c->api_key_env && *c->api_key_env ? c->api_key_env : "E2B_API_KEY",
    };
    int r = c->key_of_request ? 0 : atoll_remote_take_key("e2b", &key, &p->key, err);

    p->api.secret = p->key;
    return r;
}

static int take_headers(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                        struct atoll_error *err)
{
    struct curl_slist **list = &p->api.headers;
    int r = p->key ? atoll_remote_header(list, err, "X-API-Key: %s", p->key) : 0;

    if (r == 0)
        r = atoll_remote_header(list, err, "Content-Type: application/json");
    if (r == 0 && c->region && (!*c->region || !atoll_remote_is_header_text(c->region)))
        r = refuse(err, "region must be a name of one line");
    else if (r == 0 && c->region)
        r = atoll_remote_header(list, err, "X-Region: %s", c->region);
    return r < 0 ? r : atoll_remote_take_headers("e2b", c->headers, c->header_count, list, err);
}

/* A service does not report its isolation; only that of E2B's cloud is known. */
static int take_isolation(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                          struct atoll_error *err)
{
    bool cloud = (!c->api_url || !*c->api_url) && strcmp(p->domain, CLOUD) == 0;
    int r = atoll_remote_take_text(c->isolation, cloud ? "microvm" : ops.caps.isolation,
                                   &p->isolation, err);

    p->ops = ops;
    p->ops.caps.isolation = p->isolation;
    p->base.ops = &p->ops;
    return r;
}

static int take_rest(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                     struct atoll_error *err)
{
    int r = atoll_remote_take_text(c->template_id, "base", &p->template_id, err);

    p->size_count = ATOLL_MIN(c->size_count, (size_t)ATOLL_SIZES_MAX);
    if (p->size_count > 0)
        memcpy(p->sizes, c->sizes, p->size_count * sizeof(p->sizes[0]));
    if (r == 0)
        r = atoll_remote_take_text(c->daemon_id, "", &p->daemon_id, err);
    if (r == 0 && (!p->daemon_id[0] || !c->agent_path || !*c->agent_path ||
                   p->daemon_id[strspn(p->daemon_id, "abcdefghijklmnopqrstuvwxyz0123456789-")]))
        r = refuse(err, "daemon_id must be of a-z, 0-9 and '-', and agent_path a file");
    return r;
}

static int extend(void *arg, const char *handle, uint32_t lease_s,
                  struct atoll_remote_extension *ret)
{
    const struct atoll_e2b_provider *p = arg;
    struct atoll_e2b_remote remote = {0};
    int r;

    (void)atoll_remote_leases_get(p->leases, handle, &remote);
    r = remote.key[0] ? atoll_e2b_headers_with_key(p, remote.key, &ret->headers, NULL)
                      : atoll_remote_headers(&ret->headers, p->api.headers, NULL);
    explicit_bzero(remote.key, sizeof(remote.key));
    if (asprintf(&ret->url, "%s/sandboxes/%s/timeout", p->api.url, handle) < 0)
        ret->url = NULL;
    if (asprintf(&ret->body, "{\"timeout\":%u}", lease_s) < 0)
        ret->body = NULL;
    return r == 0 && ret->url && ret->body ? 0 : -ENOMEM;
}

static int start(struct atoll_e2b_provider *p, const struct atoll_e2b_provider_config *c,
                 struct atoll_error *err)
{
    int r = atoll_remote_http_new(
        &(struct atoll_remote_http_config){.service = &atoll_e2b_service, .ca = c->ca_file},
        &p->api.http, err);

    if (r < 0)
        return r;
    p->api.service = &atoll_e2b_service;
    p->api.header = "x-next-token"; /* cursor of the next page of a list */
    p->api.timeout_ms = REQUEST_MS;
    p->agent = atoll_remote_agent_new(c->agent_path, true);
    p->leases =
        atoll_remote_leases_new(&atoll_e2b_service, c->timeout_s, sizeof(struct atoll_e2b_remote));
    if (!p->leases || !p->agent)
        return atoll_fail_errno(err, ENOMEM, "e2b");
    return atoll_remote_pump_new(&(struct atoll_remote_pump_config){.http = p->api.http,
                                                                    .service = &atoll_e2b_service,
                                                                    .secret = p->key,
                                                                    .leases = p->leases,
                                                                    .extend = extend,
                                                                    .arg = p,
                                                                    .extend_method = "POST"},
                                 &p->pump, err);
}

int atoll_e2b_provider_new(const struct atoll_e2b_provider_config *config,
                           struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct atoll_e2b_provider *p = calloc(1, sizeof(*p));
    int r;

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "e2b");
    p->base.ops = &ops;
    r = take_addresses(p, config, err);
    if (r == 0)
        r = take_isolation(p, config, err);
    if (r == 0)
        r = take_key(p, config, err);
    if (r == 0)
        r = take_headers(p, config, err);
    if (r == 0)
        r = take_rest(p, config, err);
    if (r == 0)
        r = start(p, config, err);
    if (r < 0)
        (void)provider_free(&p->base);
    else
        *ret = &p->base;
    return r;
}
