#include "registry/places.h"

#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "engine/json_memory.h"

/* Copies a name of n bytes; false: it is not one. */
static bool take_name(const char *text, size_t n, char name[static 65])
{
    if (n == 0 || n > 64)
        return false;
    memcpy(name, text, n);
    name[n] = '\0';
    return atoll_text_is_name(name);
}

/* The length of "{name}" at the text, 0 if there is none. */
static size_t place_at(const char *text)
{
    const char *end = *text == '{' ? strchr(text, '}') : NULL;
    char name[65];

    return end && take_name(text + 1, (size_t)(end - text - 1), name) ? (size_t)(end - text + 1)
                                                                      : 0;
}

bool atoll_places_next(const char **at, struct atoll_place *ret)
{
    const char *text = *at;
    size_t n = place_at(text), quoted = *text == '{' ? place_at(text + 1) : 0;

    if (!*text)
        return false;
    if (quoted > 0 && text[1 + quoted] == '}') { /* "{{name}}": its inner part */
        *ret = (struct atoll_place){text + 1, quoted, false};
        *at = text + quoted + 2;
    } else if (n > 0) {
        *ret = (struct atoll_place){text + 1, n - 2, true};
        *at = text + n;
    } else {
        n = 1 + strcspn(text + 1, "{");
        *ret = (struct atoll_place){text, n, false};
        *at = text + n;
    }
    return true;
}

static json_t *value_of(const struct atoll_place *place, const json_t *values)
{
    char name[65];

    (void)take_name(place->text, place->n, name);
    return json_object_get(values, name);
}

int atoll_places_check(const char *text, const json_t *known, const char *where,
                       struct atoll_error *err)
{
    struct atoll_place place;

    while (atoll_places_next(&text, &place))
        if (place.is_place && !value_of(&place, known))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s has the place {%.*s}, which is not declared; write {{%.*s}} for "
                              "that text",
                              where, (int)place.n, place.text, (int)place.n, place.text);
    return 0;
}

bool atoll_places_has(const char *text)
{
    struct atoll_place place;

    while (atoll_places_next(&text, &place))
        if (place.is_place)
            return true;
    return false;
}

int atoll_places_fill(const char *text, const json_t *values, struct atoll_buf *out)
{
    struct atoll_place place;
    int r = 0;

    while (r == 0 && atoll_places_next(&text, &place)) {
        const json_t *value = place.is_place ? value_of(&place, values) : NULL;
        ATOLL_AUTOFREE char *dumped = NULL;

        if (place.is_place && !value)
            return 0;
        if (!place.is_place) {
            r = atoll_buf_append(out, place.text, place.n);
        } else if (json_is_string(value)) {
            r = atoll_buf_appends(out, json_string_value(value));
        } else {
            dumped = atoll_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
            r = dumped ? atoll_buf_appends(out, dumped) : -ENOMEM;
        }
    }
    return r < 0 ? r : 1;
}

const json_t *atoll_places_value(const char *text, const json_t *values)
{
    struct atoll_place place;

    return atoll_places_next(&text, &place) && place.is_place && !*text ? value_of(&place, values)
                                                                        : NULL;
}
