#include "client/result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define STATUS_TIMED_OUT 124
#define STATUS_LOST 125
#define STATUS_OUT_OF_MEMORY 137

struct result {
    struct atoll_client_result public; /* first: what the caller has a pointer to */
    json_t *record;                    /* owned */
    char *json;                        /* owned */
    char sandbox_id[ATOLL_LINK_ID_MAX], exec_id[ATOLL_LINK_ID_MAX];
    struct atoll_buf captured[ATOLL_CLIENT_STREAMS];
};

static const struct {
    const char *name;
    enum atoll_client_end end;
} ends[] = {
    {"exited", ATOLL_CLIENT_EXITED},
    {"signaled", ATOLL_CLIENT_SIGNALED},
    {"timed_out", ATOLL_CLIENT_TIMED_OUT},
    {"oom_killed", ATOLL_CLIENT_OOM_KILLED},
    {"killed_by", ATOLL_CLIENT_KILLED_BY},
    /* Last: used for unknown kinds, too. */
    {"lost", ATOLL_CLIENT_LOST},
};

static enum atoll_client_end end_of(const json_t *record)
{
    const char *kind = atoll_link_text(record, "kind", "");
    size_t i = 0;

    while (i + 1 < ATOLL_ARRAY_LEN(ends) && strcmp(ends[i].name, kind) != 0)
        i++;
    return ends[i].end;
}

static int exit_code_of(const json_t *record)
{
    double code = atoll_link_number(record, "exit_code", -1);
    return code >= 0 && code <= 255 ? (int)code : -1;
}

int atoll_result_status(const json_t *record)
{
    int signo = atoll_link_signal_number(json_object_get(record, "signal"));
    int code = exit_code_of(record);

    switch (end_of(record)) {
    case ATOLL_CLIENT_EXITED:
        return code >= 0 ? code : STATUS_LOST;
    case ATOLL_CLIENT_SIGNALED:
    case ATOLL_CLIENT_KILLED_BY:
        return 128 + (signo > 0 ? signo : SIGKILL);
    case ATOLL_CLIENT_TIMED_OUT:
        return STATUS_TIMED_OUT;
    case ATOLL_CLIENT_OOM_KILLED:
        return STATUS_OUT_OF_MEMORY;
    case ATOLL_CLIENT_LOST:
        break;
    }
    return STATUS_LOST;
}

int atoll_result_stream_number(const char *name)
{
    if (strcmp(name, "stdout") == 0)
        return ATOLL_CLIENT_STDOUT;
    return strcmp(name, "stderr") == 0 ? ATOLL_CLIENT_STDERR : 0;
}

static void fill(struct result *result)
{
    struct atoll_client_result *p = &result->public;
    const json_t *record = result->record;
    const json_t *usage = json_object_get(record, "usage"), *oom = json_object_get(record, "oom");

    p->end = end_of(record);
    p->exit_code = p->end == ATOLL_CLIENT_EXITED ? exit_code_of(record) : -1;
    /* A record "exited" without an exit code: the outcome is unknown. */
    if (p->end == ATOLL_CLIENT_EXITED && p->exit_code < 0)
        p->end = ATOLL_CLIENT_LOST;
    p->signal = atoll_link_signal_number(json_object_get(record, "signal"));
    p->who = atoll_link_text(record, "who", "");
    p->reason = atoll_link_text(record, "reason", "");
    p->status = atoll_result_status(record);
    p->sandbox_id = result->sandbox_id;
    p->exec_id = result->exec_id;
    p->duration_seconds = atoll_link_number(record, "duration_ms", 0) / 1000;
    p->user_seconds = atoll_link_number(usage, "user_seconds", 0);
    p->system_seconds = atoll_link_number(usage, "system_seconds", 0);
    p->max_rss_bytes = atoll_link_count(usage, "max_rss_bytes");
    p->oom.process = atoll_link_text(oom, "process", "");
    p->oom.pid = (int)ATOLL_MIN(atoll_link_count(oom, "pid"), (uint64_t)INT32_MAX);
    p->oom.peak_bytes = atoll_link_count(oom, "peak_bytes");
    p->oom.limit_bytes = atoll_link_count(oom, "limit_bytes");
    p->json = result->json;
}

/* Moves captured output into the result; "" for a stream that was not captured. */
static void fill_output(struct result *result, struct atoll_buf *captured, const bool *truncated)
{
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++) {
        struct atoll_client_output *out = &result->public.output[i];
        struct atoll_buf *buf = &result->captured[i];
        if (captured) {
            *buf = captured[i];
            atoll_buf_init(&captured[i], 0);
        }
        out->size = atoll_buf_size(buf);
        out->bytes = out->size > 0 ? atoll_buf_str(buf) : "";
        out->truncated = truncated && truncated[i];
    }
}

int atoll_result_new(const json_t *record, const char *sandbox_id, const char *exec_id,
                     struct atoll_buf *captured, const bool *truncated,
                     struct atoll_client_result **ret_result, struct atoll_error *err)
{
    struct result *result = calloc(1, sizeof(*result));

    if (result) {
        result->record = json_deep_copy(record);
        result->json = json_dumps(record, JSON_COMPACT);
    }
    if (!result || !result->record || !result->json) {
        atoll_client_result_free(result ? &result->public : NULL);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the result");
    }
    (void)snprintf(result->sandbox_id, sizeof(result->sandbox_id), "%s", sandbox_id);
    (void)snprintf(result->exec_id, sizeof(result->exec_id), "%s", exec_id);
    fill(result);
    fill_output(result, captured, truncated);
    *ret_result = &result->public;
    return 0;
}

void atoll_client_result_free(struct atoll_client_result *public)
{
    struct result *result = (struct result *)public;

    if (!result)
        return;
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++)
        atoll_buf_done(&result->captured[i]);
    json_decref(result->record);
    free(result->json);
    free(result);
}
