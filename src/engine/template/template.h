#pragma once
#include "base/error.h"
#include "sandbox/spec.h"

/*
 * Templates as clients and builders see them.
 *
 * A template is a name of one owner. It has versions, which never change, and tags, which point to
 * versions. Names of versions:
 *
 *   NAME            the version with the tag "latest"; without that tag, the newest one
 *   NAME:TAG        the version with that tag
 *   NAME@sha256:HEX the version with that digest; HEX may be shortened to 12 digits or more
 *   TENANT/NAME…    the same of a template that another tenant shares
 *
 * The own template of a tenant comes first, then that of all tenants (owner ""). Names of images
 * that were pulled contain slashes, such as docker.io/library/alpine; they are found as they are.
 *
 * A stack is a text: names of layers, bottom first, separated by single spaces. Layers are counted:
 * versions, sandboxes, cached steps and atoll_layer_hold() use them. The last release removes the
 * layer from the disk. Holds end with the daemon: what must survive a crash is in a version or in a
 * cached step.
 *
 * Thread: the loop's. Blocking: tens of microseconds for the store. Views borrow their texts until
 * the caller returns to the loop.
 */
struct atoll_engine;

#define ATOLL_TEMPLATE_NAME_MAX 255 /* names that are not of images: 64, see atoll_text_is_name() */
#define ATOLL_TEMPLATE_TAG_MAX 128
#define ATOLL_TEMPLATE_TAGS_MAX 64 /* of one template */
#define ATOLL_VERSION_ID_LEN 36    /* a UUID */
#define ATOLL_DIGEST_LEN 64        /* hex digits of SHA-256 */

/* --- making a version --- */

struct atoll_version_new {
    const char *owner;  /* NULL or "": of all tenants */
    const char *name;   /* template; one that does not exist is made */
    bool is_image_name; /* name may be that of an image: path components with slashes */
    const char *tags;   /* to move to this version, separated by spaces; NULL: "latest"; "": none */
    const char *id;     /* UUID that a facade has told already; NULL: a new one */
    /* 64 hex digits. NULL: SHA-256 of layers, config and commands. If the template has a version with
     * this digest, that version is the result: its id and creation time stay. */
    const char *digest;
    const char *layers;      /* stack; every layer is on the disk and is held by the caller */
    const char *config_json; /* the object `config` of an OCI image; NULL: {} */
    const char *source;      /* what it was made of: "dockerfile", "image", "steps", "import" … */
    const char *definition;  /* text of the Dockerfile, reference of the image …; NULL: none */
    const char *start_cmd, *ready_cmd; /* NULL: none */
    uint32_t cpu_millis;               /* default of sandboxes; 0: that of the daemon */
    uint64_t memory_bytes;             /* likewise */
    uint64_t disk_bytes;               /* of the sandbox that it is a snapshot of; 0: unknown */
    const char *report_json;           /* of the trial; NULL: none */
    const char *parent;                /* id of the version below it; NULL: none */
    const char *sandbox_id;            /* that it is a snapshot of; NULL: none */
};

struct atoll_template_view {
    const char *name;
    enum atoll_template_kind kind;
    const char *digest; /* "" for host; IMAGE: as the provider writes it */
    uint64_t size_bytes;
    int64_t created_unix_ms;
    const char *owner;    /* "": all tenants */
    const char *provider; /* IMAGE: the provider that keeps it; else "" */
    /* Of the version. */
    const char *id;
    const char *tags;   /* that point to it, separated by spaces */
    const char *layers; /* "": host, or kept by a provider */
    const char *config_json, *source, *definition, *start_cmd, *ready_cmd, *report_json; /* or "" */
    uint32_t cpu_millis;
    uint64_t memory_bytes, disk_bytes;
    const char *parent;     /* id of the version below it, which may be removed; or "" */
    const char *sandbox_id; /* that it is a snapshot of, which may be gone; or "" */
    /* Of the template. */
    const char *shares; /* "": its owner only; "*": all tenants; or tenants, separated by spaces */
    size_t version_count; /* of the template */
    size_t sandboxes;     /* that are made from this version; pooled ones are not counted */
};
/* Stores the version, its tags and, if need be, the template in one transaction. After success the
 * layers are the version's; the caller releases its own holds. INVALID_ARGUMENT; ALREADY_EXISTS: the
 * name is that of a template of all tenants or of another kind; RESOURCE_EXHAUSTED: the tenant has
 * too many templates. */
