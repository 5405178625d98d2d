#include "image/json.h"

#include <errno.h>
#include <string.h>
#include "image/manifest.h"

int atoll_image_json_load(const char *bytes, size_t n, json_t **ret, struct atoll_error *err)
{
    json_t *json;

    if (n > ATOLL_IMAGE_DOCUMENT_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "a document of the image is longer than 4 MiB");
    json = json_loadb(bytes ? bytes : "", n, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) {
        json_decref(json);
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the image is malformed: a document is not a JSON object");
    }
    *ret = json;
    return 0;
}

bool atoll_image_json_text(const json_t *json, const char *name, char *out, size_t cap)
{
    const json_t *value = json_object_get(json, name);
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);

    out[0] = '\0';
    if (!value || json_is_null(value))
        return true;
    if (!text || n >= cap || strlen(text) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    memcpy(out, text, n + 1);
    return true;
}
