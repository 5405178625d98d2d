#include "provider/vercel/vercel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "provider/vercel/vercel_internal.h"

#define CLOUD "https://vercel.com/api"
#define FACADE "/vercel/api" /* of another Atoll */
#define FACADE_TEAM "team_atoll"
#define RELAY_PORT 47100
#define LEASE_S 1800 /* below the longest session of Vercel's free plan */

/* The service answers and accepts the key, if the provider has one. */
static int health(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                  char *detail, size_t cap, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    const char *template_id = atoll_vercel_of_remote(p)->template_id;
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    ATOLL_AUTOFREE char *path =
        atoll_vercel_request_path(p->api.scope, "/v2/sandboxes?limit=1&", "project");
    int64_t began_ms = atoll_clock_ms();
    int r = path ? atoll_remote_api_json(&p->api, call, "health", "GET", path, NULL, &json, err)
                 : atoll_fail_errno(err, ENOMEM, "health");

    /* Without a key, the refusal is an answer. */
    if (r < 0 && (p->key || err->kind != ATOLL_ERR_UNAUTHENTICATED))
        return r;
    if (p->key && !json_is_array(json_object_get(json, "sandboxes")))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "health: the service does not speak Vercel's protocol");
    (void)snprintf(detail, cap, "%s, answers in %lld ms",
                   *template_id ? template_id : "default runtime",
                   (long long)(atoll_clock_ms() - began_ms));
    return 0;
}

/* Requests choose a size, if the operator says up to which; each vCPU has 2 GiB. */
static uint32_t missing_limits(const struct atoll_sync_provider *base,
                               const struct atoll_spec *spec)
{
    const struct atoll_remote_provider *p =
        ATOLL_CONTAINER_OF(base, const struct atoll_remote_provider, base);
    const struct atoll_vercel_provider *own =
        ATOLL_CONTAINER_OF(p, const struct atoll_vercel_provider, remote);

    return atoll_vercel_vcpus(&spec->limits, spec->waived) <= own->max_vcpus && own->max_vcpus > 0
               ? ATOLL_LIMIT_ALL & ~(ATOLL_LIMIT_MEMORY | ATOLL_LIMIT_CPU)
               : ATOLL_LIMIT_ALL;
}

static struct atoll_sync_provider *provider_free(struct atoll_sync_provider *base)
{
    struct atoll_vercel_provider *p = atoll_vercel_of_remote(atoll_remote_of(base));

    atoll_remote_provider_done(&p->remote);
    free(p->template_id);
    free(p->region);
    free(p->sandbox_url);
    free(p->scope);
    free(p);
    return NULL;
}

static const struct atoll_sync_ops ops = {
    .name = "vercel",
    .caps = {.isolation = "unknown",
             .remote = true,
             .own_templates = true,
             .policies = true,
             .set_network = true,
             .networks = 1u << ATOLL_NETWORK_NONE | 1u << ATOLL_NETWORK_BRIDGE},
    .missing_limits = missing_limits,
    ATOLL_REMOTE_OPERATIONS,
    .set_network = atoll_vercel_op_set_network,
    .health = health,
    .free = provider_free,
};

/* The config. */

static bool is_set(const char *text)
{
    return text && *text;
}

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "vercel: %s", text);
}

static int take_scope(struct atoll_vercel_provider *p, const struct atoll_vercel_provider_config *c,
                      struct atoll_error *err)
{
    bool cloud = !is_set(c->common.api_url);
    struct atoll_vercel_scope checked;

    if (cloud && !c->common.key_of_request && (!is_set(c->team) || !is_set(c->project)))
        return refuse(err, "team and project are needed, as VERCEL_TEAM_ID and VERCEL_PROJECT_ID "
                           "in the SDK");
    /* `atoll vercel env` has set the variables: the token is a key of an Atoll. */
    if (cloud && is_set(c->team) && strcmp(c->team, FACADE_TEAM) == 0)
        return refuse(err,
                      "the token is a key of an Atoll; set api_url to http://HOST:PORT" FACADE);
    if (asprintf(&p->scope, "%s %s", is_set(c->team) ? c->team : "-",
                 is_set(c->project) ? c->project : "-") < 0) {
        p->scope = NULL;
        return atoll_fail_errno(err, ENOMEM, "vercel");
    }
    if (!atoll_vercel_read_scope(p->scope, &checked))
        return refuse(err, "team and project must be of letters, digits, '-' and '_'");
    p->remote.api.scope = p->scope;
    return 0;
}

/* Another Atoll serves the ports of its sandboxes at its own address. */
static int take_sandbox_url(struct atoll_vercel_provider *p,
                            const struct atoll_vercel_provider_config *c, struct atoll_error *err)
{
    size_t n = strlen(p->remote.api.url), suffix = sizeof(FACADE) - 1;

    if (is_set(c->sandbox_url))
        return atoll_remote_take_url("vercel", "sandbox_url", c->sandbox_url, &p->sandbox_url, err);
    if (n <= suffix || strcmp(p->remote.api.url + n - suffix, FACADE) != 0)
        return 0;
    p->sandbox_url = strndup(p->remote.api.url, n - suffix);
    return p->sandbox_url ? 0 : atoll_fail_errno(err, ENOMEM, "vercel");
}

static int take_texts(struct atoll_vercel_provider *p, const struct atoll_vercel_provider_config *c,
                      struct atoll_error *err)
{
    int r = atoll_remote_take_url("vercel", "api_url",
                                  is_set(c->common.api_url) ? c->common.api_url : CLOUD,
                                  &p->remote.api.url, err);

    if (r == 0)
        r = take_sandbox_url(p, c, err);
    if (r == 0)
        r = take_scope(p, c, err);
    if (r == 0)
        r = atoll_remote_take_text(c->common.template_id, "", &p->template_id, err);
    return r < 0 ? r : atoll_remote_take_text(c->common.region, "", &p->region, err);
}

static const struct atoll_remote_kind kind = {
    .ops = &ops,
    .remote_ops = &atoll_vercel_remote_ops,
    .service = &atoll_vercel_service,
    .key_env = "VERCEL_TOKEN",
    .form = ATOLL_REMOTE_TGZ,
};

int atoll_vercel_provider_new(const struct atoll_vercel_provider_config *config,
                              struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct atoll_vercel_provider *p = calloc(1, sizeof(*p));
    struct atoll_remote_config common = config->common;
    int r;

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "vercel");
    p->relay_port = config->relay_port ? config->relay_port : RELAY_PORT;
    p->max_vcpus = config->max_vcpus;
    if (common.timeout_s == 0)
        common.timeout_s = LEASE_S;
    common.size_count = 0;
    r = take_texts(p, config, err);
    if (r == 0)
        r = atoll_remote_provider_init(&p->remote, &kind, &common,
                                       is_set(common.api_url) ? ops.caps.isolation : "microvm",
                                       err);
    if (r < 0)
        (void)provider_free(&p->remote.base);
    else
        *ret = &p->remote.base;
    return r;
}
