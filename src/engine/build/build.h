#pragma once
#include "engine/engine.h"
#include "image/recipe.h"

/*
 * Builds: from a recipe (a Dockerfile, or the steps of a client) and its files to a version of a template.
 *
 * Each RUN, COPY and ADD runs in a sandbox of its own, whose root is the result of the step before; what
 * the sandbox wrote becomes a layer. A step has a key: the layers below it, the instruction with its
 * variables replaced, and what it copies. A step whose key is in the tenant's cache (template.h) is not run
 * again. Stages that do not depend on each other are built at the same time, and two builds of one tenant
 * that come to the same step share it.
 *
 * A build is stored when it starts. If the daemon dies, the next one continues it: finished steps are in
 * the cache. Its id is the id of the version that it makes (atoll_version_new.id).
 *
 * Thread: the loop's. Views borrow their texts until control returns to the loop.
 */
struct atoll_template_view;

/* --- contexts: files for COPY, ADD and bind mounts, as a layer with a manifest --- */

/*
 * A context belongs to a tenant and has a name that the caller chooses (1 to 128 letters, digits, "-", "_",
 * "."): the digest of the archive, or that of the files as a client computes it. It is kept like a cached
 * step: it may go when the cache is full, but not while a build uses it.
 */
struct atoll_context_upload;
typedef void atoll_context_upload_fn(void *arg, struct atoll_context_upload *upload,
                                     const struct atoll_error *error);
/* Whether the tenant has it. */
bool atoll_context_find(struct atoll_engine *engine, const char *tenant, const char *name);
/* `ready` gets an error, or what the archive can be written to (tar; plain, gzip, zstd or xz). An
 * existing context of this name is replaced. */
void atoll_context_open(struct atoll_engine *engine, const char *tenant, const char *name,
                        atoll_context_upload_fn *ready, void *arg);
/* The next bytes; done is called when more can be written. After an error, drop it. */
void atoll_context_write(struct atoll_context_upload *upload, const uint8_t *bytes, size_t n,
                         atoll_done_fn *done, void *arg);
/* End of the archive; frees the upload. Without an error the context exists. digest: in hex, what the
 * archive must have as SHA-256 (DATA_LOSS otherwise); NULL: any. */
void atoll_context_finish(struct atoll_context_upload *upload, const char *digest,
                          atoll_done_fn *done, void *arg);
/* Not after finish. Accepts NULL. No callback is called any more. */
void atoll_context_drop(struct atoll_context_upload *upload);

/* --- builds --- */

struct atoll_make_context {
    const char
        *name; /* as `--from=NAME` has it, which comes before images; "": that of the build */
    const char *context; /* its name at atoll_context_open() */
};
/* Several contexts of one name are one tree: of files with the same path, the last one counts. */
struct atoll_make_secret {
    const char *id; /* of `--mount=type=secret,id=…` */
    const void *bytes;
    size_t len;
};

/* All is copied. */
struct atoll_make_request {
    const char *tenant; /* who builds: cache, contexts, quotas, network; NULL: the operator's */
    const char *owner;  /* of the template; NULL or "": all tenants */
    const char
        *name; /* of the template; NULL: no version is made, the build only fills the cache */
    const char *tags; /* as in atoll_version_new */
    const char *id;   /* UUID that a facade has told already; NULL: a new one */
    const struct atoll_recipe *recipe;
    const char *source;     /* "dockerfile", "steps" … */
    const char *definition; /* its text, kept with the version; or NULL */
    const struct atoll_recipe_pair *args;
    size_t arg_count;
    const char *target; /* stage; NULL: the last one */
    const struct atoll_make_context *contexts;
    size_t context_count;
    const struct atoll_make_secret *secrets;
    size_t secret_count;
    /* For the registry of one image, by its name in the recipe; NULL: the operator's logins. */
    const char *login_image;
    const struct atoll_registry_login *login;
    enum atoll_network network; /* of RUN steps: NONE or BRIDGE */
    const char *policy; /* canonical JSON of the network policy; NULL: all that the mode permits */
    struct atoll_limits limits;        /* of each step; 0 fields: the defaults of builds */
    bool no_cache;                     /* runs every step; the results are put into the cache */
    bool debug;                        /* keeps the state before a step that fails, see the view */
    const char *start_cmd, *ready_cmd; /* of the version; NULL: none */
    uint32_t cpu_millis;               /* likewise */
    uint64_t memory_bytes;
};

