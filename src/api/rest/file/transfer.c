/*
 * Whole files in and out. The agent opens them inside; workers of the daemon move the bytes through a
 * descriptor it passed out, so they are not copied through the agent's protocol.
 */
#include <errno.h>
#include <string.h>
#include "api/kit/file_receive.h"
#include "api/kit/file_send.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

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

static void received(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (call->req)
        atoll_rest_file_entry(call, entry, error);
    else
        atoll_api_drop(call);
}

void atoll_rest_file_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_error error;
    uint32_t mode = 0;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (atoll_api_query_mode(call, "mode", &mode, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_file_receive(
        call,
        &(struct atoll_file_receive_request){
            .sandbox_id = call->params.id, .user = t.user, .path = t.path, .mode = mode},
        received, call);
}
