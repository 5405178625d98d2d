/*
 * Artifacts: files kept from destroyed sandboxes. These routes have a table of their own, because
 * the sandbox or session in the path may no longer exist: access is checked here, by the tenant
 * that owns the artifacts.
 */
#include "engine/artifact/artifacts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/paging.h"
#include "api/rest/file/files.h"
#include "api/rest/rest.h"
#include "api/rest/rest_internal.h"
#include "api/rest/session/session_files.h"
#include "api/rest/session/sessions_view.h"
#include "api/rest/views.h"
#include "base/text.h"

static bool may_see(const struct atoll_api_call *call, const struct atoll_artifacts_view *view)
{
    return call->caller.every_tenant || atoll_api_sees(call, view->owner);
}

static int find(struct atoll_api_call *call, struct atoll_artifacts_view *ret,
                struct atoll_error *err)
{
    if (atoll_artifacts_find(call->engine, call->params.id, ret) && may_see(call, ret))
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "no artifacts of sandbox %s are kept, or it does not exist", call->params.id);
}

/* Writes the members of an artifact set; call it inside an open object. */
static void view_set(struct atoll_json_out *out, const struct atoll_artifacts_view *view)
{
    atoll_json_text(out, "sandbox_id", view->sandbox_id);
    if (*view->session_id)
        atoll_json_text(out, "session_id", view->session_id);
    atoll_json_text(out, "tenant", view->owner);
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "expires_at", view->expires_unix_ms);
    atoll_json_u64(out, "count", view->count);
    atoll_json_u64(out, "size", view->size_bytes);
    atoll_json_bool(out, "complete", view->complete);
    if (!view->complete)
        atoll_json_text(out, "reason", view->reason);
}

static void view_file(void *arg, const struct atoll_artifact *file)
{
    struct atoll_json_out *out = arg;

    atoll_json_open(out, NULL, '{');
    atoll_json_bytes(out, "path", file->path, strlen(file->path));
    atoll_json_u64(out, "size", file->size_bytes);
    atoll_json_text(out, "mime", atoll_mime_of_path(file->path));
    atoll_view_mtime(out, file->mtime_ms);
    atoll_json_close(out, '}');
}

