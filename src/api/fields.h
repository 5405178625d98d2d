#pragma once
#include <jansson.h>
#include "base/error.h"

/*
 * Decodes JSON objects from clients by tables: a row gives the name of a field, its type, its
 * bounds and its offset in a struct. An unknown field is an error, because a misspelt limit must
 * not be ignored silently. Tables for protocols that others extend may have a row
 * ATOLL_FIELDS_TOLERANT instead. Duplicate keys and more than ATOLL_FIELDS_DEPTH levels are errors,
 * too.
 *
 * Ownership: decoded strings and arrays belong to the body and are freed by atoll_body_done().
 */
#define ATOLL_FIELDS_DEPTH 64
#define ATOLL_FIELDS_ENV 1024

enum atoll_field_type {
    ATOLL_FIELD_BOOL,    /* bool */
    ATOLL_FIELD_STRING,  /* const char *; min and max of its length in bytes */
    ATOLL_FIELD_U32,     /* uint32_t, whole number */
    ATOLL_FIELD_U64,     /* uint64_t, whole number */
    ATOLL_FIELD_CEIL,    /* uint32_t; a fraction is rounded up */
    ATOLL_FIELD_MILLI,   /* uint32_t, thousandths of the number given */
    ATOLL_FIELD_MIB,     /* uint64_t bytes, given in MiB */
    ATOLL_FIELD_STRINGS, /* const char *const *, NULL-terminated; min and max of their count */
    ATOLL_FIELD_ENV, /* const char *const *, NAME=VALUE, from an object of at most ATOLL_FIELDS_ENV */
    ATOLL_FIELD_OBJECT, /* a struct inside the struct, with a table of its own */
    ATOLL_FIELD_JSON,   /* const json_t *: the handler decodes it */
    ATOLL_FIELD_OTHERS, /* all fields without a row: ignored */
};

struct atoll_field {
    const char *name;
    enum atoll_field_type type;
    size_t offset;
    double min, max;
    const struct atoll_field *table; /* OBJECT; ends with a row without a name */
    size_t seen;                     /* OBJECT: offset of a bool set when present, or 0 */
};

#define ATOLL_FIELDS_TOLERANT                     \
    {                                             \
        "*", ATOLL_FIELD_OTHERS, 0, 0, 0, NULL, 0 \
    }

/* A table and the struct it fills. */
struct atoll_field_set {
    const struct atoll_field *table;
    void *into;
};

#define ATOLL_BODY_PARTS 16

struct atoll_body {
    json_t *root;                  /* owned */
    void *parts[ATOLL_BODY_PARTS]; /* owned: decoded arrays */
    size_t part_count;
};

/* Parses one object; an empty body counts as an empty object. INVALID_ARGUMENT. */
int atoll_body_parse(struct atoll_body *body, const void *bytes, size_t n,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_body_done(struct atoll_body *body);
/* Transfers ownership of p (from malloc) to the body. */
void atoll_body_take(struct atoll_body *body, void *p);
/* Returns NULL on failure: *why describes the error, unless *ret_no_memory is set. Zero bytes
 * count as an empty object. */
json_t *atoll_fields_load(const void *bytes, size_t n, json_error_t *why, bool *ret_no_memory);
/* UNAVAILABLE: the daemon lacks the memory for a request of this size. */
int atoll_fields_no_memory(struct atoll_error *err);

/* Decodes `object` (of the body) into the sets; if two sets have a field of the same name, the
 * first gets it. `where` names the object in messages, "" for the outermost. INVALID_ARGUMENT. */
int atoll_fields_decode(struct atoll_body *body, const json_t *object, const char *where,
                        const struct atoll_field_set *sets, size_t count,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* Parses a body and decodes it into one struct. */
int atoll_body_decode(struct atoll_body *body, const void *bytes, size_t n,
                      const struct atoll_field *table, void *into,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* For a row ATOLL_FIELD_JSON: seconds, fractions included, of at most 31 days. A value of NULL
 * leaves *ret_ms as it is. */
int atoll_fields_timeout(const json_t *value, const char *name, uint32_t *ret_ms,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fails with "FIELD must be WHAT (got VALUE)", for checks that handlers make themselves. */
int atoll_fields_refuse(struct atoll_error *err, const char *where, const char *name,
                        const json_t *value, const char *what);