enum atoll_make_state {
    ATOLL_MAKE_WAITING, /* for one of the places of its tenant */
    ATOLL_MAKE_RUNNING,
    ATOLL_MAKE_READY, /* the version exists */
    ATOLL_MAKE_FAILED,
    ATOLL_MAKE_CANCELED,
};
const char *atoll_make_state_name(enum atoll_make_state state); /* "running" … */

struct atoll_make_view {
    const char *id, *tenant, *owner, *name, *tags;
    enum atoll_make_state state;
    int64_t created_unix_ms, ended_unix_ms;   /* ended: 0 while it is in progress */
    uint32_t steps, steps_done, steps_cached; /* RUN, COPY, ADD of the stages that are needed */
    uint64_t log_bytes;                       /* length of its log so far */
    /* FAILED and CANCELED: why; else kind NONE. */
    const struct atoll_error *error;
    int error_line;         /* of the definition; 0: unknown */
    int error_step;         /* number of the step as in the log; 0: unknown */
    const char *error_text; /* of that step, such as "RUN make", its beginning; "": unknown */
    /* READY: the version that the template has now. Its id is that of the build, unless the template had an
     * equal version already. FAILED: "", unless a trial of the version has failed. */
    const char *version, *digest;
    /* FAILED, with `debug`: a template of the state before the failed step, for a shell. The client removes
     * it. Else "". */
    const char *debug_template;
};

/* INVALID_ARGUMENT, NOT_FOUND (target, context), ALREADY_EXISTS (id), RESOURCE_EXHAUSTED (too many builds
 * of the tenant). ret may be NULL. The build begins after this has returned. */
int atoll_make_start(struct atoll_engine *engine, const struct atoll_make_request *request,
                     struct atoll_make_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* tenant NULL: of any. Ended builds are listed for a day, the newest ATOLL_MAKE_ENDED_MAX. NOT_FOUND. */
int atoll_make_find(struct atoll_engine *engine, const char *tenant, const char *id,
                    struct atoll_make_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Iterates: start with *pos = 0; false at the end. */
bool atoll_make_next(struct atoll_engine *engine, size_t *pos, struct atoll_make_view *ret);
/* Ends its running steps. No effect on an ended build. NOT_FOUND. */
int atoll_make_cancel(struct atoll_engine *engine, const char *id, const char *who,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
#define ATOLL_MAKE_ENDED_MAX 256

/*
 * The log: lines of JSON, each an object:
 *   {"t": unix ms, "kind": "step",   "step": 3, "of": 7, "stage": "build", "line": 4, "text": "RUN make"}
 *   {"t": …,       "kind": "output", "step": 3, "stream": "stdout", "text": "one line"}
 *   {"t": …,       "kind": "done",   "step": 3, "ms": 120, "cached": false}
 *   {"t": …,       "kind": "note" | "warning" | "error", "text": …, "line": 4, "step": 3}
 *   {"t": …,       "kind": "end",    "state": "ready", "ms": 500, "id": …, "digest": …}
 * "step" and "line" are absent from entries that belong to no step or line. Output beyond 16 MiB is left out, and a note says so.
 * Copies at most n bytes from offset; returns how many, 0 at the end. NOT_FOUND.
 */
ssize_t atoll_make_log(struct atoll_engine *engine, const char *id, uint64_t offset, void *buf,
                       size_t n, struct atoll_error *err) ATOLL_MUST_CHECK;

/* fn is called from the loop when the log has grown or the state has changed, until it is unwatched. */
struct atoll_make_watch;
int atoll_make_watch(struct atoll_engine *engine, const char *id, void (*fn)(void *arg), void *arg,
                     struct atoll_make_watch **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Accepts NULL. */
struct atoll_make_watch *atoll_make_unwatch(struct atoll_make_watch *watch);
