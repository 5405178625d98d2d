/*
 * Whole files in and out. The agent opens them inside; the bytes go through a descriptor it passed
 * out, so they are not copied through the agent's protocol.
 */
#include <errno.h>
#include <string.h>
#include "api/file_send.h"
#include "api/rest/files.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/metrics.h"
#include "net/url.h"

#define NAME_MAX_BYTES 255

/* Out. */

struct download {
    struct atoll_api_call *call;
    char name[NAME_MAX_BYTES + 1];
};

/* RFC 6266 with the encoding of RFC 8187: any byte of a name is possible. */
static void set_download_headers(struct atoll_api_call *call, const char *name)
{
    struct atoll_buf value;

    atoll_buf_init(&value, 4 * NAME_MAX_BYTES);
    if (atoll_buf_appends(&value, "attachment; filename*=UTF-8''") == 0 &&
        atoll_url_encode(&value, name, false) == 0)
        (void)atoll_http_set_header(call->req, "Content-Disposition", atoll_buf_str(&value));
    atoll_buf_done(&value);
    (void)atoll_http_set_header(call->req, "X-Content-Type-Options", "nosniff");
}

static void opened(void *arg, int fd, uint64_t size_bytes, const struct atoll_error *error)
{
    struct download *d = arg;
    struct atoll_api_call *call = d->call;
    struct atoll_file_part part;

    if (error) {
        atoll_api_fail(call, error);
    } else if (!call->req) {
        (void)close(fd);
        atoll_api_drop(call);
    } else {
        part = atoll_file_whole(fd, size_bytes);
        set_download_headers(call, d->name);
        atoll_file_send(call, 200, "application/octet-stream", &part);
    }
    free(d);
}

static void copy_basename(char *out, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = strnlen(slash ? slash + 1 : path, cap - 1);

    memcpy(out, slash ? slash + 1 : path, n);
    out[n] = '\0';
}

static struct download *download_new(struct atoll_api_call *call, const char *path)
{
    struct download *d = atoll_api_alloc(sizeof(*d));

    d->call = call;
    copy_basename(d->name, sizeof(d->name), path);
    return d;
}

void atoll_rest_file_send_fd(struct atoll_api_call *call, int fd, uint64_t size_bytes,
                             const char *path)
{
    opened(download_new(call, path), fd, size_bytes, NULL);
}

void atoll_rest_file_send(struct atoll_api_call *call, const struct atoll_rest_file_target *t)
{
    struct download *d = download_new(call, t->path);

    atoll_files_open(call->engine, call->params.id, t->user, t->path, opened, d);
}

void atoll_rest_file_download(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;

    if (atoll_rest_file_target(call, &t))
        atoll_rest_file_send(call, &t);
}

/* In. */

struct upload {
    struct atoll_api_call *call;
    struct atoll_upload *upload; /* ours to finish or drop */
};

/* Leaves nothing of it in the sandbox. */
static struct atoll_api_call *upload_drop(struct upload *u)
{
    struct atoll_api_call *call = u->call;

    atoll_upload_drop(u->upload);
    free(u);
    return call;
}

static void upload_gone(struct atoll_api_call *call)
{
    atoll_api_drop(upload_drop(call->state));
}

static void upload_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct upload *u = arg;
    struct atoll_error error;
    int r = atoll_upload_write(u->upload, bytes, n);

    (void)req;
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "in"), (double)n);
    if (r == 0)
        return;
    (void)atoll_fail(&error, atoll_error_kind_of_path_errno(-r), -r, "writing the file: %s",
                     r == -ENOSPC || r == -EDQUOT ? "the disk of the sandbox is full"
                                                  : strerror(-r));
    atoll_api_fail(upload_drop(u), &error);
}

static void upload_end(void *arg, struct atoll_http_request *req)
{
    struct upload *u = arg;
    struct atoll_api_call *call = u->call;
    struct atoll_upload *upload = u->upload;

    (void)req;
    call->on_gone = NULL;
    free(u);
    atoll_upload_finish(upload, atoll_rest_file_entry, call);
}

static void upload_opened(void *arg, struct atoll_upload *upload, int fd,
                          const struct atoll_error *error)
{
    struct upload *u = arg;
    struct atoll_api_call *call = u->call;

    if (error) {
        free(u);
        atoll_api_fail(call, error);
        return;
    }
    (void)fd;
    u->upload = upload;
    if (!call->req) {
        atoll_api_drop(upload_drop(u));
        return;
    }
    call->state = u;
    call->on_gone = upload_gone;
    atoll_http_body_stream(call->req, upload_data, upload_end, u);
}

void atoll_rest_file_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_error error;
    struct upload *u;
    uint32_t mode = 0;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (atoll_api_query_mode(call, "mode", &mode, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    u = atoll_api_alloc(sizeof(*u));
    u->call = call;
    atoll_files_create(call->engine, call->params.id, t.user, t.path, mode, upload_opened, u);
}