/* Answers with the set and, under `key`, its files. */
static void reply_set(struct atoll_api_call *call, const struct atoll_artifacts_view *view,
                      const char *key)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_error error;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    view_set(&out, view);
    atoll_json_open(&out, key, '[');
    if (atoll_artifacts_files(call->engine, view->sandbox_id, view_file, &out, &error) < 0) {
        atoll_buf_done(&buf);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void send_file(struct atoll_api_call *call, const char *sandbox_id)
{
    struct atoll_error error;
    uint64_t size;
    int fd;

    if (atoll_artifacts_open(call->engine, sandbox_id, call->params.path, &fd, &size, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_rest_file_send_fd(call, fd, size, call->params.path);
}

/* GET /api/artifacts. */

static int take_id(const struct atoll_api_call *call, const char *name, const char **ret,
                   struct atoll_error *err)
{
    *ret = atoll_http_query(call->req, name);
    if (!*ret || atoll_text_is_id(*ret))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "?%s= must be an id (got \"%.48s\")",
                      name, *ret);
}

struct filter {
    const char *sandbox, *session; /* NULL: any */
    struct atoll_page_out page;
};

static int take_filter(struct atoll_api_call *call, struct filter *f, struct atoll_error *err)
{
    int r = atoll_api_check_owner(call, err); /* ?all= */

    if (r == 0)
        r = take_id(call, "sandbox", &f->sandbox, err);
    if (r == 0)
        r = take_id(call, "session", &f->session, err);
    return r < 0 ? r : atoll_page_take(call, &f->page.page, err);
}

static bool passes(const struct atoll_api_call *call, const struct filter *f,
                   const struct atoll_artifacts_view *view)
{
    return atoll_api_sees(call, view->owner) &&
           (!f->sandbox || strcmp(f->sandbox, view->sandbox_id) == 0) &&
           (!f->session || strcmp(f->session, view->session_id) == 0);
}

static void list_sets(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                      size_t n ATOLL_UNUSED)
{
    struct filter filter = {0};
    struct atoll_artifacts_view view;
    const void *pos = NULL;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (take_filter(call, &filter, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "artifacts", '[');
    while (!filter.page.more && atoll_artifacts_next(call->engine, &pos, &view)) {
        if (!passes(call, &filter, &view) ||
            !atoll_page_admit(&filter.page, view.created_unix_ms, view.sandbox_id))
            continue;
        atoll_json_open(&out, NULL, '{');
        view_set(&out, &view);
        atoll_json_close(&out, '}');
    }
    atoll_json_close(&out, ']');
    atoll_page_end(&filter.page, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* GET and DELETE /api/artifacts/{id}, GET /api/artifacts/{id}/{path}. */

static void show_set(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    struct atoll_artifacts_view view;
    struct atoll_error error;

    if (find(call, &view, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply_set(call, &view, "files");
}

static void send_one(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    struct atoll_artifacts_view view;
    struct atoll_error error;

    if (find(call, &view, &error) < 0)
        atoll_api_fail(call, &error);
    else
        send_file(call, view.sandbox_id);
}

static void remove_set(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct atoll_artifacts_view view;
    struct atoll_error error;

    if (find(call, &view, &error) < 0 ||
        atoll_artifacts_remove(call->engine, call->params.id, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

/* Artifacts of a session: while it exists, the files in its working directory; afterwards the
 * files kept from it. */

static bool find_session(struct atoll_api_call *call, struct atoll_artifacts_view *ret)
{
    return atoll_artifacts_find_session(call->engine, call->params.session, ret) &&
           may_see(call, ret);
}

static void list_of_session(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_artifacts_view view;
    struct atoll_error error;

    if (atoll_api_enter_session(call, call->params.session, &error) == 0)
        atoll_rest_session_files_list(call, "artifacts");
    else if (find_session(call, &view))
        reply_set(call, &view, "artifacts");
    else
        atoll_api_fail(call, &error);
}

static void send_of_session(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_artifacts_view view;
    struct atoll_error error;

    if (atoll_api_enter_session(call, call->params.session, &error) == 0)
        atoll_rest_session_files_send(call);
    else if (find_session(call, &view))
        send_file(call, view.sandbox_id);
    else
        atoll_api_fail(call, &error);
}

/* ?artifacts=PATTERN, repeated or as a list with commas. */
int atoll_rest_artifacts_want(struct atoll_api_call *call, struct atoll_error *err)
{
    /* One more than allowed: the engine refuses the excess. */
    const char *patterns[ATOLL_ARTIFACTS_PATTERNS_MAX + 2] = {NULL};
    char texts[8192];
    size_t used = 0, count = 0;

    for (size_t pos = 0; count <= ATOLL_ARTIFACTS_PATTERNS_MAX;) {
        const char *value = atoll_http_query_next(call->req, "artifacts", &pos);
        char *rest = texts + used, *pattern;
        if (!value)
            break;
        if (strlen(value) >= sizeof(texts) - used)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "?artifacts= is too long");
        used += (size_t)snprintf(rest, sizeof(texts) - used, "%s", value) + 1;
        while (count <= ATOLL_ARTIFACTS_PATTERNS_MAX && (pattern = strsep(&rest, ",")))
            patterns[count++] = pattern;
    }
    return count == 0 ? 0 : atoll_artifacts_want(call->engine, call->params.id, patterns, err);
}

/* POST /api/sandboxes/{id}/capture. */

static void on_captured(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_artifacts_view view;
    struct atoll_error failed;

    if (!error && find(call, &view, &failed) < 0)
        error = &failed;
    if (error)
        atoll_api_fail(call, error);
    else
        reply_set(call, &view, "files");
}

void atoll_rest_sandbox_capture(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct {
        const char *const *patterns;
        bool ignored;
    } q = {0};
    static const struct atoll_field capture_fields[] = {
        {"patterns", ATOLL_FIELD_STRINGS, 0, 0, ATOLL_ARTIFACTS_PATTERNS_MAX - 1, NULL, 0},
        {"ignored", ATOLL_FIELD_BOOL, sizeof(q.patterns), 0, 0, NULL, 0},
        {0},
    };
    const char *patterns[ATOLL_ARTIFACTS_PATTERNS_MAX + 1] = {"**"};
    size_t count = 0;
    struct atoll_body body;
    struct atoll_error error;

    if (atoll_body_decode(&body, bytes, n, capture_fields, &q, &error) < 0) {
        atoll_api_fail(call, &error);
        atoll_body_done(&body);
        return;
    }
    for (; q.patterns && q.patterns[count]; count++)
        patterns[count] = q.patterns[count];
    if (!q.ignored)
        patterns[count ? count : 1] = ATOLL_ARTIFACTS_GITIGNORE;
    atoll_artifacts_capture(call->engine, call->params.id, patterns, on_captured, call);
    atoll_body_done(&body);
}

static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    return atoll_api_authorize(call, call->route->scope, err);
}

static const struct atoll_protocol protocol = {.admit = admit};

#define READ ATOLL_SCOPE_READ
#define NONE ATOLL_BODY_NONE
#define SESSION "/api/sessions/{session}"

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    "/api/artifacts",             READ,              NONE, list_sets,
     "sandbox, session, limit, cursor, all"},
    {ATOLL_GET,    "/api/artifacts/{id}",        READ,              NONE, show_set, ""},
    {ATOLL_DELETE, "/api/artifacts/{id}",        ATOLL_SCOPE_WRITE, NONE, remove_set, ""},
    {ATOLL_GET,    "/api/artifacts/{id}/{path}", READ,              NONE, send_one, ""},
    {ATOLL_GET,    SESSION "/artifacts",         READ,              NONE, list_of_session, ""},
    {ATOLL_GET,    SESSION "/artifacts/{path}",  READ,              NONE, send_of_session, ""},
};
/* clang-format on */

const struct atoll_routes atoll_rest_artifact_routes = {.rows = rows,
                                                        .count = ATOLL_ARRAY_LEN(rows),
                                                        .protocol = &protocol};
