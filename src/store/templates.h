#pragma once
#include "base/error.h"

/*
 * Templates, their versions and tags, the layers on disk, and cached steps of builds.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's. Each call is one transaction. Rows
 * borrow their texts for the call.
 */
struct atoll_store;

struct atoll_store_template {
    const char *owner; /* "": of all tenants */
    const char *name;
    const char *shares; /* "": its owner only; "*": all tenants; or tenants, separated by spaces */
    int64_t created_unix_ms;
};

struct atoll_store_version {
    const char *id;           /* a UUID */
    const char *owner, *name; /* of the template */
    const char *digest;
    int kind; /* enum of the engine, stored as a number */
    const char *layers;
    uint32_t layer_base;
    const char *provider, *image;
    uint64_t size_bytes;
    const char *config, *source, *definition, *start_cmd, *ready_cmd, *report;
    uint32_t cpu_millis;
    uint64_t memory_bytes, disk_bytes;
    int64_t created_unix_ms;
    const char *parent;  /* id of the version that it was made from; "": none */
    const char *sandbox; /* id of the sandbox that it is a snapshot of; "": none */
};

struct atoll_store_tag {
    const char *owner, *name, *tag;
    const char *version_id;
};

struct atoll_store_layer {
    const char *name, *diff_id; /* diff_id "": unknown */
    uint64_t size_bytes, files;
    int64_t created_unix_ms;
    uint64_t implied; /* directories that its archive only implies */
};

struct atoll_store_step {
    const char *tenant, *key;
    const char *layers, *config;
    int64_t created_unix_ms, used_unix_ms;
};

/* Adds the template if it is not there, adds or replaces the version, and points the tags to it
 * (separated by spaces). */
int atoll_store_put_version(struct atoll_store *store, const struct atoll_store_template *tmpl,
                            const struct atoll_store_version *version, const char *tags,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Replaces the template's row. */
int atoll_store_put_template(struct atoll_store *store, const struct atoll_store_template *row,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_put_tag(struct atoll_store *store, const struct atoll_store_tag *row,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row, here and below. */
int atoll_store_drop_tag(struct atoll_store *store, const char *owner, const char *name,
                         const char *tag, struct atoll_error *err) ATOLL_MUST_CHECK;
/* With its tags; the template too if this was its last version. */
int atoll_store_drop_version(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* With its versions and tags. */
int atoll_store_drop_template(struct atoll_store *store, const char *owner, const char *name,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Gives the template with its versions another name, which is not in use, and removes its tags. */
int atoll_store_rename_template(struct atoll_store *store, const char *owner, const char *name,
                                const char *new_name, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_put_layer(struct atoll_store *store, const struct atoll_store_layer *row,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_drop_layer(struct atoll_store *store, const char *name,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_put_step(struct atoll_store *store, const struct atoll_store_step *row,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_drop_step(struct atoll_store *store, const char *tenant, const char *key,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Call fn for every row; versions come oldest first. A negative result of fn stops the walk and is
 * returned. fn must not write to the store. */
int atoll_store_each_template(struct atoll_store *store,
                              int (*fn)(void *arg, const struct atoll_store_template *row,
                                        struct atoll_error *err),
                              void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_each_version(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_version *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_each_tag(struct atoll_store *store,
                         int (*fn)(void *arg, const struct atoll_store_tag *row,
                                   struct atoll_error *err),
                         void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_each_layer(struct atoll_store *store,
                           int (*fn)(void *arg, const struct atoll_store_layer *row,
                                     struct atoll_error *err),
                           void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_each_step(struct atoll_store *store,
                          int (*fn)(void *arg, const struct atoll_store_step *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
