#include "provider/e2b/messages.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/text.h"

/* Answers. */

/* Handles and domains become part of URLs, tokens become part of headers. */
static bool is_made_of(const char *text, const char *more)
{
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr(more, *text))
            return false;
    return true;
}

static bool is_token(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* Absent or null: "". */
static bool take_text(const json_t *object, const char *name, char *out, size_t cap)
{
    const json_t *value = json_object_get(object, name);

    if (!value || json_is_null(value))
        return true;
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value) &&
           atoll_text_copy(out, cap, json_string_value(value)) == 0;
}

int atoll_e2b_read_remote(const json_t *answer, struct atoll_e2b_remote *ret,
                          struct atoll_error *err)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    const json_t *metadata = json_object_get(answer, "metadata");
    struct atoll_e2b_remote r = {0};

    if (!take_text(answer, "sandboxID", r.handle, sizeof(r.handle)) || !r.handle[0] ||
        !is_made_of(r.handle, "-_") ||
        !take_text(answer, "envdAccessToken", r.token, sizeof(r.token)) || !is_token(r.token) ||
        !take_text(answer, "domain", r.domain, sizeof(r.domain)) || !is_made_of(r.domain, "-.:"))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "the service's answer does not describe a sandbox");
    if (!take_text(metadata, "atoll_id", r.id, sizeof(r.id)) || !atoll_text_is_id(r.id))
        r.id[0] = '\0';
    r.paused = state && strcmp(state, "paused") == 0;
    *ret = r;
    return 0;
}

static uint64_t take_count(const json_t *object, const char *name)
{
    double value = json_number_value(json_object_get(object, name));

    return value > 0 && value < 1e18 ? (uint64_t)value : 0;
}

int atoll_e2b_read_sample(const json_t *answer, struct atoll_e2b_sample *ret)
{
    size_t count = json_array_size(answer);
    const json_t *last = count > 0 ? json_array_get(answer, count - 1) : NULL;
    double percent;

    if (!json_is_object(last))
        return -ENODATA;
    *ret = (struct atoll_e2b_sample){.memory_bytes = take_count(last, "memUsed"),
                                     .memory_total_bytes = take_count(last, "memTotal"),
                                     .disk_bytes = take_count(last, "diskUsed"),
                                     .disk_total_bytes = take_count(last, "diskTotal"),
                                     .cpus = (double)take_count(last, "cpuCount")};
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

/* The caller's metadata, as far as the values are strings. */
static json_t *metadata_of(const struct atoll_e2b_create_params *request)
{
    json_t *all = request->metadata_json ? json_loads(request->metadata_json, 0, NULL) : NULL;
    json_t *value;
    const char *name;
    void *next;

    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    json_object_foreach_safe(all, next, name, value)
    {
        if (!json_is_string(value))
            (void)json_object_del(all, name);
    }
    if (json_object_set_new(all, "atoll_id", json_string(request->id)) < 0 ||
        json_object_set_new(all, "atoll_daemon", json_string(request->daemon_id)) < 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static json_t *env_of(const char *const *env)
{
    json_t *all = json_object();

    for (; all && env && *env; env++) {
        const char *equals = strchr(*env, '=');
        ATOLL_AUTOFREE char *name = equals ? strndup(*env, (size_t)(equals - *env)) : NULL;

        /* Values that are not UTF-8 cannot be sent; the agent gives them to commands all the
         * same. */
        if (name && *name)
            (void)json_object_set_new(all, name, json_string(equals + 1));
    }
    return all;
}

json_t *atoll_e2b_create_message(const struct atoll_e2b_create_params *request)
{
    json_t *metadata = metadata_of(request), *env = env_of(request->env);

    return json_pack("{s:s,s:I,s:b,s:b,s:o,s:o,s:O*}", "templateID", request->template_id,
                     "timeout", (json_int_t)request->timeout_s, "secure", 1,
                     "allow_internet_access", request->internet, "metadata", metadata, "envVars",
                     env, "network", request->network);
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
