/*
 * Downloads: one file as the response, or several as the parts of a form. In a form, a file that cannot
 * be read is a part named "error". A connection that breaks off in the middle of the form tells the
 * client that the rest is missing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/errors.h"
#include "api/kit/file_send.h"
#include "net/url.h"

#define BOUNDARY "DAYTONA-FILE-BOUNDARY"
#define FILES_MAX 10000
#define HEAD_MAX ((size_t)64 * 1024)

/* One file. */

static void found_whole(void *arg, const struct atoll_file_part *part)
{
    struct atoll_api_call *call = arg;
    const char *path = call->req ? atoll_http_query(call->req, "path") : NULL, *slash;

    if (!call->req) {
        (void)atoll_tenant_file_close(part->file);
        atoll_api_drop(call);
        return;
    }
    slash = strrchr(path, '/');
    atoll_file_name_header(call->req, "attachment", slash ? slash + 1 : path);
    atoll_file_send(call, 200, "application/octet-stream", part);
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                   const struct atoll_error *error)
{
    if (error)
        atoll_toolbox_path_fail(arg, error);
    else
        atoll_file_whole(file, size_bytes, found_whole, arg);
}

void atoll_daytona_file_download(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");

    if (path)
        atoll_files_open(call->engine, call->params.id, NULL, path, opened, call);
}

/* Several. */

struct download {
    struct atoll_api_call *call;
    struct atoll_body body;
    const char *const *paths; /* of the body */
    size_t next;
    bool waiting; /* for the sandbox */
    struct atoll_buf head;
    struct atoll_file_pump pump;
    struct atoll_timer turn; /* continues after a file that cannot be opened */
};

static void next_file(struct download *d);

static void download_free(struct download *d)
{
    atoll_timer_cancel(&d->turn);
    atoll_file_pump_close(&d->pump);
    atoll_buf_done(&d->head);
    atoll_body_done(&d->body);
    free(d);
}

static void client_gone(struct atoll_api_call *call)
{
    struct download *d = call->state;

    if (d->waiting)
        return; /* the pending callback ends it */
    download_free(d);
    atoll_api_drop(call);
}

static void cut(struct download *d, const char *why)
{
    struct atoll_api_call *call = d->call;

    call->on_gone = NULL;
    download_free(d);
    atoll_api_abort(call, why);
}

/* No further file can be read. */
static void give_up(struct download *d, const struct atoll_error *error)
{
    struct atoll_api_call *call = d->call;

    if (atoll_http_begun(call->req)) {
        cut(d, error->text);
        return;
    }
    call->on_gone = NULL;
    atoll_api_fail(call, error);
    download_free(d);
}

/* A name in quotes, of the bytes that a header may have. */
static int add_plain_name(struct atoll_buf *out, const char *name)
{
    int r = 0;

    for (const char *p = name; *p && r == 0; p++) {
        bool is_bad =
            (unsigned char)*p < ' ' || (unsigned char)*p >= 127 || *p == '"' || *p == '\\';
        r = atoll_buf_append(out, is_bad ? "_" : p, 1);
    }
    return r;
}

/* Clients find the file by its name: filename* has all bytes of it. */
static int begin_part(struct download *d, const char *kind, const char *path)
{
    int r;

    atoll_buf_clear(&d->head);
    r = atoll_buf_appendf(
        &d->head, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"",
        kind);
    if (r == 0)
        r = add_plain_name(&d->head, path);
    if (r == 0)
        r = atoll_buf_appends(&d->head, "\"; filename*=utf-8''");
    if (r == 0)
        r = atoll_url_encode(&d->head, path, false);
    return r < 0 ? r : atoll_buf_appends(&d->head, "\r\n");
}

static int send_head(struct download *d)
{
    if (!atoll_http_begun(d->call->req))
        atoll_api_begin(d->call, 200, "multipart/form-data; boundary=" BOUNDARY, -1);
    return atoll_http_write(d->call->req, atoll_buf_head(&d->head), atoll_buf_size(&d->head));
}

/* 0, or the download is over. */
static int check(struct download *d, int r)
{
    if (r < 0 && r != -EPIPE) /* after EPIPE on_gone follows */
        cut(d, strerror(-r));
    return r;
}

static const char *code_of(const struct atoll_error *error)
{
    if (error->kind == ATOLL_ERR_NOT_FOUND)
        return "FILE_NOT_FOUND";
    if (error->kind == ATOLL_ERR_PERMISSION_DENIED)
        return "FILE_ACCESS_DENIED";
    return error->errnum == EISDIR ? "INVALID_FILE_PATH" : "FILE_READ_FAILED";
}

