/*
 * GET …/archive: a directory as a tar stream. The tree is listed first; then each file is opened
 * inside the sandbox, and workers read it through its descriptor. The size of the archive is not
 * limited, and the sandbox needs no tar. A file that vanishes in between is omitted. Any other
 * failure cuts the connection, so that the client does not take a partial archive for a complete
 * one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"
#include "base/tar.h"

#define NAMES_MAX ((size_t)64 * 1024 * 1024)
#define DEPTH_MAX 1000
/* Bytes sent per turn of the loop before other connections are served. */
#define TURN_MAX ((size_t)1024 * 1024)

/* One entry of the tree, as it was listed; its strings are in `names`. */
struct item {
    uint8_t type;
    uint32_t mode, uid, gid;
    int64_t mtime_ms;
    size_t path, owner, group, target; /* offsets in names */
};

struct archive {
    struct atoll_api_call *call; /* its state points to this struct */
    struct atoll_buf items, names, head;
    size_t next;                    /* index of the next item to send */
    size_t strip;                   /* length of the path prefix that is not in the archive */
    char *user;                     /* owned, or NULL */
    char *root;                     /* owned: absolute path of the directory */
    struct atoll_tenant_file *file; /* the file being sent, owned, or NULL */
    uint64_t left;                  /* bytes of it not sent yet */
    uint64_t size;
    bool busy; /* a callback of the engine is pending */
    bool gone; /* the client has disconnected */
    bool begun;
    struct atoll_timer turn;
};

static void archive_free(struct archive *a)
{
    (void)atoll_tenant_file_close(a->file);
    atoll_timer_cancel(&a->turn);
    atoll_buf_done(&a->items);
    atoll_buf_done(&a->names);
    atoll_buf_done(&a->head);
    free(a->user);
    free(a->root);
    free(a);
}

static void client_gone(struct atoll_api_call *call)
{
    struct archive *a = call->state;

    a->gone = true;
    if (a->busy)
        return;
    archive_free(a);
    atoll_api_drop(call);
}

static void fail(struct archive *a, const struct atoll_error *error)
{
    struct atoll_api_call *call = a->call;
    bool begun = a->begun;

    archive_free(a);
    call->on_gone = NULL;
    if (begun)
        atoll_api_abort(call, error->text);
    else
        atoll_api_fail(call, error);
}

/* Whether only this file vanished, not the whole sandbox. */
static bool is_left_out(struct archive *a, const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_NOT_FOUND && a->begun &&
           atoll_engine_find(a->call->engine, a->call->params.id);
}

/* Call first in a callback of the engine; false when the client has disconnected meanwhile. */
static bool settle(struct archive *a)
{
    bool wanted = !a->gone;

    a->busy = false;
    if (!wanted)
        client_gone(a->call);
    return wanted;
}

/* Sending. */

static void send_next(struct archive *a);

static void pump(void *arg)
{
    struct archive *a = arg;
    struct atoll_error error;
    const uint8_t *piece;
    size_t sent = 0;
    int r = 0;

    if (a->turn.loop)
        return;

    while (a->left > 0 && atoll_http_pending(a->call->req) <= ATOLL_HTTP_HIGH_WATER) {
        ssize_t n;
        if (sent >= TURN_MAX) {
            atoll_timer_set(&a->turn, atoll_http_loop(a->call->req), 0, pump, a);
            return;
        }
        n = atoll_tenant_file_read(a->file, &piece);
        if (n == -EAGAIN)
            return; /* pump() is called again */
        r = n > 0 ? atoll_http_write(a->call->req, piece, (size_t)n) : n < 0 ? (int)n : -ENODATA;
        if (r < 0)
            break;
        a->left -= (uint64_t)n;
        sent += (size_t)n;
    }
    if (r == -EPIPE || (r == 0 && a->left > 0))
        return; /* on_gone or on_drain follows */
    if (r == 0)
        r = atoll_http_write(a->call->req, (uint8_t[ATOLL_TAR_BLOCK]){0},
                             atoll_tar_padding(a->size));
    if (r == -EPIPE)
        return;
    if (r < 0) {
        (void)atoll_fail(&error, ATOLL_ERR_ABORTED, -r, "a file became shorter while it was read");
        fail(a, &error);
        return;
    }
    a->file = atoll_tenant_file_close(a->file);
    send_next(a);
}

