#pragma once
#include <jansson.h>
#include "api/json_out.h"

/* Writes a value that was parsed before; NULL: nothing. key NULL: the element of an array. */
void atoll_json_value(struct atoll_json_out *out, const char *key, const json_t *value);