int atoll_version_add(struct atoll_engine *engine, const struct atoll_version_new *version,
                      struct atoll_template_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds or replaces the report of the trial. NOT_FOUND. */
int atoll_version_set_report(struct atoll_engine *engine, const char *version_id,
                             const char *report_json, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens a file that belongs to a version: "log" (output of its build) or "sbom" (CycloneDX JSON).
 * It may be made before the version, and is removed with it. If the version was not made, a start of
 * the daemon removes the file after a week. flags: as of open(2). */
int atoll_version_file(struct atoll_engine *engine, const char *version_id, const char *what,
                       int flags, struct atoll_error *err) ATOLL_MUST_CHECK;
/* A new id, for atoll_version_new.id. */
void atoll_version_id(char out[static ATOLL_VERSION_ID_LEN + 1]);

/* --- finding --- */

/* NAME, NAME:TAG, NAME@sha256:HEX, or one of these with TENANT/ before it. */
bool atoll_template_is_reference(const char *text);
#define ATOLL_TEMPLATE_REFERENCE_MAX 511

/* NOT_FOUND, also for a template that the tenant may not use; INVALID_ARGUMENT. */
int atoll_template_resolve(struct atoll_engine *engine, const char *tenant, const char *reference,
                           struct atoll_template_view *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* By the id of a version, of all tenants. NOT_FOUND. */
int atoll_version_find(struct atoll_engine *engine, const char *version_id,
                       struct atoll_template_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Iterates over the templates of all tenants, each with the version that its name means: start with
 * *pos = 0; false at the end. */
bool atoll_templates_next(struct atoll_engine *engine, size_t *pos,
                          struct atoll_template_view *ret);
/* As atoll_template_resolve(), without an error. */
bool atoll_templates_find(struct atoll_engine *engine, const char *tenant, const char *reference,
                          struct atoll_template_view *ret);
/* Whether the tenant may use a template of this owner with these shares. */
bool atoll_template_may_use(const struct atoll_template_view *view, const char *tenant);
/* Calls fn for each version of a template, newest first, with its tags separated by spaces. */
void atoll_template_each_version(struct atoll_engine *engine, const char *owner, const char *name,
                                 void (*fn)(void *arg, const struct atoll_template_view *version,
                                            const char *tags),
                                 void *arg);

/* --- changing --- */

/* Points the tag to the version that `reference` names, in the same template. The reference is
 * resolved for the owner. NOT_FOUND, INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int atoll_template_tag(struct atoll_engine *engine, const char *owner, const char *reference,
                       const char *tag, struct atoll_error *err) ATOLL_MUST_CHECK;
/* shares: as in the view. NOT_FOUND, INVALID_ARGUMENT. */
int atoll_template_share(struct atoll_engine *engine, const char *owner, const char *name,
                         const char *shares, struct atoll_error *err) ATOLL_MUST_CHECK;
/* NAME removes the template with its versions and tags, NAME:TAG only the tag, NAME@DIGEST a version
 * with its tags. done is called when the layers that are no longer used are removed.
 * FAILED_PRECONDITION while sandboxes use a version that would go. */
void atoll_templates_remove(struct atoll_engine *engine, const char *owner, const char *reference,
                            void (*done)(void *arg, const struct atoll_error *error), void *arg);

/* Removes the template as a name: no request finds it or its versions any more, and the name is free. Its
 * versions that sandboxes use are removed after their last sandbox; clients see the template of these sandboxes
 * as NAME~ID, which is no reference. done is called at once if there are any, else as by
 * atoll_templates_remove(). NOT_FOUND, FAILED_PRECONDITION for the host's template. */
void atoll_templates_retire(struct atoll_engine *engine, const char *owner, const char *name,
                            void (*done)(void *arg, const struct atoll_error *error), void *arg);
bool atoll_template_is_retired(const char *name);

/* --- layers --- */

struct atoll_layer_facts {
    const char *name;    /* see atoll_layer_is_name() */
    const char *diff_id; /* hex digits of the uncompressed archive; NULL: unknown */
    uint64_t size_bytes, files;
    uint64_t implied; /* directories that its archive only implies, see settle.h */
};
/* SHA-256 in hex, or "x" and 32 hex digits. */
bool atoll_layer_is_name(const char *name);
/* A name for a layer that did not come as an archive. */
void atoll_layer_new_name(char out[static 34]);
/* Counts a use. Take the hold before keep_layer() makes the layer: a layer on the disk that is not
 * used is removed. */
int atoll_layer_hold(struct atoll_engine *engine, const char *name,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends a use. The last one removes the layer. */
void atoll_layer_release(struct atoll_engine *engine, const char *name);
/* The same for each layer of a stack; on failure none is held. */
int atoll_layers_hold(struct atoll_engine *engine, const char *layers,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_layers_release(struct atoll_engine *engine, const char *layers);
/* Stores what is known of a layer that is on the disk now. Call it when keep_layer() has succeeded,
 * while the layer is held. */
int atoll_layer_put(struct atoll_engine *engine, const struct atoll_layer_facts *facts,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether a complete layer is on the disk: atoll_layer_put() was called. Texts of *ret are borrowed;
 * ret may be NULL. */
bool atoll_layer_find(struct atoll_engine *engine, const char *name, struct atoll_layer_facts *ret);
/* Sizes of the layers of a stack, each once. */
uint64_t atoll_layers_size(struct atoll_engine *engine, const char *layers);

/* --- cached steps of builds --- */

/* The result of a step by its key. Rows of one tenant are not visible to others. */
struct atoll_cached_step {
    const char *layers; /* what the caller put: a stack, or "" */
    const char *config; /* likewise: a text, or "" */
};
/* Counts as a use: the entry is removed later than others. The layers are on the disk. False: not
 * cached. */
bool atoll_steps_get(struct atoll_engine *engine, const char *tenant, const char *key,
                     struct atoll_cached_step *ret);
/* Adds or replaces the entry; it holds the layers. Then the least recently used entries of all
 * tenants go until the layers that only the cache uses fit --template-cache-max. */
int atoll_steps_put(struct atoll_engine *engine, const char *tenant, const char *key,
                    const struct atoll_cached_step *step, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes one entry; NULL: all of the tenant. Returns how many. */
size_t atoll_steps_drop(struct atoll_engine *engine, const char *tenant, const char *key);

/* --- the collector --- */

struct atoll_template_usage {
    uint64_t versions, tags, layers, layer_bytes;
    uint64_t steps, step_bytes; /* bytes of layers that only cached steps use */
    uint64_t step_max_bytes;
    uint64_t mount_bytes, mount_max_bytes; /* of caches of RUN --mount=type=cache */
    uint64_t removed_layers, removed_bytes, removed_steps, removed_versions; /* since the start */
};
struct atoll_template_usage atoll_templates_usage(struct atoll_engine *engine);
/* Removes versions of the tenant that have no tag and no sandbox, and with `steps` its cached steps.
 * tenant NULL: those of all tenants. Returns what went. */
struct atoll_template_usage atoll_templates_collect(struct atoll_engine *engine, const char *tenant,
                                                    bool steps);