static void drained(void *arg, struct atoll_http_request *req)
{
    struct archive *a = arg;

    (void)req;
    if (a->file)
        pump(a);
    else if (!a->busy)
        send_next(a);
}

static const char *text_at(struct archive *a, size_t offset)
{
    return (const char *)atoll_buf_head(&a->names) + offset;
}

static void begin(struct archive *a)
{
    if (a->begun)
        return;
    a->begun = true;
    (void)atoll_http_set_header(a->call->req, "X-Content-Type-Options", "nosniff");
    atoll_api_begin(a->call, 200, "application/x-tar", -1);
}

static int send_head(struct archive *a, const struct item *item, uint64_t size)
{
    const struct atoll_tar_entry entry = {
        .type = item->type == ATOLL_ENTRY_DIRECTORY ? ATOLL_TAR_DIRECTORY
                : item->type == ATOLL_ENTRY_SYMLINK ? ATOLL_TAR_SYMLINK
                                                    : ATOLL_TAR_FILE,
        .name = text_at(a, item->path) + a->strip,
        .target = text_at(a, item->target),
        .owner = text_at(a, item->owner),
        .group = text_at(a, item->group),
        .mode = item->mode,
        .uid = item->uid,
        .gid = item->gid,
        .size = size,
        .mtime_s = item->mtime_ms / 1000,
    };
    int r;

    begin(a);
    atoll_buf_clear(&a->head);
    r = atoll_tar_head(&a->head, &entry);
    return r < 0
               ? r
               : atoll_http_write(a->call->req, atoll_buf_head(&a->head), atoll_buf_size(&a->head));
}

static void head_failed(struct archive *a, int r)
{
    struct atoll_error error;

    if (r == -EPIPE)
        return; /* on_gone follows */
    (void)atoll_fail_errno(&error, -r, "sending an archive");
    fail(a, &error);
}

static void opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                   const struct atoll_error *error)
{
    struct archive *a = arg;
    const struct item *item = (const struct item *)atoll_buf_head(&a->items) + a->next - 1;
    int r;

    a->file = file;
    if (!settle(a))
        return;
    if (error && is_left_out(a, error)) {
        send_next(a);
        return;
    }
    if (error) {
        fail(a, error);
        return;
    }
    a->size = a->left = size_bytes;
    atoll_tenant_file_cut(file, 0, size_bytes);
    atoll_tenant_file_on_ready(file, pump, a);
    r = send_head(a, item, size_bytes);
    if (r < 0)
        head_failed(a, r);
    else
        pump(a);
}

static void finish(struct archive *a)
{
    static const uint8_t end[2 * ATOLL_TAR_BLOCK];
    struct atoll_api_call *call = a->call;
    int r;

    begin(a); /* in case no entry was sent */
    r = atoll_http_write(call->req, end, sizeof(end));
    if (r < 0) {
        head_failed(a, r);
        return;
    }
    archive_free(a);
    atoll_api_end(call);
}

static void send_next(struct archive *a)
{
    size_t count = atoll_buf_size(&a->items) / sizeof(struct item);

    while (a->next < count && atoll_http_pending(a->call->req) <= ATOLL_HTTP_HIGH_WATER) {
        const struct item *item = (const struct item *)atoll_buf_head(&a->items) + a->next++;
        int r;
        if (item->type == ATOLL_ENTRY_FILE) {
            a->busy = true;
            atoll_files_open(a->call->engine, a->call->params.id, a->user, text_at(a, item->path),
                             opened, a);
            return;
        }
        if (item->type == ATOLL_ENTRY_OTHER)
            continue; /* sockets and pipes have no contents */
        r = send_head(a, item, 0);
        if (r < 0) {
            head_failed(a, r);
            return;
        }
    }
    if (a->next == count)
        finish(a);
}

