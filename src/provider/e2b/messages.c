#include "provider/e2b/messages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"

/* Answers. */

int atoll_e2b_read_remote(const json_t *answer, struct atoll_e2b_remote *ret,
                          struct atoll_error *err)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    struct atoll_e2b_remote r = {0};

    if (!atoll_remote_take_field(answer, "sandboxID", r.of.handle, sizeof(r.of.handle)) ||
        !r.of.handle[0] || !atoll_remote_is_made_of(r.of.handle, "-_") ||
        !atoll_remote_take_field(answer, "envdAccessToken", r.token, sizeof(r.token)) ||
        !atoll_remote_is_token(r.token) ||
        !atoll_remote_take_field(answer, "domain", r.domain, sizeof(r.domain)) ||
        !atoll_remote_is_made_of(r.domain, "-.:"))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "the service's answer does not describe a sandbox");
    atoll_remote_take_id(json_object_get(answer, "metadata"), r.of.id);
    if (state && strcmp(state, "paused") == 0)
        r.of.state = ATOLL_REMOTE_PAUSED;
    *ret = r;
    return 0;
}

int atoll_e2b_read_sample(const json_t *answer, struct atoll_e2b_sample *ret)
{
    size_t count = json_array_size(answer);
    const json_t *last = count > 0 ? json_array_get(answer, count - 1) : NULL;
    double percent;

    if (!json_is_object(last))
        return -ENODATA;
    *ret =
        (struct atoll_e2b_sample){.memory_bytes = atoll_remote_take_count(last, "memUsed"),
                                  .memory_total_bytes = atoll_remote_take_count(last, "memTotal"),
                                  .disk_bytes = atoll_remote_take_count(last, "diskUsed"),
                                  .disk_total_bytes = atoll_remote_take_count(last, "diskTotal"),
                                  .cpus = (double)atoll_remote_take_count(last, "cpuCount")};
    percent = json_number_value(json_object_get(last, "cpuUsedPct"));
    ret->cpu_percent = percent > 0 && percent < 1e6 ? percent : 0;
    return 0;
}

/* Refusals. */

static const struct atoll_remote_rule rules[] = {
    {401, NULL, ATOLL_ERR_UNAUTHENTICATED, EACCES,
     "set api_key_env or api_key_file of this provider"},
};
const struct atoll_remote_service atoll_e2b_service = {
    .name = "the E2B service",
    .label = "e2b",
    .key_header = "X-API-Key: ",
    .credential = "e2b.apiKey",
    .rules = rules,
    .rule_count = ATOLL_ARRAY_LEN(rules),
};

uint32_t atoll_e2b_most_hours(const char *body, size_t n)
{
    static const char before[] = "cannot be greater than ";
    ATOLL_AUTOFREE char *words = atoll_remote_text(body, n, "message", NULL);
    const char *at = words ? strstr(words, before) : NULL;
    unsigned long hours = at ? strtoul(at + sizeof(before) - 1, NULL, 10) : 0;

    return hours > 0 && hours < 24 * 366 ? (uint32_t)hours : 0;
}

/* Requests. */

json_t *atoll_e2b_create_message(const struct atoll_e2b_create_params *request)
{
    return json_pack("{s:s,s:I,s:b,s:b,s:o,s:o,s:O*}", "templateID", request->template_id,
                     "timeout", (json_int_t)request->timeout_s, "secure", 1,
                     "allow_internet_access", request->internet, "metadata", request->metadata,
                     "envVars", request->env, "network", request->network);
}

int atoll_e2b_envelope(struct atoll_buf *out, const char *message)
{
    size_t n = strlen(message);
    const uint8_t head[] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                            (uint8_t)n};
    int r = n <= ATOLL_E2B_MESSAGE_MAX ? atoll_buf_append(out, head, sizeof(head)) : -EMSGSIZE;

    return r < 0 ? r : atoll_buf_append(out, message, n);
}

json_t *atoll_e2b_start_message(const char *cmd, const char *const *args, bool with_stdin)
{
    json_t *list = json_array();

    for (; list && *args; args++)
        if (json_array_append_new(list, json_string(*args)) < 0) {
            json_decref(list);
            return NULL;
        }
    return json_pack("{s:{s:s,s:o,s:{},s:s},s:b}", "process", "cmd", cmd, "args", list, "envs",
                     "cwd", "/", "stdin", with_stdin);
}

int atoll_e2b_input_message(struct atoll_buf *out, uint32_t pid, const void *bytes, size_t n)
{
    int r = atoll_buf_appendf(out, "{\"process\":{\"pid\":%u},\"input\":{\"stdin\":\"", pid);

    if (r == 0)
        r = atoll_base64_encode(out, bytes, n);
    return r < 0 ? r : atoll_buf_appends(out, "\"}}");
}

json_t *atoll_e2b_close_message(uint32_t pid)
{
    return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)pid);
}

json_t *atoll_e2b_kill_message(uint32_t pid)
{
    return json_pack("{s:{s:I},s:s}", "process", "pid", (json_int_t)pid, "signal",
                     "SIGNAL_SIGKILL");
}
