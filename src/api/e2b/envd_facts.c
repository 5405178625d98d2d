/*
 * Information about the sandbox over plain HTTP: health, resource usage, environment.
 */
#include <string.h>
#include "api/e2b/envd.h"
#include "base/clock.h"
#include "engine/json_memory.h"

void atoll_envd_health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    atoll_api_reply_empty(call, 204);
}

static void on_stats(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view = {0};
    struct atoll_buf buf;
    struct atoll_json_out out;
    double cpus;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    cpus = ATOLL_MAX((double)view.options.limits.cpu_millis / 1000.0, 1.0);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_i64(&out, "ts", atoll_clock_unix_ms() / 1000);
    atoll_json_u64(&out, "cpu_count", (uint64_t)(cpus + 0.999));
    atoll_json_double(&out, "cpu_used_pct", stats->cpu_percent / cpus, 5);
    atoll_json_u64(&out, "mem_total", stats->memory_limit_bytes);
    atoll_json_u64(&out, "mem_used", stats->memory_bytes);
    atoll_json_u64(&out, "mem_cache", 0);
    atoll_json_u64(&out, "mem_total_mib", stats->memory_limit_bytes >> 20);
    atoll_json_u64(&out, "mem_used_mib", stats->memory_bytes >> 20);
    atoll_json_u64(&out, "disk_used", stats->disk_bytes);
    atoll_json_u64(&out, "disk_total", stats->disk_limit_bytes);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_envd_metrics(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    atoll_engine_stats(call->engine, call->params.id, on_stats, call);
}

static void put(json_t *object, const char *name, json_t *value)
{
    if (!value || json_object_set_new(object, name, value) < 0)
        json_decref(value); /* not UTF-8: cannot be sent in JSON */
}

/* Later entries win, as they do for a command. */
static void put_env(json_t *object, const char *const *env)
{
    for (size_t i = 0; env && env[i]; i++) {
        const char *equals = strchr(env[i], '=');
        char name[256];
        if (!equals || (size_t)(equals - env[i]) >= sizeof(name))
            continue;
        memcpy(name, env[i], (size_t)(equals - env[i]));
        name[equals - env[i]] = '\0';
        put(object, name, json_string(equals + 1));
    }
}

void atoll_envd_envs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_e2b_facts facts = {0};
    struct atoll_sandbox_view view = {0};
    json_t *object = json_object();
    char *text;

    if (sandbox) {
        atoll_sandbox_get(sandbox, &view);
        atoll_e2b_facts_get(sandbox, &facts);
    }
    put(object, "E2B_SANDBOX", json_string("true"));
    put(object, "E2B_SANDBOX_ID", json_string(call->params.id));
    put(object, "E2B_TEMPLATE_ID", json_string(facts.template_id));
    put_env(object, view.options.env);
    atoll_e2b_facts_done(&facts);
    text = atoll_json_dump(object, JSON_COMPACT);
    json_decref(object);
    if (!text)
        abort();
    atoll_api_reply_text(call, 200, "application/json", text, strlen(text));
    free(text);
}