static int add_error(struct download *d, const char *path, const struct atoll_error *error)
{
    int status = error->errnum == EISDIR ? 400 : atoll_api_status_of(error);
    char text[2 * ATOLL_ERROR_TEXT_MAX];
    struct atoll_json_out out;
    struct atoll_buf json;
    int r;

    (void)snprintf(text, sizeof(text), "%s: %.350s",
                   error->kind == ATOLL_ERR_NOT_FOUND ? "file not found" : error->text, path);
    atoll_buf_init(&json, HEAD_MAX);
    atoll_json_out_init(&out, &json);
    atoll_json_open(&out, NULL, '{');
    atoll_daytona_error_members(&out, d->call, status, code_of(error), text);
    atoll_json_close(&out, '}');
    r = out.error ? out.error : begin_part(d, "error", path);
    if (r == 0)
        r = atoll_buf_appends(&d->head, "Content-Type: application/json; charset=utf-8\r\n\r\n");
    if (r == 0)
        r = atoll_buf_append(&d->head, atoll_buf_head(&json), atoll_buf_size(&json));
    if (r == 0)
        r = atoll_buf_appends(&d->head, "\r\n");
    atoll_buf_done(&json);
    return r;
}

static void sent(void *arg, int r)
{
    struct download *d = arg;

    atoll_file_pump_close(&d->pump);
    if (r == 0)
        r = atoll_http_write(d->call->req, "\r\n", 2);
    if (r == -ENODATA)
        cut(d, "the file became shorter while it was read");
    else if (check(d, r) == 0)
        next_file(d);
}

/* The sandbox has answered. False: the client is gone, and d freed. */
static bool wait_over(struct download *d)
{
    struct atoll_api_call *call = d->call;

    d->waiting = false;
    if (call->req)
        return true;
    call->on_gone = NULL;
    download_free(d);
    atoll_api_drop(call);
    return false;
}

static void bulk_whole(void *arg, const struct atoll_file_part *part)
{
    struct download *d = arg;
    int r;

    if (!wait_over(d)) {
        (void)atoll_tenant_file_close(part->file);
        return;
    }
    r = begin_part(d, "file", d->paths[d->next - 1]);
    if (r == 0 && !part->to_end)
        r = atoll_buf_appendf(&d->head, "Content-Length: %llu\r\n",
                              (unsigned long long)part->length);
    if (r == 0)
        r = atoll_buf_appends(&d->head, "Content-Type: application/octet-stream\r\n\r\n");
    if (r == 0)
        r = send_head(d);
    if (r < 0)
        (void)atoll_tenant_file_close(part->file);
    if (check(d, r) == 0)
        atoll_file_pump_start(&d->pump, d->call, part, sent, d);
}

static void next_turn(void *arg)
{
    next_file(arg);
}

static void bulk_opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                        const struct atoll_error *error)
{
    struct download *d = arg;
    int r;

    if (!error) {
        atoll_file_whole(file, size_bytes, bulk_whole, d);
        return;
    }
    if (!wait_over(d))
        return;
    if (!atoll_toolbox_is_running(d->call)) {
        give_up(d, error);
        return;
    }
    r = add_error(d, d->paths[d->next - 1], error);
    if (r == 0)
        r = send_head(d);
    /* Not at once: a file that is refused before this returns would be one more call on the stack. */
    if (check(d, r) == 0)
        atoll_timer_set(&d->turn, atoll_http_loop(d->call->req), 0, next_turn, d);
}

static void next_file(struct download *d)
{
    static const char end[] = "--" BOUNDARY "--\r\n";
    const char *path = d->paths[d->next];
    struct atoll_api_call *call = d->call;

    if (path) {
        d->next++;
        d->waiting = true;
        atoll_files_open(call->engine, call->params.id, NULL, path, bulk_opened, d);
        return;
    }
    if (check(d, atoll_http_write(call->req, end, sizeof(end) - 1)) < 0)
        return;
    call->on_gone = NULL;
    download_free(d);
    atoll_api_end(call);
}

void atoll_daytona_file_bulk_download(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    static const struct atoll_field fields[] = {
        {"paths", ATOLL_FIELD_STRINGS, offsetof(struct download, paths), 0, FILES_MAX, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    struct download *d = atoll_api_alloc(sizeof(*d));

    d->call = call;
    if (!atoll_toolbox_decode(call, &d->body, bytes, n, fields, d)) {
        free(d);
        return;
    }
    if (!d->paths || !d->paths[0]) {
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: paths must be given");
        download_free(d);
        return;
    }
    atoll_buf_init(&d->head, HEAD_MAX);
    call->state = d;
    call->on_gone = client_gone;
    next_file(d);
}
