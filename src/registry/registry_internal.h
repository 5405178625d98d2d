#pragma once
#include "registry/registry.h"

/*
 * What the files of the registry share: field tables, and from YAML text to a checked object.
 */

enum atoll_yaml_type {
    ATOLL_YAML_STRING,  /* min and max of its length in bytes */
    ATOLL_YAML_NAME,    /* as atoll_text_is_name() has it */
    ATOLL_YAML_PROGRAM, /* a file name without a slash */
    ATOLL_YAML_NUMBER,  /* min and max of its value, as below */
    ATOLL_YAML_WHOLE,
    ATOLL_YAML_BOOL,
    ATOLL_YAML_STRINGS, /* a sequence; min and max of their count */
    ATOLL_YAML_ENV,     /* a mapping from variables to strings */
    ATOLL_YAML_OBJECT,  /* a mapping with a table of its own */
    ATOLL_YAML_OBJECTS, /* a sequence of such; min and max of their count */
    ATOLL_YAML_NAMED,   /* a mapping from names to such; likewise */
    ATOLL_YAML_LISTS,   /* a mapping from names to sequences of strings; likewise */
    ATOLL_YAML_ANY,     /* a mapping of anything, by the rules of YAML's core schema */
    ATOLL_YAML_CHOICE,  /* one of the names of the rows of its table */
    /* A mapping from names to objects, each of the row of the table that its field "kind" names, or its
     * own name; min and max of their count. In each, "@kind" is that and "@line" where it begins. */
    ATOLL_YAML_KINDS,
};

struct atoll_yaml_field {
    const char *name;
    enum atoll_yaml_type type;
    bool required;
    double min, max;
    const struct atoll_yaml_field *table; /* ends with a row without a name */
};

/* Where in the file something is, from 1; 0: unknown. */
struct atoll_yaml_place {
    int line, column;
};

/* One document that is a mapping, checked by the table. INVALID_ARGUMENT with "file:line:column: "
 * in front; `file` is as it should be shown. */
int atoll_yaml_load(const char *file, const char *text, size_t n,
                    const struct atoll_yaml_field *table, json_t **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;

/* registry_fields.c */
extern const struct atoll_yaml_field *const atoll_registry_tables[ATOLL_REGISTRY_KINDS];
/* What no table can check. The message is without the file's name. INVALID_ARGUMENT. */
int atoll_registry_check(enum atoll_registry_kind kind, const json_t *object,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* registry_watch.c: calls fn some time after anything below dir changed. */
struct atoll_registry_watch {
    struct atoll_watch watch;
    struct atoll_timer settle;
    int fd;
    void (*fn)(void *arg);
    void *arg;
};
/* Also once more, to take in folders that are new. -errno. */
int atoll_registry_watch_open(struct atoll_registry_watch *w, struct atoll_loop *loop,
                              const char *dir, void (*fn)(void *arg), void *arg) ATOLL_MUST_CHECK;
void atoll_registry_watch_close(struct atoll_registry_watch *w);
