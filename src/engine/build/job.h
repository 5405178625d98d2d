#pragma once
#include "engine/engine_internal.h"
#include "image/recipe.h"

/*
 * A job: what is done in the sandbox of one step, and the run that does it. The stage composes a job
 * (stage.c, copy_step.c, add_step.c, run_step.c); the run makes the sandbox, carries the job out, keeps what the sandbox wrote
 * as a layer and puts that into the cache (run.c). It knows nothing of instructions.
 *
 * Runs with the same key and tenant are shared: the second waits for the first. A bounded number of runs is
 * in progress at a time; others wait. So does a run for a cache that another one uses.
 *
 * A run ends with an error when the file system of the state directory has less than its reserve left
 * (atoll_room_reserve()), or when its layer is larger than --build-step-max.
 *
 * Thread: the loop's.
 */
#define ATOLL_MAKE_COMMANDS_MAX 32
#define ATOLL_MAKE_FILES_MAX 64

struct atoll_make_job_command {
    const char *what;        /* for errors: "the command", "the copy" */
    const char *const *argv; /* NULL-terminated, as the other lists */
    const char *const *env;
    const char *user, *cwd;
    const void *input; /* written to its stdin; NULL: no input */
    size_t input_len;
    /* Its output is the manifest of a tree. The files of this step in it are the input of the next
     * command. NULL: its output goes to the log. */
    const struct atoll_recipe_step *match;
};
struct atoll_make_job_file {
    const char *path;
    uint32_t mode;
    const void *bytes;
    size_t len;
};
struct atoll_make_job {
    struct atoll_recipe_memory memory; /* of all that it points to */
    char key[65];                      /* in the cache; "": not shared and not cached */
    char tenant[65];
    const char *layers; /* the root: a stack; "" for unpackers */
    enum atoll_builder builder;
    const char *result; /* as of keep_layer() */
    struct atoll_tree trees[ATOLL_TREES_MAX];
    size_t tree_count;
    struct atoll_cache caches[ATOLL_CACHES_MAX];
    size_t cache_count;
    struct atoll_make_job_file files[ATOLL_MAKE_FILES_MAX];
    size_t file_count;
    struct atoll_make_job_command commands[ATOLL_MAKE_COMMANDS_MAX];
    size_t command_count;
    enum atoll_network network;
    const char *policy; /* or NULL */
    struct atoll_limits limits;
    bool fresh;         /* the cache is not read, and the run is not shared */
    bool no_result;     /* only its commands matter: no layer is kept */
    bool shares_caches; /* its caches may be in use by another run: it only looks at them */
    bool quick; /* it does not wait for steps of builds, which may run for hours; with no_result */
    bool too_large; /* its memory is full, so that parts are missing: it must not run */
};

struct atoll_make_job *atoll_make_job_new(void);
struct atoll_make_job *atoll_make_job_free(struct atoll_make_job *job);
/* Formats into the memory of the job. Beyond ATOLL_RECIPE_MEMORY_MAX the job is too_large and the result "". */
const char *atoll_make_job_textf(struct atoll_make_job *job, const char *fmt, ...)
    ATOLL_PRINTF(2, 3);
/* A list of n words, all NULL, and the NULL that ends it, in the memory of the job. NULL: the job is
 * too_large. */
const char **atoll_make_job_words(struct atoll_make_job *job, size_t n);
/* The same for the input of a command. */
void atoll_make_job_set_input(struct atoll_make_job *job, struct atoll_make_job_command *command,
                              const void *bytes, size_t len);
/* RESOURCE_EXHAUSTED if it is too_large. Call after the job is composed. */
int atoll_make_job_check(const struct atoll_make_job *job,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* RESOURCE_EXHAUSTED beyond the maximum. */
int atoll_make_job_add_tree(struct atoll_make_job *job, const char *path, const char *layers,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_make_job_add_cache(struct atoll_make_job *job, enum atoll_cache_kind kind,
                             const char *path, const char *name,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_make_job_add_file(struct atoll_make_job *job, const struct atoll_make_job_file *file,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_make_job_add_command(struct atoll_make_job *job,
                               const struct atoll_make_job_command *command,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* One that waits for a run; the caller's storage. */
struct atoll_run;
struct atoll_run_wait {
    /* A line of output, without its newline. */
    void (*said)(void *arg, int stream, const char *line, size_t n);
    /* Output as it comes; stdout is then not told as lines. NULL: as lines. */
    void (*wrote)(void *arg, const uint8_t *bytes, size_t n);
    /* The layer is held during the call. code: exit status of the command that failed; 0 otherwise. */
    void (*done)(void *arg, const char *layer, int code, const struct atoll_error *error);
    void *arg;
    struct atoll_run *run; /* private, as the next one */
    struct atoll_list node;
};
/* Takes the job. done is called once, from the loop, unless the caller leaves before. */
void atoll_run_start(struct atoll_engine *engine, struct atoll_make_job *job,
                     struct atoll_run_wait *wait);
/* No callback is called any more. When the last one leaves, the run is ended. Allowed on one that does not
 * wait. */
void atoll_run_leave(struct atoll_run_wait *wait);

/* The runs of an engine. */
struct atoll_runs {
    struct atoll_list runs;    /* of struct atoll_run, in progress */
    struct atoll_list waiting; /* of struct atoll_run, for a place */
    unsigned counts[2];        /* in progress; [1]: the quick ones */
};
void atoll_runs_init(struct atoll_runs *runs);
/* Frees memory only; the sandboxes go with the next daemon. */
void atoll_runs_done(struct atoll_runs *runs);
