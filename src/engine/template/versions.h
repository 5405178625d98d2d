#pragma once
#include "base/list.h"
#include "base/map.h"
#include "engine/template/template.h"
#include "loop/loop.h"

/*
 * Templates inside the engine: the tables in memory. template.h has the words. Thread: the loop's.
 */
struct atoll_engine;
struct atoll_provider_entry;
struct atoll_provider_image;

/* Immutable, except for the image of a provider and the report. */
struct atoll_version {
    struct atoll_template *tmpl; /* borrowed */
    struct atoll_list node;      /* in tmpl->versions */
    char id[ATOLL_VERSION_ID_LEN + 1];
    enum atoll_template_kind kind;
    char digest[72];     /* hex; IMAGE: as the provider writes it; "" for host */
    char *layers;        /* ROOTFS: held; owned */
    uint32_t layer_base; /* first id of the layers on disk */
    char provider[65],
        image[64]; /* IMAGE: the provider that keeps it, and the image's name there */
    uint64_t size_bytes;
    char *config, *source, *definition, *start_cmd, *ready_cmd, *report; /* owned, "" for none */
    uint32_t cpu_millis;
    uint64_t memory_bytes, disk_bytes;
    int64_t created_unix_ms;
    char *tags;                            /* that point to it, separated by spaces; owned */
    char parent[ATOLL_VERSION_ID_LEN + 1]; /* as in atoll_version_new, "" for none */
    char sandbox_id[ATOLL_ID_LEN + 1];     /* likewise */
    unsigned pins; /* requests that are about to use it: it is not removed */
};

/* Sources of versions that sandboxes make. Those of forks are removed with their last sandbox. */
#define ATOLL_SOURCE_SNAPSHOT "snapshot"
#define ATOLL_SOURCE_FORK "fork"
/* Not all of its sandboxes exist yet: the next daemon removes those that do. */
#define ATOLL_SOURCE_FORKING "forking"
/* Whether it is of a fork, and no tag keeps it, or of a retired template. */
bool atoll_version_is_temporary(const struct atoll_version *v);

struct atoll_tag {
    struct atoll_list node; /* in tmpl->tags */
    char name[ATOLL_TEMPLATE_TAG_MAX + 1];
    struct atoll_version *version; /* borrowed, of the same template */
};

struct atoll_template {
    char owner[65]; /* "": of all tenants */
    char name[ATOLL_TEMPLATE_NAME_MAX + 1];
    char key[sizeof(((struct atoll_version *)0)->provider) + ATOLL_TEMPLATE_NAME_MAX + 2];
    char *shares;               /* owned */
    struct atoll_list versions; /* newest first, never empty while the template is in the map */
    struct atoll_list tags;     /* of struct atoll_tag */
    size_t version_count, tag_count;
    int64_t created_unix_ms;
};

/* A layer that is used or known. */
struct atoll_layer {
    char name[ATOLL_DIGEST_LEN + 1];
    char diff_id[ATOLL_DIGEST_LEN + 1]; /* "": unknown */
    bool is_stored;                     /* it is complete on the disk and has a row */
    uint64_t size_bytes, files, implied;
    unsigned uses, step_uses; /* all, and those by cached steps */
};

struct atoll_layer_table {
    struct atoll_map map;  /* by name, of struct atoll_layer, owned */
    bool is_open;          /* the rows are loaded: what is not used is removed */
    uint64_t bytes, count; /* of stored layers */
    uint64_t step_bytes;   /* of those that only cached steps use */
    uint64_t removed, removed_bytes;
};

struct atoll_step_table {
    struct atoll_map map;   /* by "TENANT/KEY", of struct step, owned */
    struct atoll_list used; /* least recently used first */
    uint64_t removed;
};

struct atoll_template_tables {
    struct atoll_map templates; /* by "OWNER@NAME" or "NAME", owned */
    struct atoll_map versions;  /* by id; owned by their templates */
    struct atoll_version *host; /* borrowed */
    struct atoll_layer_table layers;
    struct atoll_step_table steps;
    struct atoll_timer collector;
    struct atoll_list removals; /* of versions, in progress; see versions.c */
    uint64_t tags, removed_versions;
};

/* names.c */

