#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/json_out.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "base/text.h"
#include "guard/guard.h"

/*
 * The life of a call. A cancelled call lives until the callback of what it waits for has come.
 */
static void call_free(struct atoll_tool_call *call)
{
    (void)atoll_tool_unref(call->tool);
    json_decref(call->args);
    free(call->outside);
    free(call->inside);
    free(call->image);
    free(call->command);
    free(call);
}

/* The call is freed by atoll_tool_start() if it ends while it starts. */
void atoll_tool_deliver(struct atoll_tool_call *call, const struct atoll_tool_result *result,
                        const struct atoll_error *error)
{
    if (!call->cancelled)
        call->done(call->arg, result, error);
    call->finished = true;
    if (!call->starting)
        call_free(call);
}

/* The tool has ended; the guard sees its result first. */
static void end(struct atoll_tool_call *call, const struct atoll_tool_result *result,
                const struct atoll_error *error)
{
    call->phase = ATOLL_TOOL_HAS_RUN;
    if (call->guarded && error)
        atoll_guard_call_fail(ATOLL_TAKE_PTR(call->guarded), error);
    else if (call->guarded)
        call->image = result->image ? strdup(result->image) : NULL;
    if (call->guarded)
        atoll_guard_call_end(call->guarded, result->text, result->data, result->is_error);
    else
        atoll_tool_deliver(call, result, error);
}

/* Bytes that are not UTF-8, and NUL, become U+FFFD. */
static void make_valid(struct atoll_buf *out, const uint8_t *p, size_t n)
{
    atoll_buf_init(out, 3 * n + 1);
    for (size_t i = 0; i < n;) {
        size_t len = p[i] == 0 ? 0 : p[i] < 0x80 ? 1 : atoll_text_utf8_len(p + i, n - i);

        if (len > 0)
            (void)!atoll_buf_append(out, p + i, len);
        else
            (void)!atoll_buf_appends(out, "\xef\xbf\xbd");
        i += ATOLL_MAX(len, (size_t)1);
    }
}

json_t *atoll_tool_json_bytes(const void *bytes, size_t n)
{
    struct atoll_buf valid;
    json_t *text;

    make_valid(&valid, bytes, n);
    text = json_string(atoll_buf_str(&valid));
    atoll_buf_done(&valid);
    return text;
}

void atoll_tool_finish_image(struct atoll_tool_call *call, struct atoll_buf *text, json_t *data,
                             bool is_error, const char *image)
{
    struct atoll_buf valid;

    make_valid(&valid, atoll_buf_head(text), atoll_buf_size(text));
    end(call,
        &(struct atoll_tool_result){
            .text = atoll_buf_str(&valid), .data = data, .is_error = is_error, .image = image},
        NULL);
    atoll_buf_done(&valid);
    atoll_buf_done(text);
    json_decref(data);
}

void atoll_tool_finish(struct atoll_tool_call *call, struct atoll_buf *text, json_t *data,
                       bool is_error)
{
    atoll_tool_finish_image(call, text, data, is_error, NULL);
}

void atoll_tool_fail(struct atoll_tool_call *call, const struct atoll_error *error)
{
    end(call, NULL, error);
}

void atoll_tool_refuse(struct atoll_tool_call *call, enum atoll_error_kind kind, const char *fmt,
                       ...)
{
    char text[ATOLL_ERROR_TEXT_MAX];
    struct atoll_error error;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)atoll_fail(&error, kind, EINVAL, "%s", text);
    atoll_tool_fail(call, &error);
}

struct atoll_tool_call *atoll_tool_start(const struct atoll_tool_request *request)
{
    struct atoll_tool_call *call = atoll_alloc(sizeof(*call));

    *call = (struct atoll_tool_call){
        .api = request->api,
        .engine = request->api->config.engine,
        .loop = request->api->config.loop,
        .tool = atoll_tool_ref(request->tool),
        .args = request->args,
        .outside = request->outside ? strdup(request->outside) : NULL,
        .inside = request->inside ? strdup(request->inside) : NULL,
        .starting = true,
        .done = request->done,
        .arg = request->arg,
    };
    (void)snprintf(call->tenant, sizeof(call->tenant), "%s", request->tenant);
    (void)snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", request->sandbox_id);
    (void)json_object_del(call->args, "sandbox"); /* of MCP: it is sandbox_id */
    atoll_tool_guard(call);
    call->starting = false;
    if (!call->finished)
        return call;
    call_free(call);
    return NULL;
}

