/*
 * GET /files: a whole file, or a range of it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "api/e2b/envd_files.h"
#include "api/kit/file_send.h"

#define DATE "%a, %d %b %Y %H:%M:%S GMT"

bool atoll_envd_query_user(struct atoll_api_call *call, char *out)
{
    const char *name = atoll_http_query(call->req, "username");

    out[0] = '+';
    out[1] = '\0';
    if (!name || strlen(name) < ATOLL_ENVD_USER_MAX - 2) {
        (void)snprintf(out + 1, ATOLL_ENVD_USER_MAX - 1, "%s", name ? name : "");
        return true;
    }
    atoll_envd_fail(call, 401, "error looking up user: its name is too long");
    return false;
}

/* The agent puts the path it looked at in front of what is wrong with it. */
static int path_len(const struct atoll_error *error, const char *after)
{
    const char *at = strstr(error->text, after);
    return at ? (int)(at - error->text) : (int)strlen(error->text);
}

void atoll_envd_path_fail(struct atoll_api_call *call, const struct atoll_error *error,
                          const char *user)
{
    bool reads = call->route->method == ATOLL_GET;
    char text[ATOLL_ERROR_TEXT_MAX];

    switch (error->errnum) {
    case ESRCH:
        (void)snprintf(text, sizeof(text), "error looking up user '%s': user: unknown user %s",
                       user + 1, user + 1);
        atoll_envd_fail(call, 401, text);
        return;
    case ENOENT:
        (void)snprintf(text, sizeof(text), "path '%.*s' does not exist",
                       path_len(error, " does not exist"), error->text);
        atoll_envd_fail(call, 404, text);
        return;
    case EISDIR:
        (void)snprintf(text, sizeof(text),
                       reads ? "path '%.*s' is a directory" : "path is a directory: %.*s",
                       path_len(error, " is a directory"), error->text);
        atoll_envd_fail(call, 400, text);
        return;
    case ENOTDIR:
    case ELOOP:
        atoll_envd_fail(call, 400, error->text);
        return;
    case ENOSPC:
    case EDQUOT:
        atoll_envd_fail(call, 507, "not enough disk space available");
        return;
    default:
        atoll_api_fail(call, error);
    }
}

struct download {
    struct atoll_api_call *call;
    char user[ATOLL_ENVD_USER_MAX];
    char name[ATOLL_FILE_NAME_MAX + 1];
};

static void set_headers(struct atoll_api_call *call, const char *name, const struct stat *st)
{
    char date[40];
    struct tm tm;

    atoll_file_name_header(call->req, "inline", name);
    if (gmtime_r(&st->st_mtim.tv_sec, &tm) && strftime(date, sizeof(date), DATE, &tm) > 0)
        (void)atoll_http_set_header(call->req, "Last-Modified", date);
    (void)atoll_http_set_header(call->req, "Vary", "Accept-Encoding");
}

static bool is_unchanged(const struct atoll_api_call *call, const struct stat *st)
{
    const char *since = atoll_http_header(call->req, "if-modified-since");
    struct tm tm = {0};

    return since && strptime(since, DATE, &tm) && timegm(&tm) >= st->st_mtim.tv_sec;
}

static void send_file(struct download *d, struct atoll_file_part part)
{
    struct atoll_api_call *call = d->call;
    const char *range = atoll_http_header(call->req, "range");
    const struct stat *st = atoll_tenant_file_stat(part.file);
    uint64_t size_bytes = part.length;
    char text[80];
    int r = 0;

    set_headers(call, d->name, st);
    if (is_unchanged(call, st)) {
        (void)atoll_tenant_file_close(part.file);
        atoll_api_reply_empty(call, 304);
        return;
    }
    /* Whether If-Range still holds is not decided here: without the range it always does. */
    if (range && !part.to_end && !atoll_http_header(call->req, "if-range"))
        r = atoll_file_cut_range(range, &part);
    if (r < 0) {
        (void)atoll_tenant_file_close(part.file);
        (void)snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)size_bytes);
        (void)atoll_http_set_header(call->req, "Content-Range", text);
        atoll_envd_fail(call, 416, "the range is not in the file");
        return;
    }
    if (!part.to_end)
        (void)atoll_http_set_header(call->req, "Accept-Ranges", "bytes");
    if (r > 0) {
        (void)snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)part.offset,
                       (unsigned long long)(part.offset + part.length - 1),
                       (unsigned long long)size_bytes);
        (void)atoll_http_set_header(call->req, "Content-Range", text);
    }
    atoll_file_send(call, r > 0 ? 206 : 200, "application/octet-stream", &part);
}

static void send_part(void *arg, const struct atoll_file_part *part)
{
    struct download *d = arg;

    if (!d->call->req) {
        (void)atoll_tenant_file_close(part->file);
        atoll_api_drop(d->call);
    } else {
        send_file(d, *part);
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
    atoll_envd_path_fail(d->call, error, d->user);
    free(d);
}

void atoll_envd_download(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    const char *path = atoll_http_query(call->req, "path");
    struct download *d = atoll_api_alloc(sizeof(*d));

    d->call = call;
    if (!atoll_envd_query_user(call, d->user)) {
        free(d);
        return;
    }
    path = path && *path ? path : "."; /* the user's home, which is no file */
    (void)snprintf(d->name, sizeof(d->name), "%s", atoll_entry_name(path));
    atoll_files_open(call->engine, call->params.id, d->user, path, opened, d);
}
