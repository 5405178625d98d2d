/*
 * GET /api/quota: usage and limits of the caller's tenant. With ?all=true, of all tenants together.
 */
#include "api/api_internal.h"
#include "api/rest/rest_internal.h"
#include "engine/network/secrets.h"

static void write_pair(struct atoll_json_out *out, const char *key, double used, double most)
{
    atoll_json_open(out, key, '{');
    atoll_json_double(out, "used", used, 15);
    if (most > 0)
        atoll_json_double(out, "most", most, 15);
    else
        atoll_json_null(out, "most");
    atoll_json_close(out, '}');
}

/* Other than above, 0 is a limit. */
static void write_secrets(struct atoll_json_out *out, const struct atoll_secrets *secrets,
                          const char *tenant)
{
    atoll_json_open(out, "secrets", '{');
    atoll_json_u64(out, "used", atoll_secrets_count(secrets, tenant));
    if (tenant)
        atoll_json_u64(out, "most", atoll_secrets_most(secrets));
    else
        atoll_json_null(out, "most");
    atoll_json_close(out, '}');
}

void atoll_rest_quota(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                      size_t n ATOLL_UNUSED)
{
    static const struct {
        const char *field;
        double unit;
    } promises[] = {{"memoryMB", 1048576}, {"cpuCores", 1000}, {"diskMB", 1048576}};
    const char *tenant = atoll_api_list_tenant(call);
    struct atoll_usage u;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_engine_usage(call->engine, tenant, &u);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (tenant)
        atoll_json_text(&out, "tenant", tenant);
    else
        atoll_json_null(&out, "tenant");
    write_pair(&out, "sandboxes", (double)u.sandboxes, (double)u.sandboxes_most);
    write_pair(&out, "creates", u.creates, u.creates_most);
    write_pair(&out, "execs", u.execs, u.execs_most);
    atoll_json_u64(&out, "waiting", u.waiting);
    if (call->api->config.secrets)
        write_secrets(&out, call->api->config.secrets, tenant);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(promises); i++)
        write_pair(&out, promises[i].field, (double)u.promised[i] / promises[i].unit,
                   (double)u.promised_most[i] / promises[i].unit);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}
