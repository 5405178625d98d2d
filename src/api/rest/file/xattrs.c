/*
 * Extended attributes of files. Values are bytes; values that are not UTF-8 are returned, and can
 * be sent, in base64.
 */
#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/json_out.h"
#include "api/kit/list_reply.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"
#include "base/base64.h"

/* The kernel's own limits: XATTR_NAME_MAX and XATTR_SIZE_MAX. */
#define NAME_MAX_BYTES 255
#define VALUE_MAX ((size_t)64 * 1024)
#define BASE64_MAX ((VALUE_MAX + 2) / 3 * 4)

static void list_one(void *arg, const char *name, const uint8_t *value, size_t n)
{
    struct atoll_list_reply *l = arg;

    atoll_json_open(&l->out, name, '{');
    if (atoll_json_utf8_prefix(value, n) == n)
        atoll_json_bytes(&l->out, "value", value, n);
    else
        atoll_json_base64(&l->out, "base64", value, n);
    atoll_json_close(&l->out, '}');
}

void atoll_rest_xattr_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;

    if (atoll_rest_file_target(call, &t))
        atoll_files_xattrs(call->engine, call->params.id, t.user, t.path, list_one,
                           atoll_list_reply_done, atoll_list_reply_new(call, "attributes", '}'));
}

/* Setting: {"path","name","value"|"base64","user"?}. */

struct set_fields {
    const char *path, *name, *base64, *user;
    const json_t *value;
};

#define AT(member) offsetof(struct set_fields, member)
static const struct atoll_field set_fields[] = {
    {"path", ATOLL_FIELD_STRING, AT(path), 1, ATOLL_REST_PATH_MAX, NULL, 0},
    {"name", ATOLL_FIELD_STRING, AT(name), 1, NAME_MAX_BYTES, NULL, 0},
    {"value", ATOLL_FIELD_JSON, AT(value), 0, 0, NULL, 0},
    {"base64", ATOLL_FIELD_STRING, AT(base64), 0, BASE64_MAX, NULL, 0},
    {"user", ATOLL_FIELD_STRING, AT(user), 0, 64, NULL, 0},
    {0},
};
#undef AT

/* Decodes in place: the text belongs to the body and is not used again. */
static int take_value(const struct set_fields *f, const uint8_t **ret, size_t *ret_len,
                      struct atoll_error *err)
{
    char *text = (char *)f->base64;
    ssize_t n;

    if (!f->value == !f->base64)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "either value or base64 is needed: the value of the attribute");
    if (f->value && !json_is_string(f->value))
        return atoll_fields_refuse(err, "", "value", f->value, "a string");
    if (f->value) {
        *ret = (const uint8_t *)json_string_value(f->value);
        *ret_len = json_string_length(f->value);
    } else {
        n = atoll_base64_bytes(text, strlen(text), text, strlen(text));
        if (n < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "base64 is not valid base64");
        *ret = (const uint8_t *)text;
        *ret_len = (size_t)n;
    }
    if (*ret_len > VALUE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "the value of an attribute has at most %zu bytes", VALUE_MAX);
    return 0;
}

void atoll_rest_xattr_set(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct set_fields f = {0};
    const uint8_t *value = NULL;
    struct atoll_body body;
    struct atoll_error error;
    size_t len = 0;
    int r = atoll_body_decode(&body, bytes, n, set_fields, &f, &error);

    if (r == 0 && (!f.path || !f.name))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "path and name are both needed: the file and the attribute");
    if (r == 0)
        r = take_value(&f, &value, &len, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_files_set_xattr(call->engine, call->params.id, f.user && *f.user ? f.user : NULL,
                              f.path, f.name, value, len, atoll_rest_done, call);
    atoll_body_done(&body);
}

void atoll_rest_xattr_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    const char *name = atoll_http_query(call->req, "name");
    struct atoll_rest_file_target t;
    struct atoll_error error;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (!name || !*name || strlen(name) > NAME_MAX_BYTES) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "?name= is missing: the attribute, such as user.mime_type");
        atoll_api_fail(call, &error);
        return;
    }
    atoll_files_remove_xattr(call->engine, call->params.id, t.user, t.path, name, atoll_rest_done,
                             call);
}
