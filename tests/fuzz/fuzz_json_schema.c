/*
 * Schemas of tools, values for them, and texts with places. The input is {"schema", "value", "text"}: a schema
 * that was accepted judges any value without a fault, and a text is filled without a change outside of its places.
 */
#include <string.h>
#include "fuzz.h"
#include "registry/json_schema.h"
#include "registry/places.h"

static void check_schema(const json_t *schema, const json_t *value)
{
    struct atoll_error err;

    if (atoll_json_schema_check(schema, "s", &err) < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
    } else if (value && atoll_json_schema_apply(schema, value, "", &err) < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
        FUZZ_CHECK(strnlen(err.text, sizeof(err.text)) < sizeof(err.text));
    }
}

static void check_places(const char *text, const json_t *values)
{
    const char *at = text;
    struct atoll_place place;
    struct atoll_error err;
    struct atoll_buf out;
    size_t literal = 0;
    int r;

    while (atoll_places_next(&at, &place)) {
        FUZZ_CHECK(place.n > 0);
        literal += place.is_place ? 0 : place.n;
    }
    atoll_buf_init(&out, 1 << 20);
    r = atoll_places_fill(text, values, &out);
    if (r > 0)
        FUZZ_CHECK(atoll_buf_size(&out) >= literal);
    if (atoll_places_check(text, values, "t", &err) == 0)
        FUZZ_CHECK(r != 0);
    if (!atoll_places_has(text))
        FUZZ_CHECK(r != 1 || atoll_buf_size(&out) == literal);
    (void)atoll_places_value(text, values);
    atoll_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    const char *text = json_string_value(json_object_get(root, "text"));
    const json_t *value = json_object_get(root, "value");

    if (json_object_get(root, "schema"))
        check_schema(json_object_get(root, "schema"), value);
    if (text)
        check_places(text, value);
    json_decref(root);
    return 0;
}
