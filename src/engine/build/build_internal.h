#pragma once
#include "engine/build/build.h"
#include "engine/build/cache_mounts.h"
#include "engine/build/job.h"
#include "engine/template/template.h"
#include "image/copy_match.h"
#include "image/scope.h"
#include "image/stages.h"

/*
 * Internal to builds. Thread: the loop's.
 */
struct atoll_make;

/* Files that a build copies from: a context of the tenant. */
struct atoll_make_source {
    char *name, *context;         /* owned; as in struct atoll_make_context */
    char *layer;                  /* owned, held by the build: a stack. NULL until the build runs */
    struct atoll_copy_tree *tree; /* owned; of its manifest */
};

/* A template or image that a build begins with or copies from. */
struct atoll_make_image {
    struct atoll_make *make;
    char *reference;                /* owned */
    struct atoll_pull_waiter *pull; /* in progress, or NULL */
    bool ready;
    char *layers;   /* owned, held by the build */
    json_t *config; /* owned */
};

#define ATOLL_MAKE_PENDING_MAX 8
/* WORKDIR: the directory is made by the next step that has a sandbox. */
struct atoll_make_pending {
    char *path, *user; /* owned */
};

enum atoll_stage_state {
    ATOLL_STAGE_IDLE, /* waits for stages and images */
    ATOLL_STAGE_WALKING,
    ATOLL_STAGE_READY,
};

struct atoll_make_stage {
    struct atoll_make *make;
    size_t index; /* in the recipe */
    enum atoll_stage_state state;
    struct atoll_recipe_scope *scope;       /* owned */
    char *layers;                           /* owned: its stack so far, held; "" at FROM scratch */
    json_t *config;                         /* owned: so far */
    bool cmd_set;                           /* see atoll_image_config_apply() */
    const struct atoll_recipe_step **steps; /* owned: triggers of the base, then its own */
    size_t count, at;
    struct atoll_recipe_memory triggers;
    struct atoll_recipe_step now; /* the one in progress, variables replaced */
    bool fresh;                   /* it or one before it is to be run, whatever is cached */
    struct atoll_make_pending pending[ATOLL_MAKE_PENDING_MAX];
    size_t pending_count;
    struct atoll_run_wait wait;
    bool making;      /* the run makes only the directories that are pending */
    unsigned number;  /* of the step in progress, as in the log */
    int64_t began_ms; /* likewise */
};

struct atoll_make {
    struct atoll_engine *engine;
    struct atoll_list node; /* of the makes, oldest first */
    char id[ATOLL_VERSION_ID_LEN + 1], tenant[65], owner[65];
    /* Owned, or NULL. */
    char *name, *tags, *source, *definition, *target, *policy, *start_cmd, *ready_cmd;
    enum atoll_network network;
    struct atoll_limits limits;
    bool no_cache, debug;
    uint32_t cpu_millis;
    uint64_t memory_bytes;
    struct atoll_recipe *recipe;       /* owned, as the next ones; NULL when it has ended */
    struct atoll_recipe_memory memory; /* of the arguments */
    struct atoll_recipe_pair *args;
    size_t arg_count;
    struct atoll_make_secret *secrets; /* id and bytes are owned */
    size_t secret_count;
    char *login_image;                  /* or NULL */
    struct atoll_registry_login *login; /* likewise; of that image */
    struct atoll_make_source *sources;
    size_t source_count;
    struct atoll_recipe_inputs inputs;
    struct atoll_recipe_plan *plan;
    struct atoll_make_stage *stages;
    struct atoll_make_image *images;
    size_t image_count;
    /* Its life. */
    enum atoll_make_state state;
    int64_t created_unix_ms, ended_unix_ms, began_ms;
    uint32_t step_count, steps_done, steps_cached, steps_begun;
    struct atoll_error error;
    int error_line;
    unsigned error_step;
    char error_text[2048]; /* the beginning of the step's text; "": unknown */
    bool finishing;        /* finish.c */
    char version[ATOLL_VERSION_ID_LEN + 1], digest[72]; /* READY, or FAILED in its trial */
    char debug_template[65]; /* FAILED: from which a shell in the state before can be started; "" */
    /* Its log. */
    int log_fd;
    uint64_t log_bytes, output_bytes;
    bool output_is_cut;
    struct atoll_list watches; /* of struct atoll_make_watch */
    struct atoll_timer telling;
    struct atoll_timer later;
};

/* All builds of an engine. */
struct atoll_makes {
    struct atoll_list makes; /* of struct atoll_make */
    struct atoll_runs runs;
    struct atoll_list trials; /* of struct trial, owned; trial.c */
    struct atoll_cache_mounts mounts;
    struct atoll_timer prune;
};
/* Those of the engine; made at the first call. */
struct atoll_makes *atoll_makes(struct atoll_engine *engine);
/* engine.c: continues the builds of an earlier daemon; frees memory. */
void atoll_makes_recover(struct atoll_engine *engine);
void atoll_makes_done(struct atoll_engine *engine);

/* finish.c: the target has its layers. Makes the version, tries it, and ends the build. */
void atoll_make_finish(struct atoll_make *make);