struct atoll_template_reference {
    char name[ATOLL_TEMPLATE_NAME_MAX + 1];
    char tag[ATOLL_TEMPLATE_TAG_MAX + 1]; /* "": none */
    char digest[ATOLL_DIGEST_LEN + 1];    /* hex, 12 digits or more; "": none */
};
/* INVALID_ARGUMENT. */
int atoll_template_reference_parse(const char *text, struct atoll_template_reference *ret,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_tag_is_name(const char *text);
/* Path components with slashes between them; the first may end with ":PORT". */
bool atoll_template_is_image_name(const char *text);
/* The name `n` characters long in a list that is separated by spaces. */
bool atoll_words_have(const char *words, const char *word);
/* Calls fn for each word of at most `cap` - 1 bytes; a longer one is cut. */
void atoll_words_each(const char *words, void (*fn)(void *arg, const char *word), void *arg);

/* layers.c */

/* A name for what is made from a stack: the SHA-256 of `what` and the stack, in hex. */
void atoll_layers_digest(const char *what, const char *layers, char out[static 65]);
/* As atoll_layer_release(); done is called when the layer is gone, or at once if it is still used. */
void atoll_layer_release_then(struct atoll_engine *engine, const char *name,
                              void (*done)(void *arg, const struct atoll_error *error), void *arg);
/* Adds to the uses by cached steps, which are also uses. */
int atoll_layer_hold_step(struct atoll_engine *engine, const char *name,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_layer_release_step(struct atoll_engine *engine, const char *name);
/* Whether a removal of this cached use would free the layer. */
bool atoll_layer_is_step_only(struct atoll_engine *engine, const char *name);
int atoll_layers_load(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
/* From now on unused layers are removed; removes those that a dead daemon left. */
void atoll_layers_open(struct atoll_engine *engine);
/* From now on nothing is removed. */
void atoll_layers_close(struct atoll_engine *engine);
void atoll_layers_done(struct atoll_engine *engine);

/* step_cache.c */

int atoll_step_cache_load(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_step_cache_done(struct atoll_engine *engine);
/* Removes entries, least recently used first, until the cache fits its maximum. */
void atoll_step_cache_fit(struct atoll_engine *engine);

/* versions.c */

/* The template of exactly this owner and name, or NULL. */
struct atoll_template *atoll_template_get(struct atoll_engine *engine, const char *owner,
                                          const char *name);
/* The version that the name of the template means. */
struct atoll_version *atoll_template_version(const struct atoll_template *t);
struct atoll_version *atoll_template_by_tag(const struct atoll_template *t, const char *tag);
struct atoll_version *atoll_template_by_digest(const struct atoll_template *t, const char *digest);
bool atoll_version_has_tag(const struct atoll_version *v);
/* Sandboxes made from it; pooled ones are not counted. */
size_t atoll_version_sandboxes(struct atoll_engine *engine, const struct atoll_version *v);
/* Adds a template or returns the existing one. */
struct atoll_template *atoll_template_make(struct atoll_engine *engine, const char *owner,
                                           const char *name);
/* Removes a template without versions from memory. */
void atoll_template_drop_empty(struct atoll_engine *engine, struct atoll_template *t);
/* Puts a version into the tables, as the newest of its template; its layers are held already. */
void atoll_version_link(struct atoll_engine *engine, struct atoll_template *t,
                        struct atoll_version *v);
/* Points the tag to the version, in memory. */
void atoll_tag_set(struct atoll_engine *engine, struct atoll_version *v, const char *tag);
void atoll_tag_remove(struct atoll_engine *engine, struct atoll_tag *tag);
struct atoll_version *atoll_version_free(struct atoll_version *v);
/* Ends removals in progress, without their done. The layers are removed by the next daemon. */
void atoll_versions_done(struct atoll_engine *engine);
/* Removes it from memory with its tags, and what only it used: layers, files, the image at the
 * provider. Its row is gone. done is called once, when these are removed. */
void atoll_version_discard(struct atoll_engine *engine, struct atoll_version *v,
                           void (*done)(void *arg, const struct atoll_error *error), void *arg);
/* The same for its row too. */
int atoll_version_drop(struct atoll_engine *engine, struct atoll_version *v,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* templates.c */

/* As atoll_template_resolve(). */
struct atoll_version *atoll_version_resolve(struct atoll_engine *engine, const char *tenant,
                                            const char *reference, struct atoll_error *err);
struct atoll_template_view atoll_version_get(struct atoll_engine *engine,
                                             const struct atoll_version *v);
/* Whether a template of that kind may be made under that name. owner "": of all tenants. */
int atoll_template_check(struct atoll_engine *engine, const char *owner, const char *name,
                         enum atoll_template_kind kind, struct atoll_error *err) ATOLL_MUST_CHECK;
size_t atoll_templates_count(struct atoll_engine *engine, const char *owner);

/* version_add.c */

/* Makes a version of an image that the provider keeps. If it cannot be stored, the image is
 * dropped. Of `version` owner, name, tags, source, parent and sandbox_id count. */
int atoll_template_keep_image(struct atoll_engine *engine, const struct atoll_version_new *version,
                              const struct atoll_provider_entry *entry, const char *image,
                              const struct atoll_provider_image *made, struct atoll_version **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Replaces the source. */
int atoll_version_set_source(struct atoll_engine *engine, struct atoll_version *v,
                             const char *source, struct atoll_error *err) ATOLL_MUST_CHECK;

/* templates_load.c */

void atoll_templates_init(struct atoll_engine *engine);
int atoll_templates_load(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_templates_done(struct atoll_engine *engine);

/* collect.c */

/* Removes versions that are beyond the history of their template, and cached steps beyond the
 * maximum, when the loop is idle. */
void atoll_templates_collect_soon(struct atoll_engine *engine);
