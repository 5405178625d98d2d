/*
 * Whole files in and out. The agent opens them inside; the bytes go through a descriptor it passed
 * out, so they are not copied through the agent's protocol.
 */
#include <errno.h>
#include <string.h>
#include "api/rest/files.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/fd.h"
#include "base/metrics.h"
#include "net/url.h"

#define PIECE_BYTES ((size_t)256 * 1024)
/* Bytes sent per turn before other connections get theirs. */
#define TURN_MAX ((size_t)1024 * 1024)
#define NAME_MAX_BYTES 255

/* Out. */

struct download {
    struct atoll_api_call *call;
    int fd; /* owned */
    uint64_t offset, size;
    struct atoll_timer turn;
    char name[NAME_MAX_BYTES + 1];
};

static void download_free(struct download *d)
{
    if (d->fd >= 0)
        (void)close(d->fd);
    atoll_timer_cancel(&d->turn);
    free(d);
}

static void download_gone(struct atoll_api_call *call)
{
    download_free(call->state);
    atoll_api_drop(call);
}

/* The client was told a length; if the file has become shorter it must not take this for all. */
static void download_cut(struct download *d, const char *why)
{
    struct atoll_api_call *call = d->call;

    download_free(d);
    atoll_api_abort(call, why);
}

static void pump(void *arg)
{
    static uint8_t piece[PIECE_BYTES]; /* loop thread only */
    struct download *d = arg;
    struct atoll_api_call *call = d->call;
    size_t sent = 0;
    int r;

    if (d->turn.loop)
        return;
    while (d->offset < d->size && atoll_http_pending(call->req) <= ATOLL_HTTP_HIGH_WATER) {
        size_t want = (size_t)ATOLL_MIN(d->size - d->offset, (uint64_t)PIECE_BYTES);
        ssize_t n;
        if (sent >= TURN_MAX) {
            atoll_timer_set(&d->turn, atoll_http_loop(call->req), 0, pump, d);
            return;
        }
        n = pread(d->fd, piece, want, (off_t)d->offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            download_cut(d, n < 0 ? strerror(errno) : "the file became shorter while it was read");
            return;
        }
        r = atoll_http_write(call->req, piece, (size_t)n);
        atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "out"), (double)n);
        if (r == -EPIPE)
            return; /* on_gone follows */
        if (r < 0) {
            download_cut(d, strerror(-r));
            return;
        }
        d->offset += (uint64_t)n;
        sent += (size_t)n;
    }
    if (d->offset < d->size)
        return;
    download_free(d);
    atoll_api_end(call);
}

static void drained(void *arg, struct atoll_http_request *req)
{
    (void)req;
    pump(arg);
}

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

    if (!error)
        d->fd = fd;
    if (error || !call->req) {
        download_free(d);
        if (error)
            atoll_api_fail(call, error);
        else
            atoll_api_drop(call);
        return;
    }
    d->size = size_bytes;
    /* To HEAD the length is the whole answer. */
    if (atoll_http_method(call->req) == ATOLL_HEAD)
        d->offset = size_bytes;
    call->state = d;
    call->on_gone = download_gone;
    set_download_headers(call, d->name);
    atoll_http_on_drain(call->req, drained, d);
    atoll_api_begin(call, 200, "application/octet-stream", (int64_t)size_bytes);
    pump(d);
}

static void copy_basename(char *out, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = strnlen(slash ? slash + 1 : path, cap - 1);

    memcpy(out, slash ? slash + 1 : path, n);
    out[n] = '\0';
}

void atoll_rest_file_send(struct atoll_api_call *call, const struct atoll_rest_file_target *t)
{
    struct download *d = atoll_api_alloc(sizeof(*d));

    d->call = call;
    d->fd = ATOLL_NO_FD;
    copy_basename(d->name, sizeof(d->name), t->path);
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
    int fd;                      /* the engine's */
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
    int r = atoll_fd_write_all(u->fd, bytes, n);

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
    u->upload = upload;
    u->fd = fd;
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
