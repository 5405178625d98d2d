#pragma once
#include "registry/registry.h"

/*
 * Internal to the registry: field tables, and loading YAML text into a checked object.
 */

enum atoll_yaml_type {
    ATOLL_YAML_STRING,  /* min and max: length in bytes */
    ATOLL_YAML_NAME,    /* checked by atoll_text_is_name() */
    ATOLL_YAML_PROGRAM, /* a file name without a slash */
    ATOLL_YAML_NUMBER,  /* min and max: value; also of WHOLE */
    ATOLL_YAML_WHOLE,
    ATOLL_YAML_BOOL,
    ATOLL_YAML_STRINGS, /* a sequence of strings; min and max: count */
    ATOLL_YAML_ENV,     /* a mapping from names of variables to strings */
    ATOLL_YAML_OBJECT,  /* a mapping with a table of its own */
    ATOLL_YAML_OBJECTS, /* a sequence of objects; min and max: count */
    ATOLL_YAML_NAMED,   /* a mapping from names to objects; min and max: count */
    ATOLL_YAML_LISTS,   /* a mapping from names to sequences of strings; min and max: count */
    ATOLL_YAML_ANY,     /* a mapping with any content, typed by YAML's core schema */
    ATOLL_YAML_CHOICE,  /* the name of a row of its table */
    /* A mapping from names to objects; min and max: count. The row of the table whose name is the
     * object's field "kind" (or, without that field, the object's name) has the table to check it
     * by. Each loaded object gets "@kind", the name of that row, and "@line", the line where it
     * begins. */
    ATOLL_YAML_KINDS,
    ATOLL_YAML_KIND, /* one such object; its name is that of the field */
    /* By the units of sandbox/limits.def. */
    ATOLL_YAML_MIB = ATOLL_YAML_NUMBER,
    ATOLL_YAML_MILLI = ATOLL_YAML_NUMBER,
    ATOLL_YAML_CEIL = ATOLL_YAML_NUMBER,
    ATOLL_YAML_U32 = ATOLL_YAML_WHOLE,
    ATOLL_YAML_U64 = ATOLL_YAML_WHOLE,
};

struct atoll_yaml_field {
    const char *name;
    enum atoll_yaml_type type;
    bool required;
    double min, max;
    const struct atoll_yaml_field *table; /* ends with a row without a name */
};

/* A position in the file, counted from 1; 0: unknown. */
struct atoll_yaml_place {
    int line, column;
};

/* Loads one document, which must be a mapping, and checks it by the table. The text of
 * INVALID_ARGUMENT begins with "file:line:column: "; `file` is the name to show. */
int atoll_yaml_load(const char *file, const char *text, size_t n,
                    const struct atoll_yaml_field *table, json_t **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same, with ${NAME} in texts, numbers and booleans replaced by the environment variable. $${ is
 * a literal ${. INVALID_ARGUMENT also for a variable that is not set; no value of a variable is in
 * an error's text. */
int atoll_yaml_load_expanded(const char *file, const char *text, size_t n,
                             const struct atoll_yaml_field *table, json_t **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* registry_fields.c */
extern const struct atoll_yaml_field *const atoll_registry_tables[ATOLL_REGISTRY_KINDS];
/* Checks what a field table cannot express. The error text does not contain the file's name.
 * INVALID_ARGUMENT. */
int atoll_registry_check(enum atoll_registry_kind kind, const json_t *object,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The values of "package" and "version" take the places of {package} and {version} in "install" of an agent that
 * has been checked. */
void atoll_registry_fill_install(json_t *object);

/* registry_watch.c: calls fn shortly after anything below dir changed. */
struct atoll_registry_watch {
    struct atoll_watch watch;
    struct atoll_timer settle;
    int fd;
    void (*fn)(void *arg);
    void *arg;
};
/* May be called again for an open watch, to include new folders. -errno. */
int atoll_registry_watch_open(struct atoll_registry_watch *w, struct atoll_loop *loop,
                              const char *dir, void (*fn)(void *arg), void *arg) ATOLL_MUST_CHECK;
void atoll_registry_watch_close(struct atoll_registry_watch *w);

/* registry_env.c: limits from an object with the fields of sandbox/limits.def; absent ones are 0. */
struct atoll_limits atoll_yaml_limits(const json_t *object);
