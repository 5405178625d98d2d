#include "provider/e2b/e2b.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "provider/e2b/control.h"
#include "provider/remote/settings.h"

#define CLOUD "e2b.app"
/* The service answers and accepts the key, if the provider has one. */
static int health(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                  char *detail, size_t cap, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
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
    (void)snprintf(detail, cap, "template %s, answers in %lld ms", atoll_e2b_of(p)->template_id,
                   (long long)(atoll_clock_ms() - began_ms) / (p->key ? 2 : 1));
    return 0;
}

static struct atoll_sync_provider *provider_free(struct atoll_sync_provider *base)
{
    struct atoll_e2b_provider *p = atoll_e2b_of(atoll_remote_of(base));

    atoll_remote_provider_done(&p->remote);
    free(p->sandbox_url);
    free(p->domain);
    free(p->template_id);
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
    .missing_limits = atoll_remote_missing_limits,
    ATOLL_REMOTE_OPERATIONS,
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
    p->domain_is_known = (c->domain && *c->domain) || !c->common.api_url || !*c->common.api_url;
    (void)snprintf(url, sizeof(url), "https://api.%s", p->domain);
    r = atoll_remote_take_url("e2b", "api_url",
                              c->common.api_url && *c->common.api_url ? c->common.api_url : url,
                              &p->remote.api.url, err);
    if (r == 0 && c->sandbox_url && *c->sandbox_url)
        r = atoll_remote_take_url("e2b", "sandbox_url", c->sandbox_url, &p->sandbox_url, err);
    return r;
}

/* A service does not report its isolation; only that of E2B's cloud is known. */
static const char *isolation_of(const struct atoll_e2b_provider *p,
                                const struct atoll_e2b_provider_config *c)
{
    bool cloud = (!c->common.api_url || !*c->common.api_url) && strcmp(p->domain, CLOUD) == 0;

    return cloud ? "microvm" : ops.caps.isolation;
}

static int take_region(struct atoll_e2b_provider *p, const char *region, struct atoll_error *err)
{
    if (!region)
        return 0;
    if (!*region || !atoll_remote_is_header_text(region))
        return refuse(err, "region must be a name of one line");
    return atoll_remote_header(&p->remote.api.headers, err, "X-Region: %s", region);
}

static const struct atoll_remote_kind kind = {
    .ops = &ops,
    .remote_ops = &atoll_e2b_remote_ops,
    .service = &atoll_e2b_service,
    .key_env = "E2B_API_KEY",
    .header = "x-next-token", /* cursor of the next page of a list */
    .form = ATOLL_REMOTE_GZIP,
};

int atoll_e2b_provider_new(const struct atoll_e2b_provider_config *config,
                           struct atoll_sync_provider **ret, struct atoll_error *err)
{
    const struct atoll_remote_config *common = &config->common;
    struct atoll_e2b_provider *p = calloc(1, sizeof(*p));
    int r;

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "e2b");
    r = take_addresses(p, config, err);
    if (r == 0)
        r = atoll_remote_take_text(common->template_id, "base", &p->template_id, err);
    if (r == 0)
        r = take_region(p, common->region, err);
    if (r == 0)
        r = atoll_remote_provider_init(&p->remote, &kind, common, isolation_of(p, config), err);
    if (r < 0)
        (void)provider_free(&p->remote.base);
    else
        *ret = &p->remote.base;
    return r;
}
