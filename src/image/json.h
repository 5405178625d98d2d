#pragma once
#include <jansson.h>
#include "base/error.h"

/*
 * JSON of foreign documents. Pure.
 */
static inline void atoll_image_auto_json(json_t **json)
{
    json_decref(*json);
}
#define ATOLL_IMAGE_AUTOJSON ATOLL_CLEANUP(atoll_image_auto_json)

/* An object of at most ATOLL_IMAGE_DOCUMENT_MAX bytes, without repeated names. FAILED_PRECONDITION,
 * RESOURCE_EXHAUSTED. */
int atoll_image_json_load(const char *bytes, size_t n, json_t **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Copies a text; "" if it is absent or null. False: it is not a text, does not fit, or has bytes that are
 * not printable ASCII. */
bool atoll_image_json_text(const json_t *json, const char *name, char *out,
                           size_t cap) ATOLL_MUST_CHECK;
