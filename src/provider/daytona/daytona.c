#include "provider/daytona/daytona.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "provider/daytona/daytona_internal.h"

#define CLOUD "https://app.daytona.io/api"

/* The service answers and accepts the key, if the provider has one. */
static int health(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                  char *detail, size_t cap, struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    const char *snapshot = atoll_daytona_of_remote(p)->snapshot;
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    int64_t began_ms = atoll_clock_ms();
    int r = atoll_remote_api_json(&p->api, call, "health", "GET",
                                  p->key ? "/sandbox?limit=1" : "/health", NULL, &json, err);

    if (r < 0)
        return r;
    if (p->key && !json_is_array(json) && !json_is_array(json_object_get(json, "items")))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "health: the service does not speak Daytona's protocol");
    (void)snprintf(detail, cap, "snapshot %s, answers in %lld ms", *snapshot ? snapshot : "default",
                   (long long)(atoll_clock_ms() - began_ms));
    return 0;
}

static struct atoll_sync_provider *provider_free(struct atoll_sync_provider *base)
{
    struct atoll_daytona_provider *p = atoll_daytona_of_remote(atoll_remote_of(base));

    atoll_remote_provider_done(&p->remote);
    free(p->toolbox_url);
    free(p->snapshot);
    free(p->target);
    free(p->user);
    free(p);
    return NULL;
}

static const struct atoll_sync_ops ops = {
    .name = "daytona",
    .caps = {.isolation = "unknown",
             .remote = true,
             .own_templates = true,
             .stats = true,
             .policies = true,
             .set_network = true,
             .networks = 1u << ATOLL_NETWORK_NONE | 1u << ATOLL_NETWORK_BRIDGE},
    .missing_limits = atoll_remote_missing_limits,
    ATOLL_REMOTE_OPERATIONS,
    .pause = atoll_daytona_op_pause,
    .resume = atoll_daytona_op_resume,
    .stats = atoll_daytona_op_stats,
    .set_network = atoll_daytona_op_set_network,
    .public_host = atoll_daytona_op_public_host,
    .health = health,
    .free = provider_free,
};

/* The config. */

static bool is_set(const char *text)
{
    return text && *text;
}

static int take_texts(struct atoll_daytona_provider *p,
                      const struct atoll_daytona_provider_config *c, struct atoll_error *err)
{
    int r = atoll_remote_take_url("daytona", "api_url",
                                  is_set(c->common.api_url) ? c->common.api_url : CLOUD,
                                  &p->remote.api.url, err);

    if (r == 0 && is_set(c->toolbox_url))
        r = atoll_remote_take_url("daytona", "toolbox_url", c->toolbox_url, &p->toolbox_url, err);
    if (r == 0)
        r = atoll_remote_take_text(c->common.template_id, "", &p->snapshot, err);
    if (r == 0)
        r = atoll_remote_take_text(c->common.region, "", &p->target, err);
    return r < 0 ? r : atoll_remote_take_text(c->user, "", &p->user, err);
}

static const struct atoll_remote_kind kind = {
    .ops = &ops,
    .remote_ops = &atoll_daytona_remote_ops,
    .service = &atoll_daytona_service,
    .key_env = "DAYTONA_API_KEY",
};

int atoll_daytona_provider_new(const struct atoll_daytona_provider_config *config,
                               struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct atoll_daytona_provider *p = calloc(1, sizeof(*p));
    int r;

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "daytona");
    p->is_public = config->is_public;
    r = take_texts(p, config, err);
    if (r == 0)
        r = atoll_remote_header(&p->remote.api.headers, err, "X-Daytona-Source: atoll");
    if (r == 0)
        r = atoll_remote_provider_init(
            &p->remote, &kind, &config->common,
            is_set(config->common.api_url) ? ops.caps.isolation : "container", err);
    p->remote.ops.caps.pause = config->pause;
    if (r < 0)
        (void)provider_free(&p->remote.base);
    else
        *ret = &p->remote.base;
    return r;
}
