#pragma once
#include "api/fields.h"
#include "engine/network/secrets.h"

/*
 * The body of a request that stores a secret. Its errors never quote the body, and its memory is erased.
 */
struct atoll_secret_body {
    struct atoll_body body;
    const char *name;       /* NULL: absent */
    const json_t *metadata; /* NULL: absent */
    const json_t *given;    /* the value as it came */
    const char *value;
    size_t value_len;
    bool replace;
};

/* Field tables have these rows, and others of their own. */
#define ATOLL_SECRET_BODY_VALUE                                                             \
    {                                                                                       \
        "value", ATOLL_FIELD_JSON, offsetof(struct atoll_secret_body, given), 0, 0, NULL, 0 \
    }
#define ATOLL_SECRET_BODY_NAME                                                                 \
    {                                                                                          \
        "name", ATOLL_FIELD_STRING, offsetof(struct atoll_secret_body, name), 0, 1000, NULL, 0 \
    }

/* Call atoll_secret_body_done() also after a failure. INVALID_ARGUMENT. */
int atoll_secret_body_decode(struct atoll_secret_body *ret, const uint8_t *bytes, size_t n,
                             const struct atoll_field *table,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_secret_body_done(struct atoll_secret_body *body);