/* Listing. */

static size_t keep_text(struct archive *a, const char *text, int *error)
{
    size_t at = atoll_buf_size(&a->names);
    int r = atoll_buf_append(&a->names, text, strlen(text) + 1);

    if (r < 0)
        *error = r;
    return at;
}

static void keep(void *arg, const struct atoll_am_entry *e)
{
    struct archive *a = arg;
    struct item item = {
        .type = e->type, .mode = e->mode, .uid = e->uid, .gid = e->gid, .mtime_ms = e->mtime_ms};
    int error = 0;

    item.path = keep_text(a, e->path, &error);
    item.owner = keep_text(a, e->owner, &error);
    item.group = keep_text(a, e->group, &error);
    item.target = keep_text(a, e->target ? e->target : "", &error);
    /* Omit entries outside of the requested directory: their names in the archive would be
     * wrong. */
    if (strncmp(e->path, a->root, a->strip) != 0)
        return;
    if (error == 0)
        error = atoll_buf_append(&a->items, &item, sizeof(item));
    if (error < 0)
        a->next = SIZE_MAX; /* too large: listed() reports it */
}

static void listed(void *arg, const struct atoll_error *error)
{
    struct archive *a = arg;
    struct atoll_error failed;

    if (!settle(a))
        return;
    if (!error && a->next == SIZE_MAX) {
        (void)atoll_fail(&failed, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                         "the directory has too many files; download its subdirectories");
        error = &failed;
    }
    if (error) {
        fail(a, error);
        return;
    }
    atoll_http_on_drain(a->call->req, drained, a);
    send_next(a);
}

static void begin_with(struct archive *a, const struct atoll_am_entry *e)
{
    size_t n = strlen(e->path);

    a->root = strdup(e->path);
    if (!a->root)
        abort();
    if (e->type == ATOLL_ENTRY_FILE) {
        const char *slash = strrchr(a->root, '/');
        a->strip = slash ? (size_t)(slash - a->root) + 1 : 0;
        keep(a, e);
        listed(a, NULL);
        return;
    }
    a->strip = n > 1 ? n + 1 : 1; /* including the slash */
    a->root = realloc(a->root, n + 2);
    if (!a->root)
        abort();
    if (n > 1)
        memcpy(a->root + n, "/", 2);
    a->busy = true;
    atoll_files_list(a->call->engine, a->call->params.id, a->user, e->path, DEPTH_MAX, keep, listed,
                     a);
}

static void found(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct archive *a = arg;
    struct atoll_error failed;

    if (!settle(a))
        return;
    if (!error && entry->type != ATOLL_ENTRY_DIRECTORY && entry->type != ATOLL_ENTRY_FILE) {
        (void)atoll_fail(&failed, ATOLL_ERR_INVALID_ARGUMENT, ENOTDIR,
                         "%.300s is neither a directory nor a file", entry->path);
        error = &failed;
    }
    if (error)
        fail(a, error);
    else
        begin_with(a, entry);
}

void atoll_rest_archive_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct archive *a;

    if (!atoll_rest_file_target(call, &t))
        return;
    a = atoll_api_alloc(sizeof(*a));
    a->call = call;
    a->user = t.user ? strdup(t.user) : NULL;
    atoll_buf_init(&a->items, NAMES_MAX);
    atoll_buf_init(&a->names, NAMES_MAX);
    atoll_buf_init(&a->head, (size_t)64 * 1024);
    call->state = a;
    call->on_gone = client_gone;
    a->busy = true;
    atoll_files_stat(call->engine, call->params.id, t.user, t.path, found, a);
}
