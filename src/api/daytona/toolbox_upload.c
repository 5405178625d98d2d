/*
 * Uploads: api/kit/form_upload.h writes the files of a form. In a form with several files, a part
 * "files[N].path" gives the path of the part "files[N].file" that follows.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/kit/form_upload.h"

#define FILES_MAX 10000

struct upload {
    struct atoll_form_upload form;
    struct atoll_api_call *call;
    char *path; /* owned: of the next file; or NULL */
    bool is_bulk;
    size_t count;
    struct atoll_buf files; /* JSON objects of the files written */
    struct atoll_json_out out;
};

static void upload_free(struct upload *u)
{
    atoll_buf_done(&u->files);
    free(u->path);
    free(u);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static int begin(void *arg, const char *name, const char *filename, const char **ret_path,
                 struct atoll_error *err)
{
    struct upload *u = arg;

    if (u->is_bulk && name && ends_with(name, ".path"))
        return 2;
    if (u->is_bulk ? !name || !ends_with(name, ".file") : name && strcmp(name, "file") != 0)
        return 0;
    if (!u->path)
        u->path = filename ? strdup(filename) : NULL;
    if (!u->path || !*u->path)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a file has no path");
    if (strlen(u->path) > ATOLL_TOOLBOX_PATH_MAX || ++u->count > FILES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a path is too long, or there are more than %d files", FILES_MAX);
    *ret_path = u->path;
    return 1;
}

static int value(void *arg, const char *text, struct atoll_error *err)
{
    struct upload *u = arg;

    free(u->path);
    u->path = strdup(text);
    return u->path ? 0 : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
}

static void written(void *arg, const struct atoll_am_entry *entry)
{
    struct upload *u = arg;

    (void)entry;
    atoll_json_open(&u->out, NULL, '{');
    atoll_json_bytes(&u->out, "path", u->path, strlen(u->path));
    atoll_json_u64(&u->out, "bytes", u->form.bytes);
    atoll_json_close(&u->out, '}');
    free(ATOLL_TAKE_PTR(u->path));
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
    bool is_full =
        stage == ATOLL_FORM_WRITE && (error->errnum == ENOSPC || error->errnum == EDQUOT);
    char text[ATOLL_ERROR_TEXT_MAX + ATOLL_TOOLBOX_PATH_MAX];
    struct atoll_buf buf;
    struct atoll_json_out out;

    (void)snprintf(text, sizeof(text), "%s%s%s", u->path ? u->path : "", u->path ? ": " : "",
                   is_full ? "no space left on the disk of the sandbox" : error->text);
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
    else if (error->kind == ATOLL_ERR_INTERNAL || error->kind == ATOLL_ERR_UNAVAILABLE)
        atoll_api_fail(u->call, error);
    else if (u->is_bulk)
        reply_error(u, stage, error);
    else
        atoll_toolbox_path_fail(u->call, error);
    upload_free(u);
}

static void start(struct atoll_api_call *call, char *path, bool is_bulk)
{
    struct upload *u = atoll_api_alloc(sizeof(*u));
    struct atoll_error error;

    u->call = call;
    u->path = path;
    u->is_bulk = is_bulk;
    atoll_buf_init(&u->files, ATOLL_API_REPLY_MAX / 2);
    atoll_json_out_init(&u->out, &u->files);
    u->form = (struct atoll_form_upload){
        .call = call, .arg = u, .begin = begin, .value = value, .written = written, .ended = ended};
    if (atoll_form_upload_start(&u->form, &error) < 0)
        ended(u, ATOLL_FORM_BODY, &error);
}

void atoll_daytona_file_bulk_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                    size_t n ATOLL_UNUSED)
{
    start(call, NULL, true);
}

void atoll_daytona_file_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");
    char *own = path ? strdup(path) : NULL;

    if (path && !own)
        abort();
    if (own)
        start(call, own, false);
}
