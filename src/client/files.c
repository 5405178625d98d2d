/* Files of a sandbox. Contents are streamed; only atoll_client_file_read() limits the size. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "client/link.h"

struct file {
    struct atoll_client_file public; /* first: what the caller has a pointer to */
    json_t *entry;                   /* owned */
};

static unsigned mode_of(const json_t *entry)
{
    unsigned mode = 0;

    for (const char *p = atoll_link_text(entry, "mode", ""); *p >= '0' && *p <= '7'; p++)
        mode = (mode << 3 | (unsigned)(*p - '0')) & 07777;
    return mode;
}

static int file_new(json_t *entry, struct atoll_client_file **ret_file, struct atoll_error *err)
{
    struct file *file = calloc(1, sizeof(*file));

    if (!file)
        return atoll_fail_errno(err, ENOMEM, "file");
    file->entry = json_incref(entry);
    file->public = (struct atoll_client_file){
        .path = atoll_link_text(entry, "path", ""),
        .name = atoll_link_text(entry, "name", ""),
        .type = atoll_link_text(entry, "type", "other"),
        .target = atoll_link_text(entry, "target", ""),
        .owner = atoll_link_text(entry, "owner", ""),
        .group = atoll_link_text(entry, "group", ""),
        .modified_at = atoll_link_text(entry, "mtime", ""),
        .mode = mode_of(entry),
        .size = atoll_link_count(entry, "size"),
    };
    *ret_file = &file->public;
    return 0;
}

void atoll_client_file_free(struct atoll_client_file *public)
{
    struct file *file = (struct file *)public;

    if (file) {
        json_decref(file->entry);
        free(file);
    }
}

void atoll_client_file_list_free(struct atoll_client_file **files)
{
    for (struct atoll_client_file **file = files; file && *file; file++)
        atoll_client_file_free(*file);
    free(files);
}

/* A file, for requests to /api/sandboxes/ID/files<what>?path=PATH&user=USER<&query>. */
struct place {
    const char *sandbox_id, *user, *path;
};

static int target_of(const struct place *place, const char *what, const char *query,
                     struct atoll_link_target *ret, struct atoll_error *err)
{
    struct atoll_link_target path, user = {""};
    int r = atoll_link_check_id("sandbox", place->sandbox_id, err), n;

    if (r == 0 && !place->path)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no path");
    if (r == 0)
        r = atoll_link_target(&path, err, "?path=%s", place->path);
    if (r == 0 && place->user)
        r = atoll_link_target(&user, err, "&user=%s", place->user);
    if (r < 0)
        return r;
    n = snprintf(ret->text, sizeof(ret->text), "/api/sandboxes/%s/files%s%.*s%.*s%s",
                 place->sandbox_id, what, (int)strlen(path.text), path.text, (int)strlen(user.text),
                 user.text, query);
    if ((size_t)n >= sizeof(ret->text))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    return 0;
}

static int call(struct atoll_client *client, const char *method, const struct place *place,
                const char *what, const char *query, json_t **ret_reply, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = target_of(place, what, query, &target, err);
    return r < 0 ? r : atoll_link_call(client, method, target.text, NULL, ret_reply, err);
}

/* Reading. */

struct sink {
    int fd;                /* or -1: store in buf */
    struct atoll_buf *buf; /* borrowed */
    int error;             /* of the last write, negative errno */
};

static int write_sink(void *arg, const void *bytes, size_t n)
{
    struct sink *sink = arg;

    sink->error =
        sink->buf ? atoll_buf_append(sink->buf, bytes, n) : atoll_fd_write_all(sink->fd, bytes, n);
    return sink->error;
}

static int read_into(struct atoll_client *client, const struct place *place, struct sink *sink,
                     struct atoll_error *err)
{
    struct atoll_http_transfer transfer = {.length = -1, .write = write_sink, .arg = sink};
    struct atoll_link_target target;
    int r = target_of(place, "", "", &target, err);

    if (r == 0)
        r = atoll_link_stream(client, "GET", target.text, &transfer, NULL, err);
    if (r < 0 && sink->error == -ENOBUFS)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the file is larger than %zu bytes: read it into a descriptor",
                          ATOLL_CLIENT_FILE_READ_MAX);
    if (r < 0 && sink->error < 0)
        return atoll_fail_errno(err, -sink->error, "writing the file's content");
    return r;
}

