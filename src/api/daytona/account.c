/*
 * What clients ask about the service itself and about themselves. There is one region; the tenant of a
 * key is its organization.
 */
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "api/preview.h"

#define BEGINNING "2026-01-01T00:00:00.000Z" /* for objects that clients did not create */

void atoll_daytona_health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "status", "ok");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* The members that clients generated from Daytona's description insist on. There is no identity provider. */
static void write_login(struct atoll_json_out *out)
{
    static const char *const members[] = {"issuer", "clientId", "audience", "provider"};

    atoll_json_open(out, "oidc", '{');
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(members); i++)
        atoll_json_text(out, members[i], "");
    atoll_json_close(out, '}');
    atoll_json_bool(out, "linkedAccountsEnabled", false);
    atoll_json_open(out, "announcements", '{');
    atoll_json_close(out, '}');
}

/* Without analyticsApiUrl: clients then ask this daemon for measurements. */
void atoll_daytona_config(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    char origin[ATOLL_ORIGIN_MAX], url[ATOLL_PREVIEW_URL_MAX];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "version", ATOLL_DAYTONA_VERSION);
    (void)snprintf(url, sizeof(url), "%s" ATOLL_DAYTONA_BASE "/toolbox", origin);
    atoll_json_text(&out, "proxyToolboxUrl", url);
    atoll_daytona_preview_template(call->api, url, sizeof(url));
    atoll_json_text(&out, "proxyTemplateUrl", url);
    write_login(&out);
    atoll_json_text(&out, "dashboardUrl", origin);
    atoll_json_text(&out, "defaultSnapshot", "daytona-small");
    atoll_json_u64(&out, "maxAutoArchiveInterval", 43200);
    atoll_json_bool(&out, "maintananceMode", false);
    atoll_json_text(&out, "environment", "atoll");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* The region. */

void atoll_daytona_regions(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "id", ATOLL_DAYTONA_REGION);
    atoll_json_text(&out, "name", ATOLL_DAYTONA_REGION);
    atoll_json_null(&out, "organizationId");
    atoll_json_text(&out, "regionType", "shared");
    atoll_json_text(&out, "createdAt", BEGINNING);
    atoll_json_text(&out, "updatedAt", BEGINNING);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

/* The organization. */

static void write_quotas(struct atoll_json_out *out, const struct atoll_api_call *call)
{
    struct atoll_usage usage;

    atoll_engine_usage(call->engine, call->caller.tenant, &usage);
    atoll_json_u64(out, "maxMemoryPerSandbox", usage.promised_most[0] >> 30);
    atoll_json_u64(out, "maxCpuPerSandbox", usage.promised_most[1] / 1000);
    atoll_json_u64(out, "maxDiskPerSandbox", usage.promised_most[2] >> 30);
}

/* What an organization cannot have here. Clients generated from Daytona's description insist on these members, and
 * on dates where nothing happened. */
static void write_absent(struct atoll_json_out *out)
{
    static const char *const dates[] = {"suspendedAt", "suspendedUntil"};
    static const char *const numbers[] = {"suspensionCleanupGracePeriodHours", "secretQuota",
                                          "maxSecretsPerSandbox",
                                          "snapshotDeactivationTimeoutMinutes"};
    static const char *const flags[] = {"suspended", "sandboxLimitedNetworkEgress",
                                        "previewWarningEnabled", "ssoEnabled", "scimEnabled"};
    static const char *const nulls[] = {"defaultQueueTimeout",
                                        "authenticatedRateLimit",
                                        "sandboxCreateRateLimit",
                                        "sandboxLifecycleRateLimit",
                                        "otelConfig",
                                        "authenticatedRateLimitTtlSeconds",
                                        "sandboxCreateRateLimitTtlSeconds",
                                        "sandboxLifecycleRateLimitTtlSeconds"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dates); i++)
        atoll_json_text(out, dates[i], BEGINNING);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++)
        atoll_json_u64(out, numbers[i], 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(flags); i++)
        atoll_json_bool(out, flags[i], false);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(nulls); i++)
        atoll_json_null(out, nulls[i]);
    atoll_json_open(out, "experimentalConfig", '{');
    atoll_json_close(out, '}');
}

static void write_organization(struct atoll_json_out *out, const struct atoll_api_call *call)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", call->caller.tenant);
    atoll_json_text(out, "name", call->caller.tenant);
    atoll_json_text(out, "createdBy", call->caller.tenant);
    atoll_json_bool(out, "personal", true);
    atoll_json_text(out, "createdAt", BEGINNING);
    atoll_json_text(out, "updatedAt", BEGINNING);
    atoll_json_text(out, "suspensionReason", "");
    write_absent(out);
    write_quotas(out, call);
    atoll_json_text(out, "defaultRegionId", ATOLL_DAYTONA_REGION);
    atoll_json_close(out, '}');
}

void atoll_daytona_organizations(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    write_organization(&out, call);
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_organization(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (strcmp(call->params.template, call->caller.tenant) != 0) {
        atoll_daytona_refuse(call, 404, NULL, "Organization with ID %.64s not found",
                             call->params.template);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    write_organization(&out, call);
    atoll_api_reply(call, 200, &out);
}

/* The key of the request; its text is not stored. */

static void write_key(struct atoll_json_out *out, const struct atoll_api_call *call)
{
    static const char *const writes[] = {"write:snapshots",  "delete:snapshots", "write:sandboxes",
                                         "delete:sandboxes", "write:volumes",    "delete:volumes"};

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "name", *call->caller.key_id ? call->caller.key_id : "local");
    atoll_json_text(out, "value", "********");
    atoll_json_text(out, "createdAt", BEGINNING);
    atoll_json_open(out, "permissions", '[');
    atoll_json_text(out, NULL, "read:volumes");
    for (size_t i = 0; call->caller.scope >= ATOLL_SCOPE_WRITE && i < ATOLL_ARRAY_LEN(writes); i++)
        atoll_json_text(out, NULL, writes[i]);
    atoll_json_close(out, ']');
    atoll_json_null(out, "lastUsedAt");
    atoll_json_null(out, "expiresAt");
    atoll_json_text(out, "userId", call->caller.tenant);
    atoll_json_close(out, '}');
}

void atoll_daytona_current_key(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    write_key(&out, call);
    atoll_api_reply(call, 200, &out);
}
