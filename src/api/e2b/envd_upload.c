/*
 * POST /files: one file as the body, or several in a form. Little is buffered: bytes go through gzip
 * and the form parser into the file. The client's socket is not read while a request to the sandbox is
 * pending or its disk is slow.
 *
 * Files are written in place, and small ones in one write (the engine gathers the bytes): a watch of the
 * directory reports a creation, a change of the owner and one write, which clients rely on.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/envd_files.h"
#include "api/kit/multipart.h"
#include "api/kit/unpack.h"
#include "base/metrics.h"

#define IN_MAX ((size_t)1024 * 1024) /* maximum of buffered bytes of the body */
#define FILES_MAX 4096
#define PATH_MAX_BYTES 4095

struct upload {
    struct atoll_api_call *call;
    char user[ATOLL_ENVD_USER_MAX];
    const char *path; /* from the query, or "" */
    char *path_copy;  /* owned */
    struct atoll_envd_metadata metadata;
    bool is_form, ended, over;
    bool waiting; /* a request to the sandbox is pending */
    bool running; /* run() is active and frees u if it is dead */
    bool dead;    /* the call is answered */
    struct atoll_unpack body;
    struct atoll_multipart form;
    /* the file being written */
    struct atoll_upload *file; /* owned until it is finished or dropped */
    uint64_t bytes;
    /* the files already written */
    struct atoll_buf paths; /* as in the request, each with its NUL */
    char *written;          /* owned: the last one, absolute */
    size_t count;
    struct atoll_buf reply;
    struct atoll_json_out json;
};

static void upload_free(struct upload *u)
{
    atoll_upload_drop(u->file);
    atoll_envd_metadata_done(&u->metadata);
    atoll_unpack_done(&u->body);
    atoll_buf_done(&u->paths);
    atoll_buf_done(&u->reply);
    free(u->path_copy);
    free(u->written);
    free(u);
}

/* Ends the upload and returns its call, which the caller must answer. */
static struct atoll_api_call *upload_end(struct upload *u)
{
    struct atoll_api_call *call = u->call;

    call->on_gone = NULL;
    u->dead = true;
    if (!u->running)
        upload_free(u);
    return call;
}

static void client_gone(struct atoll_api_call *call)
{
    struct upload *u = call->state;

    if (u->waiting)
        return; /* the callback of the pending request ends it */
    atoll_api_drop(upload_end(u));
}

static void fail(struct upload *u, int status, const char *text)
{
    atoll_envd_fail(upload_end(u), status, text);
}

static void fail_write(struct upload *u, int errnum)
{
    int64_t size = atoll_http_content_length(u->call->req);
    char text[120];

    /* The file's size is known only if the body is the file itself, without compression. */
    if (u->is_form || atoll_http_header(u->call->req, "content-encoding"))
        size = -1;
    if (errnum != ENOSPC && errnum != EDQUOT)
        (void)snprintf(text, sizeof(text), "error writing file: %s", strerror(errnum));
    else
        (void)snprintf(text, sizeof(text),
                       "attempted to write %s%llu bytes: not enough disk space available",
                       size < 0 ? "at least " : "",
                       size < 0 ? (unsigned long long)u->bytes : (unsigned long long)size);
    fail(u, errnum == ENOSPC || errnum == EDQUOT ? 507 : 500, text);
}

static void fail_path(struct upload *u, const struct atoll_error *error)
{
    char user[ATOLL_ENVD_USER_MAX];

    memcpy(user, u->user, sizeof(user));
    atoll_envd_path_fail(upload_end(u), error, user);
}

static void run(struct upload *u);

static void wait_for(struct upload *u)
{
    u->waiting = true;
    if (!u->ended)
        atoll_http_body_pause(u->call->req);
}

/* The sandbox has answered. False: the client is gone, and u with it. */
static bool wait_over(struct upload *u)
{
    u->waiting = false;
    if (u->call->req)
        return true;
    atoll_api_drop(upload_end(u));
    return false;
}

static void go_on(struct upload *u)
{
    if (!u->ended)
        atoll_http_body_resume(u->call->req);
    if (!u->running)
        run(u);
}

