#pragma once
#include "api/fields.h"
#include "engine/engine.h"

/* The metadata of a sandbox, which facades call labels or tags: an object whose values are strings. */

/* Whether the member `name` of a request is such an object. INVALID_ARGUMENT. */
int atoll_metadata_check(const json_t *object, const char *name,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* As the text that the engine takes; NULL and null: "{}". The memory belongs to the body. */
int atoll_metadata_take(const json_t *object, struct atoll_body *body, const char **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* The name of a sandbox, or its id if it has none. */
const char *atoll_name_or_id(const struct atoll_sandbox_view *view);
