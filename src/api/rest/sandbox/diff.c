/*
 * What has changed between two moments of a sandbox.
 */
#include "engine/state/diff.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "api/rest/rest_internal.h"
#include "engine/json_memory.h"

#define LIMIT_DEFAULT 2000

struct diff {
    struct atoll_api_call *call;
    char from[ATOLL_TEMPLATE_REFERENCE_MAX + 1], to[ATOLL_TEMPLATE_REFERENCE_MAX + 1];
    bool patch;
};

/* Each line is an object; the last one has only the member "summary". False: a line is not JSON. */
static bool read_line(struct atoll_json_out *out, const char *line, size_t n, char **ret_summary)
{
    json_t *object = atoll_json_load(line, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *summary = json_object_get(object, "summary");
    char *text = summary  ? atoll_json_dump(summary, JSON_COMPACT)
                 : object ? atoll_json_dump(object, JSON_COMPACT)
                          : NULL;

    json_decref(object);
    if (text && !summary)
        atoll_json_raw(out, NULL, text);
    if (!text || !summary) {
        free(text);
        return text != NULL;
    }
    free(*ret_summary);
    *ret_summary = text;
    return true;
}

static bool write_changes(struct atoll_json_out *out, const char *bytes, size_t n,
                          char **ret_summary)
{
    const char *end = bytes + n;
    bool valid = true;

    atoll_json_open(out, "changes", '[');
    for (const char *line = bytes; valid && line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *next = newline ? newline : end;

        valid = read_line(out, line, (size_t)(next - line), ret_summary);
        line = next + 1;
    }
    atoll_json_close(out, ']');
    return valid && *ret_summary;
}

static void reply_json(struct diff *d, const char *bytes, size_t n)
{
    ATOLL_AUTOFREE char *summary = NULL;
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_error err;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "from", d->from);
    atoll_json_text(&out, "to", d->to);
    if (!write_changes(&out, bytes, n, &summary)) {
        atoll_buf_done(&buf);
        (void)atoll_fail(&err, ATOLL_ERR_INTERNAL, EPROTO, "atoll-diff printed no valid JSON");
        atoll_api_fail(d->call, &err);
        return;
    }
    atoll_json_raw(&out, "summary", summary);
    atoll_json_close(&out, '}');
    atoll_api_reply(d->call, 200, &out);
}

static void on_diff(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    struct diff *d = arg;

    if (error)
        atoll_api_fail(d->call, error);
    else if (d->patch)
        atoll_api_reply_text(d->call, 200, "text/x-patch", n > 0 ? (const void *)bytes : "", n);
    else
        reply_json(d, n > 0 ? (const char *)bytes : "", n);
    free(d);
}

static int read_moment(const struct atoll_api_call *call, const char *name, const char *otherwise,
                       char *out, struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, name);
    size_t n = text ? strlen(text) : 0;

    text = text ? text : otherwise;
    if (n > ATOLL_TEMPLATE_REFERENCE_MAX ||
        (strcmp(text, ATOLL_MOMENT_NOW) != 0 && !atoll_template_is_reference(text)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s must be a moment: start, now, or the name of a snapshot", name);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int read_format(const struct atoll_api_call *call, bool *ret_patch, struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, "format");

    *ret_patch = text && strcmp(text, "patch") == 0;
    return !text || *ret_patch || strcmp(text, "json") == 0
               ? 0
               : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                            "format must be json or patch");
}

/* An absolute path without "." and "..". */
static bool is_path(const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || n >= PATH_MAX || text[n - 1] == '/')
        return false;
    for (const char *p = text; *p; p += strcspn(p, "/")) {
        if (*p++ != '/' || *p == '/')
            return false;
        n = strcspn(p, "/");
        if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
    }
    return true;
}

int atoll_rest_read_path(const struct atoll_api_call *call, const char **ret,
                         struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, "path");

    *ret = text && strcmp(text, "/") != 0 ? text : NULL;
    if (!*ret || is_path(text))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "path must be an absolute path of at most %d bytes, without . and ..",
                      PATH_MAX - 1);
}

void atoll_rest_sandbox_diff(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct diff *d = atoll_api_alloc(sizeof(*d));
    struct atoll_diff_request request = {0};
    uint64_t limit = LIMIT_DEFAULT;
    struct atoll_error err;
    int r = read_moment(call, "from", ATOLL_MOMENT_START, d->from, &err);

    d->call = call;
    if (r == 0)
        r = read_moment(call, "to", ATOLL_MOMENT_NOW, d->to, &err);
    if (r == 0)
        r = read_format(call, &d->patch, &err);
    if (r == 0)
        r = atoll_rest_read_path(call, &request.below, &err);
    if (r == 0)
        r = atoll_api_query_u64(call, "limit", 0, ATOLL_DIFF_LINES_MAX, &limit, &err);
    if (r < 0) {
        atoll_api_fail(call, &err);
        free(d);
        return;
    }
    request.from = d->from;
    request.to = d->to;
    request.patch = d->patch;
    request.lines = (uint32_t)limit;
    atoll_engine_diff(call->engine, call->params.id, &request, on_diff, d);
}