static void on_metadata(void *arg, const struct atoll_error *error)
{
    struct upload *u = arg;
    const char *name;

    if (!wait_over(u))
        return;
    if (error) {
        fail_path(u, error);
        return;
    }
    atoll_json_open(&u->json, NULL, '{');
    atoll_json_text(&u->json, "name", atoll_entry_name(u->written));
    atoll_json_text(&u->json, "path", u->written);
    atoll_json_text(&u->json, "type", "file");
    if (atoll_buf_size(&u->metadata.pairs) > 0) {
        atoll_json_open(&u->json, "metadata", '{');
        for (size_t at = 0; at < atoll_buf_size(&u->metadata.pairs);) {
            name = (const char *)atoll_buf_head(&u->metadata.pairs) + at;
            at += strlen(name) + 1;
            atoll_json_text(&u->json, name + strlen(ATOLL_ENVD_ATTRIBUTES),
                            (const char *)atoll_buf_head(&u->metadata.pairs) + at);
            at += strlen((const char *)atoll_buf_head(&u->metadata.pairs) + at) + 1;
        }
        atoll_json_close(&u->json, '}');
    }
    atoll_json_close(&u->json, '}');
    go_on(u);
}

static void on_finished(void *arg, const struct atoll_am_entry *entry,
                        const struct atoll_error *error)
{
    struct upload *u = arg;
    struct atoll_api_call *call = u->call;

    if (!wait_over(u))
        return;
    if (error && (error->errnum == ENOSPC || error->errnum == EDQUOT)) {
        fail_write(u, error->errnum); /* without descriptors the agent gets the bytes only now */
        return;
    }
    if (error) {
        fail_path(u, error);
        return;
    }
    free(u->written);
    u->written = strdup(entry->path);
    if (!u->written)
        abort();
    u->waiting = true;
    atoll_envd_metadata_apply(&u->metadata, call->engine, call->params.id, u->user, u->written,
                              on_metadata, u);
}

/* The buffered bytes are written. If that failed, the next write returns the error. */
static void on_ready(void *arg)
{
    struct upload *u = arg;

    if (wait_over(u))
        go_on(u);
}

static void on_opened(void *arg, struct atoll_upload *file, const struct atoll_error *error)
{
    struct upload *u = arg;

    if (!error) {
        u->file = file;
        atoll_upload_on_ready(file, on_ready, u);
    }
    if (!wait_over(u))
        return;
    if (error) {
        fail_path(u, error);
        return;
    }
    go_on(u);
}

static bool was_written(const struct upload *u, const char *path)
{
    const char *known = (const char *)atoll_buf_head(&u->paths);

    for (size_t at = 0; at < atoll_buf_size(&u->paths); at += strlen(known + at) + 1)
        if (strcmp(known + at, path) == 0)
            return true;
    return false;
}

static void begin_file(struct upload *u, const char *filename)
{
    struct atoll_api_call *call = u->call;
    const char *path = *u->path ? u->path : filename;
    char text[ATOLL_ERROR_TEXT_MAX];

    if (!path || !*path) {
        fail(u, 400, "path or a file name is needed");
    } else if (strlen(path) > PATH_MAX_BYTES || ++u->count > FILES_MAX) {
        fail(u, 400, "a path is too long, or there are too many files");
    } else if (was_written(u, path)) {
        (void)snprintf(text, sizeof(text),
                       "you cannot upload multiple files to the same path '%.200s' in one request",
                       path);
        fail(u, 400, text);
    } else if (atoll_buf_append(&u->paths, path, strlen(path) + 1) < 0) {
        fail(u, 400, "the paths are too long");
    } else {
        u->bytes = 0;
        wait_for(u);
        atoll_files_rewrite(call->engine, call->params.id, u->user, path, 0, on_opened, u);
    }
}

static void add_bytes(struct upload *u, const uint8_t *bytes, size_t n)
{
    int r = atoll_upload_write(u->file, bytes, n);

    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "in"), (double)n);
    u->bytes += n;
    if (r < 0)
        fail_write(u, -r);
    else if (r > 0)
        wait_for(u);
}

static void end_file(struct upload *u)
{
    wait_for(u);
    atoll_upload_finish(ATOLL_TAKE_PTR(u->file), on_finished, u);
}

static void on_event(struct upload *u, const struct atoll_multipart_event *event)
{
    if (event->kind == ATOLL_PART_BEGIN && strcmp(event->name, "file") == 0)
        begin_file(u, event->filename);
    else if (event->kind == ATOLL_PART_DATA && u->file)
        add_bytes(u, event->data, event->len);
    else if (event->kind == ATOLL_PART_END && u->file)
        end_file(u);
    else if (event->kind == ATOLL_MULTIPART_END)
        u->over = true;
}

