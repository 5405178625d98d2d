/*
 * Resource usage of sandboxes, from the engine's history. It starts at the creation of a sandbox
 * or, after a restart of the daemon, at the first request.
 */
#include <errno.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "base/text.h"

#define IDS_MAX 100

/* In percent of the limit: 100 is all of its CPUs. */
static double cpu_share(const struct atoll_sandbox_stats *stats, const struct atoll_limits *limits)
{
    return limits->cpu_millis ? stats->cpu_percent * 1000 / limits->cpu_millis : stats->cpu_percent;
}

static void view_sample(struct atoll_json_out *out, const char *key,
                        const struct atoll_history_sample *sample,
                        const struct atoll_sandbox_view *v)
{
    const struct atoll_sandbox_stats *s = &sample->stats;

    atoll_json_open(out, key, '{');
    atoll_json_time(out, "timestamp", sample->unix_ms);
    atoll_json_i64(out, "timestampUnix", sample->unix_ms / 1000);
    atoll_json_u64(out, "cpuCount", (v->options.limits.cpu_millis + 999) / 1000);
    atoll_json_double(out, "cpuUsedPct", cpu_share(s, &v->options.limits), 6);
    atoll_json_u64(out, "memUsed", s->memory_bytes);
    atoll_json_u64(out, "memTotal", v->options.limits.memory_bytes);
    /* The kernel counts cache as used memory of the sandbox; it is not shown separately. */
    atoll_json_u64(out, "memCache", 0);
    atoll_json_u64(out, "diskUsed", s->disk_bytes);
    atoll_json_u64(out, "diskTotal", v->options.limits.disk_bytes);
    atoll_json_close(out, '}');
}

void atoll_e2b_metrics(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    const uint64_t max = INT64_MAX / 1000 - 1;
    uint64_t start = 0, end = max;
    struct atoll_history_sample *samples;
    const struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t count;

    if (atoll_api_query_u64(call, "start", 0, max, &start, &error) < 0 ||
        atoll_api_query_u64(call, "end", 0, max, &end, &error) < 0 ||
        !(sandbox = atoll_e2b_find(call, &error))) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    atoll_engine_keep_history(call->engine, view.id);
    samples = atoll_api_alloc(ATOLL_HISTORY_SAMPLES * sizeof(*samples));
    count = atoll_engine_history(call->engine, view.id, (int64_t)start * 1000,
                                 (int64_t)end * 1000 + 999, samples, ATOLL_HISTORY_SAMPLES);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    for (size_t i = 0; i < count; i++)
        view_sample(&out, NULL, &samples[i], &view);
    atoll_json_close(&out, ']');
    free(samples);
    atoll_api_reply(call, 200, &out);
}

/* The latest sample of one sandbox. Sandboxes that do not exist, or belong to another tenant,
 * are omitted. */
static void view_latest(struct atoll_json_out *out, struct atoll_api_call *call, const char *id,
                        struct atoll_history_sample *samples)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, id);
    struct atoll_sandbox_view view;
    size_t count;

    if (!sandbox || !atoll_api_sees_sandbox(call, sandbox))
        return;
    atoll_sandbox_get(sandbox, &view);
    atoll_engine_keep_history(call->engine, view.id);
    count = atoll_engine_history(call->engine, view.id, 0, 0, samples, ATOLL_HISTORY_SAMPLES);
    if (count > 0)
        view_sample(out, view.id, &samples[count - 1], &view);
}

void atoll_e2b_metrics_of_many(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    const char *ids = atoll_http_query(call->req, "sandbox_ids");
    struct atoll_history_sample *samples;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t count = 0;

    for (const char *p = ids; p && *p; p++)
        count += *p == ',';
    if (!ids || count >= IDS_MAX) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "sandbox_ids must be 1 to %d ids, with commas between them", IDS_MAX);
        atoll_api_fail(call, &error);
        return;
    }
    samples = atoll_api_alloc(ATOLL_HISTORY_SAMPLES * sizeof(*samples));
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "sandboxes", '{');
    for (const char *p = ids; *p; p += *p == ',') {
        size_t len = strcspn(p, ","), id_len = strcspn(p, ",-");
        char id[33] = "";
        if (id_len < sizeof(id))
            memcpy(id, p, id_len);
        if (atoll_text_is_id(id))
            view_latest(&out, call, id, samples);
        p += len;
    }
    atoll_json_close(&out, '}');
    atoll_json_close(&out, '}');
    free(samples);
    atoll_api_reply(call, 200, &out);
}
