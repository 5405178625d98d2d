#pragma once
#include <jansson.h>
#include "base/error.h"

/*
 * A recipe: how an image is made, step by step, whatever it was written as (a Dockerfile, the steps of a
 * client, a list of packages). A recipe is data as written: variables are replaced when a build walks its
 * stages (scope.h), and names of stages are resolved by stages.h.
 *
 * Pure: no function of recipe.h, dockerfile.h, scope.h, stages.h, copy_match.h reads files or the clock.
 * Ownership: a recipe owns every text and array that it points to (they are in its memory); all are valid
 * until atoll_recipe_free(). It does not change after it was made and may be read by several threads.
 */
#define ATOLL_RECIPE_TEXT_MAX ((size_t)1024 * 1024) /* of a definition */
#define ATOLL_RECIPE_MEMORY_MAX ((size_t)32 * 1024 * 1024)
#define ATOLL_RECIPE_STAGES_MAX 128
#define ATOLL_RECIPE_STEPS_MAX 4096 /* of all stages */
#define ATOLL_RECIPE_WORDS_MAX 1024 /* words, pairs, flags or here-documents of one step */

/* Memory that is freed at once. */
struct atoll_recipe_memory {
    struct atoll_recipe_chunk *chunks; /* owned */
    size_t used;                       /* bytes; at most ATOLL_RECIPE_MEMORY_MAX */
};
/* Zeroed and aligned for any object; NULL beyond the maximum or without memory. */
void *atoll_recipe_alloc(struct atoll_recipe_memory *m, size_t n);
/* Copies n bytes and adds a NUL. */
char *atoll_recipe_text(struct atoll_recipe_memory *m, const char *bytes, size_t n);
void atoll_recipe_memory_done(struct atoll_recipe_memory *m);
/* Overwrites all that is in it, before it is done: it has secrets. */
void atoll_recipe_memory_wipe(struct atoll_recipe_memory *m);

/* The instructions except FROM, which begins a stage. */
enum atoll_recipe_kind {
    ATOLL_RECIPE_ADD,
    ATOLL_RECIPE_ARG,
    ATOLL_RECIPE_CMD,
    ATOLL_RECIPE_COPY,
    ATOLL_RECIPE_ENTRYPOINT,
    ATOLL_RECIPE_ENV,
    ATOLL_RECIPE_EXPOSE,
    ATOLL_RECIPE_HEALTHCHECK,
    ATOLL_RECIPE_LABEL,
    ATOLL_RECIPE_MAINTAINER,
    ATOLL_RECIPE_ONBUILD,
    ATOLL_RECIPE_RUN,
    ATOLL_RECIPE_SHELL,
    ATOLL_RECIPE_STOPSIGNAL,
    ATOLL_RECIPE_USER,
    ATOLL_RECIPE_VOLUME,
    ATOLL_RECIPE_WORKDIR,
    ATOLL_RECIPE_KINDS,
};
/* "RUN" and so on. */
const char *atoll_recipe_kind_name(enum atoll_recipe_kind kind);
/* Ignores case; false: not an instruction, or FROM. */
bool atoll_recipe_kind_by_name(const char *name, size_t n, enum atoll_recipe_kind *ret);

struct atoll_recipe_pair {
    const char *name;
    const char *value; /* with quotes until it is expanded; NULL: ARG without a default */
};

enum atoll_recipe_mount_type {
    ATOLL_RECIPE_MOUNT_BIND,
    ATOLL_RECIPE_MOUNT_CACHE,
    ATOLL_RECIPE_MOUNT_TMPFS,
    ATOLL_RECIPE_MOUNT_SECRET,
    ATOLL_RECIPE_MOUNT_SSH,
};

enum atoll_recipe_sharing {
    ATOLL_RECIPE_SHARED, /* several builds use a cache at once */
    ATOLL_RECIPE_PRIVATE,
    ATOLL_RECIPE_LOCKED,
};

/* RUN --mount=… */
struct atoll_recipe_mount {
    enum atoll_recipe_mount_type type;
    const char *text; /* as written; scope.h reads it again with variables replaced */
    const char *id;   /* cache: default its target; secret: its source or the target's last name;
                         * ssh: "default"; NULL: the other types */
    /* May be relative to WORKDIR, and is "." if it was not given; NULL: ssh, or a secret that is only a
     * variable. */
    const char *target;
    const char *source; /* path in `from`; NULL: its root */
    const char *from; /* stage, its number, or image; NULL: the build context, or an empty cache */
    const char *env;  /* a secret as variable of this name; NULL: as file */
    bool readonly;    /* bind, secret, ssh: true unless "rw" was given */
    bool required;    /* secret, ssh: a missing one fails the step */
    enum atoll_recipe_sharing sharing;
    int64_t mode, uid, gid; /* -1: default */
    uint64_t size_bytes;    /* tmpfs; 0: no limit of its own */
};

/* An inline file (COPY, ADD) or input of the shell (RUN). */
struct atoll_recipe_heredoc {
    const char *name; /* the word behind "<<": of COPY and ADD the name of the file */
    const char *text; /* the body, each line with its newline; tabs are removed already for "<<-" */
    bool expand; /* the word was not quoted: variables in the body of COPY and ADD are replaced */
    int line;    /* of the body's first line */
};