/* One step through a form. False: more input is needed. */
static bool step_form(struct upload *u, const uint8_t *p, size_t n)
{
    struct atoll_multipart_event event;
    size_t left = n;
    int r = atoll_multipart_next(&u->form, &p, &left, &event);

    if (r > 0)
        on_event(u, &event);
    else if (r < 0)
        fail(u, 400, r == -E2BIG ? "the head of a part is too long" : "malformed multipart");
    atoll_unpack_consume(&u->body, n - left); /* not before: the event points into these bytes */
    return r != 0;
}

/* The same for a body that is the file itself. */
static bool step_plain(struct upload *u, const uint8_t *p, size_t n)
{
    if (u->count == 0) {
        begin_file(u, NULL);
        return true;
    }
    if (n == 0)
        return false;
    add_bytes(u, p, n);
    atoll_unpack_consume(&u->body, n);
    return true;
}

static void reply(struct upload *u)
{
    struct atoll_api_call *call = u->call;
    struct atoll_json_out json = u->json;
    struct atoll_buf buf = u->reply;

    json.buf = &buf;
    atoll_json_close(&json, ']');
    u->reply = (struct atoll_buf){0};
    (void)upload_end(u);
    atoll_api_reply(call, 200, &json);
}

/* The body has ended. */
static void at_end(struct upload *u)
{
    if (!atoll_unpack_is_whole(&u->body))
        fail(u, 400, "the gzip data is cut off");
    else if (u->is_form && !u->over)
        fail(u, 400, "malformed multipart: unexpected end");
    else if (u->file)
        end_file(u);
    else
        reply(u);
}

static void run(struct upload *u)
{
    bool hungry = false;
    const uint8_t *p;
    size_t n;

    u->running = true;
    while (!u->waiting && !u->dead && !hungry) {
        if (atoll_unpack_view(&u->body, &p, &n) < 0) {
            fail(u, 400, "the body is no valid gzip data");
            break;
        }
        hungry = u->is_form ? !step_form(u, p, n) : !step_plain(u, p, n);
        if (hungry && u->ended) {
            at_end(u);
            hungry = false;
        }
    }
    u->running = false;
    if (u->dead)
        upload_free(u);
}

static void on_data(void *arg, struct atoll_http_request *req ATOLL_UNUSED, const uint8_t *bytes,
                    size_t n)
{
    struct upload *u = arg;

    if (atoll_unpack_add(&u->body, bytes, n) < 0)
        fail(u, 500, "out of memory");
    else
        run(u);
}

static void on_end(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    struct upload *u = arg;

    u->ended = true;
    run(u);
}

static int choose_type(struct upload *u)
{
    static const char bytes[] = "application/octet-stream";
    const char *type = atoll_http_header(u->call->req, "content-type");

    u->is_form = atoll_multipart_init(&u->form, type) == 0;
    if (u->is_form)
        return 0;
    return type && strncasecmp(type, bytes, sizeof(bytes) - 1) == 0 ? 0 : 400;
}

void atoll_envd_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    const char *path = atoll_http_query(call->req, "path");
    struct upload *u = atoll_api_alloc(sizeof(*u));
    struct atoll_error error;

    u->call = call;
    u->path_copy = strdup(path ? path : "");
    u->path = u->path_copy;
    atoll_buf_init(&u->paths, IN_MAX);
    atoll_api_reply_init(&u->reply, &u->json);
    atoll_json_open(&u->json, NULL, '[');
    if (!u->path_copy)
        abort();
    if (!atoll_envd_query_user(call, u->user)) {
        upload_free(u);
    } else if (atoll_envd_metadata_take(&u->metadata, call->req, &error) < 0) {
        fail(u, 400, error.text);
    } else if (atoll_unpack_init(&u->body, atoll_http_header(call->req, "content-encoding"),
                                 IN_MAX) < 0) {
        fail(u, 400, "unsupported content encoding");
    } else if (choose_type(u) != 0) {
        fail(u, 400,
             "the content type must be multipart/form-data with a boundary, or "
             "application/octet-stream");
    } else {
        call->state = u;
        call->on_gone = client_gone;
        atoll_http_body_stream(call->req, on_data, on_end, u);
    }
}