int atoll_client_file_read(struct atoll_client *client, const char *sandbox_id, const char *user,
                           const char *path, void **ret_bytes, size_t *ret_size,
                           struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct atoll_buf buf;
    struct sink sink = {.fd = -1, .buf = &buf};
    struct atoll_error err;
    int r;

    atoll_buf_init(&buf, ATOLL_CLIENT_FILE_READ_MAX + 1);
    r = read_into(client, &place, &sink, &err);
    if (r == 0 && atoll_buf_append(&buf, "", 1) < 0)
        r = atoll_fail_errno(&err, ENOMEM, "file");
    if (r == 0) {
        *ret_size = atoll_buf_size(&buf) - 1;
        *ret_bytes =
            ATOLL_TAKE_PTR(buf.data); /* nothing was consumed: the content begins at data */
    }
    atoll_buf_done(&buf);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_file_read_fd(struct atoll_client *client, const char *sandbox_id, const char *user,
                              const char *path, int fd, struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct sink sink = {.fd = fd};
    struct atoll_error err;
    int r = read_into(client, &place, &sink, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* Writing. */

struct source {
    int fd; /* or -1: send from memory */
    const uint8_t *bytes;
    size_t left;
};

static ssize_t read_source(void *arg, void *buf, size_t n)
{
    struct source *source = arg;
    ssize_t r;

    if (source->fd >= 0) {
        do
            r = read(source->fd, buf, n);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r;
    }
    n = ATOLL_MIN(n, source->left);
    if (n > 0)
        memcpy(buf, source->bytes, n);
    source->bytes += n;
    source->left -= n;
    return (ssize_t)n;
}

static int write_from(struct atoll_client *client, const struct place *place, unsigned mode,
                      struct source *source, struct atoll_error *err)
{
    struct atoll_http_transfer transfer = {
        .read = read_source,
        .length = source->fd >= 0 ? -1 : (int64_t)source->left,
        .arg = source,
    };
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    char query[24] = "";
    int r;

    if (mode)
        (void)snprintf(query, sizeof(query), "&mode=%04o", mode & 07777);
    r = target_of(place, "", query, &target, err);
    return r < 0 ? r : atoll_link_stream(client, "PUT", target.text, &transfer, &reply, err);
}

int atoll_client_file_write(struct atoll_client *client, const char *sandbox_id, const char *user,
                            const char *path, unsigned mode, const void *bytes, size_t size,
                            struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct source source = {.fd = -1, .bytes = bytes, .left = size};
    struct atoll_error err;
    int r = write_from(client, &place, mode, &source, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_file_write_fd(struct atoll_client *client, const char *sandbox_id,
                               const char *user, const char *path, unsigned mode, int fd,
                               struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct source source = {.fd = fd};
    struct atoll_error err;
    int r = fd < 0 ? atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EBADF, "invalid file descriptor")
                   : write_from(client, &place, mode, &source, &err);
    return atoll_link_conclude(client, r, &err, error);
}

/* Other operations. */

int atoll_client_file_stat(struct atoll_client *client, const char *sandbox_id, const char *user,
                           const char *path, struct atoll_client_file **ret_file,
                           struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_error err;
    int r = call(client, "GET", &place, "/stat", "", &reply, &err);

    if (r == 0)
        r = file_new(reply, ret_file, &err);
    return atoll_link_conclude(client, r, &err, error);
}

static int list(struct atoll_client *client, const struct place *place, unsigned depth,
                struct atoll_client_file ***ret_files, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_client_file **files;
    json_t *entries;
    char query[24];
    size_t n;
    int r;

    (void)snprintf(query, sizeof(query), "&depth=%u", depth ? depth : 1);
    r = call(client, "GET", place, "/list", query, &reply, err);
    if (r < 0)
        return r;
    entries = json_object_get(reply, "entries");
    n = json_array_size(entries);
    files = calloc(n + 1, sizeof(struct atoll_client_file *));
    if (!files)
        return atoll_fail_errno(err, ENOMEM, "list");
    for (size_t i = 0; r == 0 && i < n; i++)
        r = file_new(json_array_get(entries, i), &files[i], err);
    if (r < 0)
        atoll_client_file_list_free(files);
    else
        *ret_files = files;
    return r < 0 ? r : (int)n;
}

int atoll_client_file_list(struct atoll_client *client, const char *sandbox_id, const char *user,
                           const char *path, unsigned depth, struct atoll_client_file ***ret_files,
                           struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct atoll_error err;
    int r = list(client, &place, depth, ret_files, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_file_remove(struct atoll_client *client, const char *sandbox_id, const char *user,
                             const char *path, bool recursive, struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct atoll_error err;
    int r = call(client, "DELETE", &place, "", recursive ? "&recursive=true" : "", NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_file_mkdir(struct atoll_client *client, const char *sandbox_id, const char *user,
                            const char *path, struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct atoll_error err;
    int r = call(client, "POST", &place, "/mkdir", "", NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_file_move(struct atoll_client *client, const char *sandbox_id, const char *user,
                           const char *path, const char *to, struct atoll_client_error *error)
{
    const struct place place = {sandbox_id, user, path};
    struct atoll_link_target query;
    struct atoll_error err;
    int r = to ? atoll_link_target(&query, &err, "&to=%s", to)
               : atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no path");

    if (r == 0)
        r = call(client, "POST", &place, "/move", query.text, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}
