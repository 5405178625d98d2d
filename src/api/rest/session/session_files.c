#include "api/rest/session/session_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/call.h"
#include "base/base64.h"

#define FILES_MAX 256
#define PATH_MAX_BYTES 4095

struct file_fields {
    const char *path, *mode;
    const json_t *content, *content_base64;
};

#define AT(member) offsetof(struct file_fields, member)
static const struct atoll_field file_fields[] = {
    {"path", ATOLL_FIELD_STRING, AT(path), 1, PATH_MAX_BYTES, NULL, 0},
    {"mode", ATOLL_FIELD_STRING, AT(mode), 3, 5, NULL, 0},
    {"content", ATOLL_FIELD_JSON, AT(content), 0, 0, NULL, 0},
    {"content_base64", ATOLL_FIELD_JSON, AT(content_base64), 0, 0, NULL, 0},
    {0},
};
#undef AT

static int refuse(struct atoll_error *err, const char *where, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s%s%s", where, *where ? " " : "",
                      what);
}

/* Decodes in place: the text belongs to the body and is not used again, and three bytes are
 * shorter than four characters. */
static int decode_base64(const json_t *value, const char *where, struct atoll_session_file *ret,
                         struct atoll_error *err)
{
    char *text = (char *)json_string_value(value);
    size_t n = json_string_length(value);
    ssize_t len = json_is_string(value) ? atoll_base64_bytes(text, n, text, n) : -EINVAL;

    if (len < 0)
        return refuse(err, where, "content_base64 must be a string in base64");
    ret->bytes = (const uint8_t *)text;
    ret->len = (size_t)len;
    return 0;
}

static int take_content(const struct file_fields *f, const char *where,
                        struct atoll_session_file *ret, struct atoll_error *err)
{
    if (!f->content == !f->content_base64)
        return refuse(err, where, "needs either content or content_base64");
    if (f->content_base64)
        return decode_base64(f->content_base64, where, ret, err);
    if (!json_is_string(f->content))
        return refuse(err, where, "content must be a string");
    ret->bytes = (const uint8_t *)json_string_value(f->content);
    ret->len = json_string_length(f->content);
    return 0;
}

int atoll_rest_session_file_decode(const json_t *object, const char *where, struct atoll_body *body,
                                   struct atoll_session_file *ret, struct atoll_error *err)
{
    struct file_fields f = {0};
    struct atoll_field_set set = {file_fields, &f};
    int r = json_is_object(object) ? atoll_fields_decode(body, object, where, &set, 1, err)
                                   : refuse(err, where, "must be an object");

    if (r < 0)
        return r;
    if (!f.path)
        return refuse(err, where, "needs a path");
    *ret = (struct atoll_session_file){.path = f.path};
    if (f.mode && atoll_api_parse_mode(f.mode, &ret->mode) < 0)
        return refuse(err, where, "mode must be permission bits in octal, such as \"0644\"");
    return take_content(&f, where, ret, err);
}

static int decode_array(const json_t *value, struct atoll_body *body,
                        struct atoll_session_file *files, struct atoll_error *err)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        char where[32];
        int r;
        (void)snprintf(where, sizeof(where), "files[%zu]", i);
        r = atoll_rest_session_file_decode(json_array_get(value, i), where, body, &files[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int decode_mapping(const json_t *value, struct atoll_session_file *files,
                          struct atoll_error *err)
{
    json_t *content, *object = (json_t *)value; /* jansson's iterators are not const */
    const char *path;
    size_t i = 0;

    json_object_foreach(object, path, content)
    {
        if (!*path || strlen(path) > PATH_MAX_BYTES)
            return refuse(err, "files:", "a path must have 1 to 4095 bytes");
        if (!json_is_string(content))
            return atoll_fields_refuse(err, "files", path, content, "a string");
        files[i++] = (struct atoll_session_file){
            .path = path,
            .bytes = (const uint8_t *)json_string_value(content),
            .len = json_string_length(content),
        };
    }
    return 0;
}

int atoll_rest_session_files_decode(const json_t *value, struct atoll_body *body,
                                    struct atoll_rest_session_files *ret, struct atoll_error *err)
{
    size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    struct atoll_session_file *files;
    int r;

    *ret = (struct atoll_rest_session_files){0};
    if (!value)
        return 0;
    if ((!json_is_array(value) && !json_is_object(value)) || n > FILES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "files must be an array of at most %d objects with path and content, or "
                          "an object from paths to texts",
                          FILES_MAX);
    files = atoll_api_alloc((n + 1) * sizeof(*files));
    atoll_body_take(body, files);
    r = json_is_array(value) ? decode_array(value, body, files, err)
                             : decode_mapping(value, files, err);
    if (r == 0)
        *ret = (struct atoll_rest_session_files){files, n};
    return r;
}
