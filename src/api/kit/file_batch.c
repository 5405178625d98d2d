#include "api/kit/file_batch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/call.h"
#include "base/base64.h"

struct file_fields {
    const char *path, *mode, *data_base64;
    const json_t *data;
};

#define AT(member) offsetof(struct file_fields, member)
static const struct atoll_field file_fields[] = {
    {"path", ATOLL_FIELD_STRING, AT(path), 1, 4095, NULL, 0},
    {"mode", ATOLL_FIELD_STRING, AT(mode), 3, 5, NULL, 0},
    {"data", ATOLL_FIELD_JSON, AT(data), 0, 0, NULL, 0},
    {"data_base64", ATOLL_FIELD_STRING, AT(data_base64), 0, ATOLL_BODY_FILES, NULL, 0},
    {0},
};
#undef AT

static int take_data(const struct file_fields *f, const char *where, struct atoll_buf *out,
                     struct atoll_error *err)
{
    int r;

    atoll_buf_clear(out);
    if (f->data && !json_is_string(f->data))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s.data must be a string",
                          where);
    r = f->data ? atoll_buf_append(out, json_string_value(f->data), json_string_length(f->data))
                : atoll_base64_decode(out, f->data_base64, strlen(f->data_base64));
    if (r == -EINVAL)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s.data_base64 is not valid base64", where);
    return r < 0 ? atoll_fail_errno(err, -r, "%s", where) : 0;
}

static int decode_file(struct atoll_body *body, const json_t *files, size_t i,
                       struct atoll_buf *data, struct file_fields *ret, uint32_t *ret_mode,
                       struct atoll_error *err)
{
    struct atoll_field_set set = {file_fields, ret};
    const json_t *object = json_array_get(files, i);
    char where[32];
    int r;

    *ret = (struct file_fields){0};
    *ret_mode = 0;
    (void)snprintf(where, sizeof(where), "files[%zu]", i);
    if (!json_is_object(object))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be an object", where);
    r = atoll_fields_decode(body, object, where, &set, 1, err);
    if (r < 0)
        return r;
    if (!ret->path || !ret->data == !ret->data_base64)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s needs path, and one of data and data_base64", where);
    if (ret->mode && atoll_api_parse_mode(ret->mode, ret_mode) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s.mode must be permission bits in octal, such as \"0644\"", where);
    return take_data(ret, where, data, err);
}

int atoll_file_batch_check(struct atoll_body *body, const json_t *files, struct atoll_error *err)
{
    struct atoll_buf data;
    int r = 0;

    if (files && (!json_is_array(files) || json_array_size(files) > ATOLL_FILE_BATCH_MAX))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "files must be an array of at most %d objects", ATOLL_FILE_BATCH_MAX);
    atoll_buf_init(&data, ATOLL_BODY_FILES);
    for (size_t i = 0; r == 0 && i < json_array_size(files); i++) {
        struct file_fields file;
        uint32_t mode;
        r = decode_file(body, files, i, &data, &file, &mode, err);
    }
    atoll_buf_done(&data);
    return r;
}

/* Writing the files. */

static void finish(struct atoll_file_batch *b, const struct atoll_error *error)
{
    atoll_buf_done(&b->data);
    b->done(b->arg, error);
}

static void finish_failed(struct atoll_file_batch *b, const struct atoll_error *error)
{
    struct atoll_error named = *error;

    (void)atoll_wrap(&named, "files[%zu]", b->next - 1);
    finish(b, &named);
}

static void write_next(struct atoll_file_batch *b);

static void file_there(void *arg, const struct atoll_am_entry *entry,
                       const struct atoll_error *error)
{
    struct atoll_file_batch *b = arg;

    if (error) {
        finish_failed(b, error);
        return;
    }
    if (b->each)
        b->each(b->arg, entry);
    write_next(b);
}

static void write_next(struct atoll_file_batch *b)
{
    struct file_fields file;
    struct atoll_error error;
    uint32_t mode;

    if (b->next == json_array_size(b->files))
        finish(b, NULL);
    else if (decode_file(b->body, b->files, b->next++, &b->data, &file, &mode, &error) < 0)
        finish(b, &error);
    else
        atoll_files_put(b->engine, b->sandbox_id, b->user, file.path, mode,
                        atoll_buf_head(&b->data), atoll_buf_size(&b->data), file_there, b);
}

void atoll_file_batch_write(struct atoll_file_batch *b)
{
    atoll_buf_init(&b->data, ATOLL_BODY_FILES);
    b->next = 0;
    write_next(b);
}