struct atoll_recipe_flags {
    const char *from;  /* COPY: stage, its number, or image; NULL: the build context */
    const char *chown; /* COPY, ADD: "user[:group]"; NULL: root */
    const char *chmod; /* COPY, ADD: octal or symbolic; NULL: as the source */
    bool link, parents;
    const char *const *excludes; /* patterns as of .dockerignore */
    size_t exclude_count;
    const char *checksum; /* ADD: "sha256:…"; NULL */
    bool keep_git_dir;
    int8_t unpack;        /* ADD: 1 or 0 as given; -1: local archives are, remote ones are not */
    const char *network;  /* RUN: "default", "none", "host"; NULL: default */
    const char *security; /* RUN: "sandbox", "insecure"; NULL */
    const struct atoll_recipe_mount *mounts;
    size_t mount_count;
};

struct atoll_recipe_health {
    bool none;                                                    /* HEALTHCHECK NONE */
    int64_t interval_ns, timeout_ns, start_ns, start_interval_ns; /* 0: default */
    int64_t retries;                                              /* 0: default */
};

/*
 * One instruction. What `args` holds, by kind:
 *   RUN CMD ENTRYPOINT  exec form (`json`): the words; shell form: one text for the shell. Of a RUN with
 *                       here-documents the text is the first line; see atoll_dockerfile_script().
 *   HEALTHCHECK         the words or text of its CMD; none with `health.none`
 *   SHELL               the words
 *   COPY ADD            the sources; `dest` is the destination. Here-documents are sources too.
 *   EXPOSE VOLUME       the words
 *   WORKDIR USER STOPSIGNAL MAINTAINER ONBUILD   one text
 *   ENV LABEL ARG       none: see `pairs`
 */
struct atoll_recipe_step {
    enum atoll_recipe_kind kind;
    int line, last_line; /* in the definition, from 1; 0: the definition has no lines */
    const char
        *text;  /* as written, in one line, without here-documents; for progress and history */
    bool json;  /* exec form */
    bool gap;   /* an empty line is between its lines: deprecated, see the lint */
    bool fresh; /* it and the later steps of the stage are run, also if they are cached */
    const char *const *args;
    size_t arg_count;
    const char *dest;
    const struct atoll_recipe_pair *pairs;
    size_t pair_count;
    struct atoll_recipe_flags flags;
    struct atoll_recipe_health health;
    const struct atoll_recipe_heredoc *heredocs;
    size_t heredoc_count;
};

struct atoll_recipe_stage {
    const char *name;     /* of "AS NAME", in lower case; NULL */
    const char *base;     /* "scratch", a stage or an image, with variables as written */
    const char *platform; /* of --platform, with variables; NULL */
    const char *text;     /* the FROM line */
    int line;
    const struct atoll_recipe_step **steps;
    size_t step_count;
};

struct atoll_recipe {
    struct atoll_recipe_memory memory;
    char escape;                              /* "\" or "`" */
    const char *syntax;                       /* of "# syntax="; NULL */
    const struct atoll_recipe_step **globals; /* ARG before the first FROM */
    size_t global_count;
    struct atoll_recipe_stage *stages; /* at least one in a recipe that a parser returned */
    size_t stage_count;
    size_t step_count; /* of all stages, with globals */
};

/* Makes an empty recipe, for code that composes one. Aborts without memory. */
struct atoll_recipe *atoll_recipe_new(void);
struct atoll_recipe *atoll_recipe_free(struct atoll_recipe *r);

/* Appends a stage; its texts are copied. name and platform may be NULL. RESOURCE_EXHAUSTED. */
int atoll_recipe_add_stage(struct atoll_recipe *r, const char *name, const char *base,
                           const char *platform, const char *text, int line,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends a step to the last stage, or to the globals while there is no stage. Copies the struct; what it
 * points to must live in r->memory or longer than the recipe. RESOURCE_EXHAUSTED. */
int atoll_recipe_add_step(struct atoll_recipe *r, const struct atoll_recipe_step *step,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether a step has the parts that its kind needs (see struct atoll_recipe_step). */
bool atoll_recipe_step_is_whole(const struct atoll_recipe_step *step);

/* The stored form: {"escape", "syntax", "globals": [step…], "stages": [{"name", "base", …, "steps"}]},
 * with members of the structs by their names and without those that have their default. */
json_t *atoll_recipe_to_json(const struct atoll_recipe *r);
/* Reads what atoll_recipe_to_json() made. INVALID_ARGUMENT names the place; RESOURCE_EXHAUSTED. */
int atoll_recipe_from_json(const json_t *json, struct atoll_recipe **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* One step in that form, expanded or not: canonical, so that a key can be made of it (dumped with
 * JSON_COMPACT | JSON_SORT_KEYS). `for_key` omits lines and texts as written, which change no result. */
json_t *atoll_recipe_step_to_json(const struct atoll_recipe_step *step, bool for_key);
