#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "base/error.h"

/*
 * Texts of the registry with places for values: "{name}" is a place, "{{name}}" stands for the text "{name}",
 * and every other brace for itself. A value is put in as it is and never looked at again: it cannot make another
 * place, argument or variable.
 *
 * Pure. Thread: any.
 */
struct atoll_place {
    const char *text; /* literal, of length n; or, for a place, its name */
    size_t n;
    bool is_place;
};
/* The next part of the text at *at; false at its end. */
bool atoll_places_next(const char **at, struct atoll_place *ret);

/* Whether every place names a member of `known`. where: the text's name in the error. INVALID_ARGUMENT. */
int atoll_places_check(const char *text, const json_t *known, const char *where,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the text has places. */
bool atoll_places_has(const char *text);

/* Appends the text with the members of `values` in its places: texts as they are, other values as JSON.
 * 1; 0: a place has no value (what was appended is incomplete); -ENOBUFS. */
int atoll_places_fill(const char *text, const json_t *values,
                      struct atoll_buf *out) ATOLL_MUST_CHECK;
/* The value if the text is one place and nothing else; NULL: it has no value, or the text is something else. */
const json_t *atoll_places_value(const char *text, const json_t *values);
