#include "api/kit/secret_body.h"

#include <errno.h>
#include <string.h>

int atoll_secret_body_decode(struct atoll_secret_body *ret, const uint8_t *bytes, size_t n,
                             const struct atoll_field *table, struct atoll_error *err)
{
    const struct atoll_field_set set = {table, ret};
    int r;

    *ret = (struct atoll_secret_body){0};
    r = atoll_body_parse(&ret->body, bytes, n, err);
    if (r < 0) /* the parser quotes the text where it stopped */
        return err->kind == ATOLL_ERR_INVALID_ARGUMENT
                   ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                "the body is not a valid JSON object")
                   : r;
    r = atoll_fields_decode(&ret->body, ret->body.root, "", &set, 1, err);
    if (r < 0)
        return r;
    if (!json_is_string(ret->given))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "value must be a string of 1 to %zu bytes", ATOLL_SECRET_VALUE_MAX);
    ret->value = json_string_value(ret->given);
    ret->value_len = json_string_length(ret->given);
    return 0;
}

void atoll_secret_body_done(struct atoll_secret_body *body)
{
    /* jansson's own memory, which it is about to free. */
    if (json_is_string(body->given))
        explicit_bzero((void *)(uintptr_t)json_string_value(body->given),
                       json_string_length(body->given));
    atoll_body_done(&body->body);
}