void atoll_tool_cancel(struct atoll_tool_call *call)
{
    call->cancelled = true;
    if (call->guarded)
        atoll_guard_call_drop(ATOLL_TAKE_PTR(call->guarded));
    if (call->phase != ATOLL_TOOL_RUNS)
        call_free(call); /* only the guard had work to do */
    else if (call->stop)
        call->stop(call);
}

/* Arguments. */

const char *atoll_tool_text(const struct atoll_tool_call *call, const char *name)
{
    return json_string_value(json_object_get(call->args, name));
}

uint64_t atoll_tool_whole(const struct atoll_tool_call *call, const char *name, uint64_t otherwise)
{
    const json_t *value = json_object_get(call->args, name);

    return value ? (uint64_t)json_number_value(value) : otherwise;
}

bool atoll_tool_flag(const struct atoll_tool_call *call, const char *name)
{
    return json_is_true(json_object_get(call->args, name));
}

char **atoll_tool_variables(const json_t *env)
{
    char **strings = atoll_alloc((json_object_size(env) + 1) * sizeof(*strings));
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach((json_t *)env, name, value)
    {
        if (asprintf(&strings[n], "%s=%s", name, json_string_value(value)) < 0)
            abort(); /* small objects: the daemon is crash-only */
        n++;
    }
    return strings;
}

void atoll_tool_variables_free(char **variables)
{
    for (char **v = variables; v && *v; v++) {
        explicit_bzero(*v, strlen(*v)); /* they may be secrets */
        free(*v);
    }
    free(variables);
}

/* Paths. */

/* What follows the directory in a path; NULL: the path is not below it. */
static const char *below(const char *path, const char *directory)
{
    size_t n = strlen(directory);

    while (n > 1 && directory[n - 1] == '/')
        n--;
    if (strncmp(path, directory, n) != 0 || (path[n] && path[n] != '/' && directory[n - 1] != '/'))
        return NULL;
    return path + n;
}

static bool climbs(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += strspn(part, "/");
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2]))
            return true;
    }
    return false;
}

int atoll_tool_path(const struct atoll_tool_call *call, const char *given,
                    char out[static ATOLL_TOOL_PATH_MAX], struct atoll_error *err)
{
    const char *rest = given, *base = "", *slash = "";
    int n;

    if (call->outside && *given == '/') {
        rest = below(given, call->outside);
        base = call->inside;
    } else if (call->outside) {
        base = call->inside;
        slash = "/";
    }
    if (!rest || (call->outside && climbs(rest)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"%.200s\" is not below %s: only that directory is mapped", given,
                          call->outside);
    n = snprintf(out, ATOLL_TOOL_PATH_MAX, "%s%s%s", base, slash, rest);
    return n > 0 && n < ATOLL_TOOL_PATH_MAX
               ? 0
               : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                            "a path must have 1 to %d bytes", ATOLL_TOOL_PATH_MAX - 1);
}

int atoll_tool_show_path(const struct atoll_tool_call *call, const char *path,
                         struct atoll_buf *out)
{
    const char *rest = call->inside ? below(path, call->inside) : NULL;

    return rest ? atoll_buf_appendf(out, "%s%s", call->outside, rest)
                : atoll_buf_append(out, path, strlen(path));
}

#define DATA_TEXT_MAX ((size_t)256 * 1024)

void atoll_tool_finish_json(struct atoll_tool_call *call, json_t *data, bool is_error)
{
    char *dumped = data ? json_dumps(data, JSON_INDENT(2)) : NULL;
    struct atoll_buf text;

    atoll_buf_init(&text, DATA_TEXT_MAX);
    if (dumped && atoll_buf_appends(&text, dumped) < 0)
        (void)!atoll_buf_appendf(&text, "%zu bytes of JSON: they are in the structured result",
                                 strlen(dumped));
    free(dumped);
    atoll_tool_finish(call, &text, data, is_error);
}

void atoll_tool_finish_data(struct atoll_tool_call *call, json_t *data)
{
    atoll_tool_finish_json(call, data, false);
}
