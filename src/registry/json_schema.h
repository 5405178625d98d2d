#pragma once
#include <jansson.h>
#include "base/error.h"

/*
 * JSON Schema, the part of it that tools need: what a value must be, as data. Used for the parameters of tools in
 * the registry. Keywords: type, properties, required, additionalProperties, items, enum, const, minimum,
 * maximum, minLength, maxLength, minItems, maxItems; and those that only describe. Other keywords are refused
 * when the schema is loaded, so that none is silently without effect.
 *
 * Pure. Thread: any.
 */
#define ATOLL_JSON_SCHEMA_DEPTH_MAX 8

/* Whether it is a schema with known keywords. where: its name in the text of the error. INVALID_ARGUMENT. */
int atoll_json_schema_check(const json_t *schema, const char *where,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the value is what a checked schema says. where: its name; "" for an object whose members are to be
 * named. INVALID_ARGUMENT says what it must be. */
int atoll_json_schema_apply(const json_t *schema, const json_t *value, const char *where,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
