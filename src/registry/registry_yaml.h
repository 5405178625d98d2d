#pragma once
#include <libfyaml.h>
#include "registry/registry_internal.h"

/*
 * Internal to the YAML loader.
 */

struct atoll_yaml_loader {
    const char *file;
    struct atoll_error *err;
    bool expands; /* replaces ${NAME} by the environment variable */
};

/* The position that an error message shows: of the value if it is a scalar, else of its key. */
struct atoll_yaml_spot {
    const struct atoll_yaml_spot *outer; /* NULL: the document */
    const char *name;                    /* of the field, or "" for an element of a sequence */
    size_t index;
    struct atoll_yaml_place place;
};

/* registry_scalar.c */
struct atoll_yaml_place atoll_yaml_place_of(struct fy_node *node,
                                            struct atoll_yaml_place otherwise);
/* Writes the path of a field, such as "limits.memoryMB" or "requires[0].program"; returns its
 * length. */
size_t atoll_yaml_write_path(const struct atoll_yaml_spot *spot, char *out, size_t cap);
int atoll_yaml_refuse_at(const struct atoll_yaml_loader *l, struct atoll_yaml_place place,
                         const char *text);
/* Fails with "FIELD must be WHAT (got VALUE)". */
int atoll_yaml_refuse(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                      struct fy_node *node, const char *what);
/* Refuses aliases and tags. */
int atoll_yaml_check_plain(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                           struct fy_node *node) ATOLL_MUST_CHECK;
/* Returns value; aborts when it is NULL (out of memory). */
json_t *atoll_yaml_must(json_t *value);
/* The text of a scalar; NULL when the node is not a scalar or is empty, as in "key:". */
const char *atoll_yaml_scalar(struct fy_node *node, size_t *ret_len);
/* Copies a scalar as a C string; false when the node is not a scalar or does not fit. */
bool atoll_yaml_copy(struct fy_node *node, char *out, size_t cap);
/* Loads a field of one of the scalar types. */
int atoll_yaml_load_scalar(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                           struct fy_node *node, const struct atoll_yaml_field *f,
                           json_t **ret) ATOLL_MUST_CHECK;
/* Converts a scalar by YAML's core schema; NULL for a value that JSON cannot represent. */
json_t *atoll_yaml_guess(struct fy_node *node);
