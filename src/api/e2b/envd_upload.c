/*
 * POST /files: one file as the body, or several in a form; api/kit/form_upload.h writes them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/envd_files.h"
#include "api/kit/form_upload.h"

#define FILES_MAX 4096
#define PATH_MAX_BYTES 4095
#define PATHS_MAX ((size_t)1024 * 1024)

struct upload {
    struct atoll_form_upload form;
    struct atoll_api_call *call;
    char user[ATOLL_ENVD_USER_MAX];
    char *path; /* owned: from the query, or "" */
    struct atoll_envd_metadata metadata;
    /* the files already written */
    struct atoll_buf paths; /* as in the request, each with its NUL */
    char *written;          /* owned: the last one, absolute */
    size_t count;
    struct atoll_buf reply;
    struct atoll_json_out json;
};

static void upload_free(struct upload *u)
{
    atoll_envd_metadata_done(&u->metadata);
    atoll_buf_done(&u->paths);
    atoll_buf_done(&u->reply);
    free(u->path);
    free(u->written);
    free(u);
}

/* Choosing the path. */

static bool was_written(const struct upload *u, const char *path)
{
    const char *known = (const char *)atoll_buf_head(&u->paths);

    for (size_t at = 0; at < atoll_buf_size(&u->paths); at += strlen(known + at) + 1)
        if (strcmp(known + at, path) == 0)
            return true;
    return false;
}

static int begin(void *arg, const char *name, const char *filename, const char **ret_path,
                 struct atoll_error *err)
{
    struct upload *u = arg;
    const char *path = *u->path ? u->path : filename;

    if (name && strcmp(name, "file") != 0)
        return 0;
    if (!path || !*path)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "path or a file name is needed");
    if (strlen(path) > PATH_MAX_BYTES || ++u->count > FILES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a path is too long, or there are too many files");
    if (was_written(u, path))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EEXIST,
            "you cannot upload multiple files to the same path '%.200s' in one request", path);
    if (atoll_buf_append(&u->paths, path, strlen(path) + 1) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOBUFS, "the paths are too long");
    *ret_path = path;
    return 1;
}

/* The answer. */

static void write_metadata(struct upload *u)
{
    const char *pairs = (const char *)atoll_buf_head(&u->metadata.pairs), *name;

    if (atoll_buf_size(&u->metadata.pairs) == 0)
        return;
    atoll_json_open(&u->json, "metadata", '{');
    for (size_t at = 0; at < atoll_buf_size(&u->metadata.pairs);) {
        name = pairs + at;
        at += strlen(name) + 1;
        atoll_json_text(&u->json, name + strlen(ATOLL_ENVD_ATTRIBUTES), pairs + at);
        at += strlen(pairs + at) + 1;
    }
    atoll_json_close(&u->json, '}');
}

static void on_metadata(void *arg, const struct atoll_error *error)
{
    struct upload *u = arg;

    if (!error) {
        atoll_json_open(&u->json, NULL, '{');
        atoll_json_text(&u->json, "name", atoll_entry_name(u->written));
        atoll_json_text(&u->json, "path", u->written);
        atoll_json_text(&u->json, "type", "file");
        write_metadata(u);
        atoll_json_close(&u->json, '}');
    }
    atoll_form_upload_next(&u->form, error);
}

static void written(void *arg, const struct atoll_am_entry *entry)
{
    struct upload *u = arg;

    free(u->written);
    u->written = strdup(entry->path);
    if (!u->written)
        abort();
    atoll_envd_metadata_apply(&u->metadata, u->call->engine, u->call->params.id, u->user,
                              u->written, on_metadata, u);
}

static void fail_write(const struct upload *u, int errnum)
{
    int64_t size = atoll_http_content_length(u->call->req);
    bool is_full = atoll_errno_is_full(errnum);
    char text[120];

    /* The file's size is known only if the body is the file itself, without compression. */
    if (u->form.is_form || atoll_http_header(u->call->req, "content-encoding"))
        size = -1;
    if (!is_full)
        (void)snprintf(text, sizeof(text), "error writing file: %s", strerror(errnum));
    else
        (void)snprintf(text, sizeof(text),
                       "attempted to write %s%llu bytes: not enough disk space available",
                       size < 0 ? "at least " : "",
                       size < 0 ? (unsigned long long)u->form.bytes : (unsigned long long)size);
    atoll_envd_fail(u->call, is_full ? 507 : 500, text);
}

static void ended(void *arg, enum atoll_form_upload_stage stage, const struct atoll_error *error)
{
    struct upload *u = arg;

    if (!error) {
        atoll_json_close(&u->json, ']');
        atoll_api_reply(u->call, 200, &u->json);
    } else if (error->kind == ATOLL_ERR_CANCELED && !u->call->req) {
        atoll_api_drop(u->call);
    } else if (stage == ATOLL_FORM_WRITE) {
        fail_write(u, error->errnum);
    } else if (stage == ATOLL_FORM_PATH) {
        atoll_envd_path_fail(u->call, error, u->user);
    } else {
        atoll_envd_fail(u->call, error->kind == ATOLL_ERR_INVALID_ARGUMENT ? 400 : 500,
                        error->text);
    }
    upload_free(u);
}

void atoll_envd_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    const char *path = atoll_http_query(call->req, "path");
    struct upload *u = atoll_api_alloc(sizeof(*u));
    struct atoll_error error;

    u->call = call;
    u->path = strdup(path ? path : "");
    if (!u->path)
        abort();
    atoll_buf_init(&u->paths, PATHS_MAX);
    atoll_api_reply_init(&u->reply, &u->json);
    atoll_json_open(&u->json, NULL, '[');
    u->form = (struct atoll_form_upload){.call = call,
                                         .user = u->user,
                                         .arg = u,
                                         .begin = begin,
                                         .written = written,
                                         .ended = ended};
    if (!atoll_envd_query_user(call, u->user))
        upload_free(u);
    else if (atoll_envd_metadata_take(&u->metadata, call->req, &error) < 0 ||
             atoll_form_upload_start(&u->form, &error) < 0)
        ended(u, ATOLL_FORM_BODY, &error);
}
