/*
 * Uploads: api/kit/form_upload.h writes the files of a form. In a form with several files, a part
 * "files[N].path" gives the path of a later part "files[N].file".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/kit/form_upload.h"
#include "base/text.h"

#define FILES_MAX 10000

struct upload {
    struct atoll_form_upload form;
    struct atoll_api_call *call;
    char **paths; /* owned, and so are its members: by N, or NULL */
    size_t path_cap;
    uint64_t index;   /* N of the current part */
    const char *path; /* of the current file, or NULL */
    bool is_bulk;
    struct atoll_buf files; /* JSON objects of the files written */
    struct atoll_json_out out;
};

static void upload_free(struct upload *u)
{
    for (size_t i = 0; i < u->path_cap; i++)
        free(u->paths[i]);
    free(u->paths);
    atoll_buf_done(&u->files);
    free(u);
}

/* Stores a copy of the path. */
static int keep_path(struct upload *u, uint64_t index, const char *path, struct atoll_error *err)
{
    size_t cap = ATOLL_MAX((size_t)index + 1, 2 * u->path_cap);
    char **paths = u->paths, *own = strdup(path);

    if (index >= u->path_cap) {
        paths = realloc(u->paths, cap * sizeof(*paths));
        if (paths) {
            memset(paths + u->path_cap, 0, (cap - u->path_cap) * sizeof(*paths));
            u->paths = paths;
            u->path_cap = cap;
        }
    }
    if (!paths || !own) {
        free(own);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    }
    free(u->paths[index]);
    u->paths[index] = own;
    return 0;
}

/* Takes N of "files[N].MEMBER"; false for any other name. */
static bool take_index(struct upload *u, const char *name, const char *member)
{
    char number[8], rest[8];

    return name && sscanf(name, "files[%7[0-9]].%7s", number, rest) == 2 &&
           strcmp(rest, member) == 0 && atoll_text_u64(number, 0, FILES_MAX - 1, &u->index) == 0;
}

static int begin(void *arg, const char *name, const char *filename, const char **ret_path,
                 struct atoll_error *err)
{
    struct upload *u = arg;

    u->path = NULL;
    if (u->is_bulk && take_index(u, name, "path"))
        return 2;
    if (u->is_bulk ? !take_index(u, name, "file") : name && strcmp(name, "file") != 0)
        return 0;
    if ((u->index >= u->path_cap || !u->paths[u->index]) && filename &&
        keep_path(u, u->index, filename, err) < 0)
        return -ENOMEM;
    u->path = u->index < u->path_cap ? u->paths[u->index] : NULL;
    if (!u->path || !*u->path || strlen(u->path) > ATOLL_TOOLBOX_PATH_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a file has no path, or a longer one than %d bytes",
                          ATOLL_TOOLBOX_PATH_MAX);
    *ret_path = u->path;
    return 1;
}

static int value(void *arg, const char *text, struct atoll_error *err)
{
    struct upload *u = arg;

    return keep_path(u, u->index, text, err);
}

static void written(void *arg, const struct atoll_am_entry *entry)
{
    struct upload *u = arg;

    (void)entry;
    atoll_json_open(&u->out, NULL, '{');
    atoll_json_bytes(&u->out, "path", u->path, strlen(u->path));
    atoll_json_u64(&u->out, "bytes", u->form.bytes);
    atoll_json_close(&u->out, '}');
    atoll_form_upload_next(&u->form, NULL);
}

static void reply_files(struct upload *u, struct atoll_json_out *out)
{
    atoll_json_open(out, "files", '[');
    if (out->error == 0 && atoll_buf_size(&u->files) > 0)
        out->error =
            atoll_buf_append(out->buf, atoll_buf_head(&u->files), atoll_buf_size(&u->files));
    atoll_json_close(out, ']');
}

/* Each problem is a 400 for these clients, with the text in "errors"; "message" is what they show. */
static void reply_error(struct upload *u, enum atoll_form_upload_stage stage,
                        const struct atoll_error *error)
{
    bool is_full = atoll_errno_is_full(error->errnum);
    char text[ATOLL_ERROR_TEXT_MAX + ATOLL_TOOLBOX_PATH_MAX];
    struct atoll_buf buf;
    struct atoll_json_out out;

    (void)snprintf(text, sizeof(text), "%s%s%s", u->path ? u->path : "", u->path ? ": " : "",
                   is_full                     ? "no space left on the disk of the sandbox"
                   : stage == ATOLL_FORM_WRITE ? strerror(error->errnum)
                                               : error->text);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_daytona_error_members(&out, u->call, 400, NULL, text);
    atoll_json_open(&out, "errors", '[');
    atoll_json_text(&out, NULL, text);
    atoll_json_close(&out, ']');
    reply_files(u, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(u->call, 400, &out);
}

static void reply_written(struct upload *u)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    reply_files(u, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(u->call, 200, &out);
}

static void ended(void *arg, enum atoll_form_upload_stage stage, const struct atoll_error *error)
{
    struct upload *u = arg;

    if (!error)
        reply_written(u);
    else if (error->kind == ATOLL_ERR_CANCELED && !u->call->req)
        atoll_api_drop(u->call);
    else if (u->is_bulk && (stage == ATOLL_FORM_WRITE || error->kind != ATOLL_ERR_INTERNAL))
        reply_error(u, stage, error);
    else if (stage == ATOLL_FORM_WRITE)
        atoll_daytona_refuse(u->call, 507, NULL, "%s", strerror(error->errnum));
    else
        atoll_toolbox_path_fail(u->call, error);
    upload_free(u);
}

/* path: of the only file; NULL: the form names the paths. */
static void start(struct atoll_api_call *call, const char *path)
{
    struct upload *u = atoll_api_alloc(sizeof(*u));
    struct atoll_error error;

    u->call = call;
    u->is_bulk = !path;
    atoll_buf_init(&u->files, ATOLL_API_REPLY_MAX / 2);
    atoll_json_out_init(&u->out, &u->files);
    u->form = (struct atoll_form_upload){
        .call = call, .arg = u, .begin = begin, .value = value, .written = written, .ended = ended};
    if ((path && keep_path(u, 0, path, &error) < 0) ||
        atoll_form_upload_start(&u->form, &error) < 0)
        ended(u, ATOLL_FORM_BODY, &error);
}

void atoll_daytona_file_bulk_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                    size_t n ATOLL_UNUSED)
{
    start(call, NULL);
}

void atoll_daytona_file_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");

    if (path)
        start(call, path);
}