/* build.c */
/* Starts the stages whose needs are ready; ends the build when the target is. */
void atoll_make_advance(struct atoll_make *make);
/* Ends the build: READY and the like. */
void atoll_make_end(struct atoll_make *make, enum atoll_make_state state);
/* By its id; NULL: unknown or no longer listed. */
struct atoll_make *atoll_make_by_id(struct atoll_engine *engine, const char *id);
/* Ends the build as FAILED or, with CANCELED, as that. line and step: 0 if unknown. */
void atoll_make_fail(struct atoll_make *make, const struct atoll_error *error, int line,
                     unsigned step);
/* The other half of atoll_make_start(), also after a restart. */
struct atoll_make *atoll_make_new(struct atoll_engine *engine);
void atoll_make_free(struct atoll_make *make);
int atoll_make_plan(struct atoll_make *make, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_make_begin(struct atoll_make *make);

/* stored.c: the file of a build */
int atoll_make_save(struct atoll_make *make, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_make_unsave(struct atoll_make *make);
void atoll_makes_load(struct atoll_engine *engine);

/* log.c */
int atoll_make_log_open(struct atoll_make *make, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_make_log_close(struct atoll_make *make);
void atoll_make_log_step(struct atoll_make *make, unsigned step, const char *stage, int line,
                         const char *text);
void atoll_make_log_output(struct atoll_make *make, unsigned step, int stream, const char *text,
                           size_t n);
void atoll_make_log_done(struct atoll_make *make, unsigned step, int64_t ms, bool cached);
/* kind: "note", "warning", "error". */
void atoll_make_log_note(struct atoll_make *make, const char *kind, unsigned step, int line,
                         const char *text);
void atoll_make_log_end(struct atoll_make *make);
/* Schedules the callbacks of atoll_make_watch. */
void atoll_make_changed(struct atoll_make *make);

/* stage.c */
/* For a stage whose needs are ready. */
void atoll_stage_start(struct atoll_make_stage *stage);
void atoll_stage_stop(struct atoll_make_stage *stage);
void atoll_stage_done(struct atoll_make_stage *stage);
const char *atoll_stage_name(const struct atoll_make_stage *stage, char out[32]);
/* A text member of a config; "" if it is absent. */
const char *atoll_config_text(const json_t *config, const char *name);
/* Makes an absolute path of one that is relative to the stage's WORKDIR, in the job's memory. Keeps a
 * trailing "/"; "." is "/" at the end. */
const char *atoll_stage_path(const struct atoll_make_stage *stage, struct atoll_make_job *job,
                             const char *path);
/* The variables that a RUN gets, NULL-terminated, in the job's memory. */
const char *const *atoll_stage_env(const struct atoll_make_stage *stage,
                                   struct atoll_make_job *job);

/* run_step.c, copy_step.c: what the step does. facts: an object; what is put there is part of the key. */
int atoll_stage_compose_run(struct atoll_make_stage *stage, struct atoll_make_job *job,
                            json_t *facts, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_stage_compose_copy(struct atoll_make_stage *stage, struct atoll_make_job *job,
                             json_t *facts, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds the commands that make the directories of WORKDIR. */
int atoll_stage_compose_directories(const struct atoll_make_stage *stage,
                                    struct atoll_make_job *job,
                                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Makes it a job that only copies: its sandbox has no mounts in the tree that it changes. */
void atoll_stage_use_copier(struct atoll_make_job *job);
/* add_step.c: files of the context, and of URLs. */
int atoll_stage_add_files(struct atoll_make_job *job, const struct atoll_recipe_step *step,
                          const struct atoll_copy_match *match, const char *dest,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_stage_add_urls(struct atoll_make_stage *stage, struct atoll_make_job *job,
                         const char *dest, struct atoll_error *err) ATOLL_MUST_CHECK;
/* What "--from" and "from=" name: a stack, or with `source` a context. Both NULL: FROM scratch. */
struct atoll_stage_tree {
    const char *layers;
    const struct atoll_make_source *source;
};
int atoll_stage_find_tree(const struct atoll_make_stage *stage, const char *from,
                          struct atoll_stage_tree *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The input of atoll-copy --stdin; malloced. */
uint8_t *atoll_make_pairs(const struct atoll_copy_match *match, size_t *ret_len);

/* images.c: resolves the images that stages need; calls atoll_make_advance() or atoll_make_fail(). */
int atoll_make_find_images(struct atoll_make *make, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_make_image *atoll_make_image_of(const struct atoll_make *make, const char *reference);
void atoll_make_ask_images(struct atoll_make *make);

/* contexts.c */
/* Holds the layer of the context and reads its manifest. NOT_FOUND. */
int atoll_make_load_source(struct atoll_make *make, struct atoll_make_source *source,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

/* sandbox.c: the record of a builder sandbox, for atoll_sandbox_launch(). NULL on failure. */
struct atoll_sandbox *atoll_make_sandbox(struct atoll_engine *engine,
                                         const struct atoll_make_job *job, struct atoll_error *err);

/* key.c: SHA-256 of a canonical text of the facts, in hex. */
void atoll_make_key(const json_t *facts, char out[static 65]);
