/*
 * Whole files in and out. The agent opens them inside; workers of the daemon move the bytes through a
 * descriptor it passed out, so they are not copied through the agent's protocol.
 */
#include <errno.h>
#include <string.h>
#include "api/kit/file_send.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/metrics.h"

/* Out. */

struct download {
    struct atoll_api_call *call;
    char name[ATOLL_FILE_NAME_MAX + 1];
};

static void send_part(void *arg, const struct atoll_file_part *part)
{
    struct download *d = arg;
    struct atoll_api_call *call = d->call;

    if (!call->req) {
        (void)atoll_tenant_file_close(part->file);
        atoll_api_drop(call);
    } else {
        atoll_file_name_header(call->req, "attachment", d->name);
        atoll_file_send(call, 200, "application/octet-stream", part);
    }
    free(d);
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                   const struct atoll_error *error)
{
    struct download *d = arg;

    if (!error) {
        atoll_file_whole(file, size_bytes, send_part, d);
        return;
    }
    atoll_api_fail(d->call, error);
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
    struct atoll_tenant_file *file = NULL;
    struct atoll_error error;
    int r = atoll_engine_file(call->engine, call->caller.tenant, fd, &file, &error);

    opened(download_new(call, path), file, size_bytes, r < 0 ? &error : NULL);
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

    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("files", "in"), (double)n);
    if (r > 0)
        atoll_http_body_pause(req);
    if (r >= 0)
        return;
    (void)atoll_upload_fail(r, &error);
    (void)atoll_wrap(&error, "writing the file");
    atoll_api_fail(upload_drop(u), &error);
}

/* A failure shows at the next write. */
static void upload_ready(void *arg)
{
    struct upload *u = arg;
    atoll_http_body_resume(u->call->req);
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

static void upload_opened(void *arg, struct atoll_upload *upload, const struct atoll_error *error)
{
    struct upload *u = arg;
    struct atoll_api_call *call = u->call;

    if (error) {
        free(u);
        atoll_api_fail(call, error);
        return;
    }
    u->upload = upload;
    if (!call->req) {
        atoll_api_drop(upload_drop(u));
        return;
    }
    call->state = u;
    call->on_gone = upload_gone;
    atoll_upload_on_ready(upload, upload_ready, u);
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
