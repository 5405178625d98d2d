#include "engine/build/job.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"

/*
 * Composing a job: lists of bounded length in the job's own memory.
 */

struct atoll_make_job *atoll_make_job_new(void)
{
    struct atoll_make_job *job = atoll_alloc(sizeof(*job));

    job->builder = ATOLL_BUILDER_STEP;
    job->result = "";
    job->layers = "";
    return job;
}

struct atoll_make_job *atoll_make_job_free(struct atoll_make_job *job)
{
    if (!job)
        return NULL;
    atoll_recipe_memory_wipe(&job->memory); /* secrets are among its files and variables */
    atoll_recipe_memory_done(&job->memory);
    free(job);
    return NULL;
}

const char *atoll_make_job_textf(struct atoll_make_job *job, const char *fmt, ...)
{
    va_list args, again;
    char *text;
    int n;

    va_start(args, fmt);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    text = n < 0 ? NULL : atoll_recipe_alloc(&job->memory, (size_t)n + 1);
    if (text)
        (void)vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    job->too_large |= !text;
    return text ? text : "";
}

const char **atoll_make_job_words(struct atoll_make_job *job, size_t n)
{
    const char **words = atoll_recipe_alloc(&job->memory, (n + 1) * sizeof(*words));

    job->too_large |= !words;
    return words;
}

void atoll_make_job_set_input(struct atoll_make_job *job, struct atoll_make_job_command *command,
                              const void *bytes, size_t len)
{
    command->input = atoll_recipe_text(&job->memory, bytes, len);
    command->input_len = command->input ? len : 0;
    job->too_large |= !command->input;
}

int atoll_make_job_check(const struct atoll_make_job *job, struct atoll_error *err)
{
    if (!job->too_large)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                      "the step is too large: its variables and secrets take more than %zu MiB",
                      ATOLL_RECIPE_MEMORY_MAX >> 20);
}

static int check(size_t count, size_t max, const char *what, struct atoll_error *err)
{
    if (count < max)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "a step may have %zu %s at most",
                      max, what);
}

int atoll_make_job_add_tree(struct atoll_make_job *job, const char *path, const char *layers,
                            struct atoll_error *err)
{
    int r = check(job->tree_count, ATOLL_TREES_MAX, "sources and bind mounts", err);

    if (r == 0)
        job->trees[job->tree_count++] = (struct atoll_tree){.path = path, .layers = layers};
    return r;
}

int atoll_make_job_add_cache(struct atoll_make_job *job, enum atoll_cache_kind kind,
                             const char *path, const char *name, struct atoll_error *err)
{
    int r = check(job->cache_count, ATOLL_CACHES_MAX, "mounts", err);

    if (r == 0)
        job->caches[job->cache_count++] =
            (struct atoll_cache){.kind = kind, .path = path, .name = name};
    return r;
}

int atoll_make_job_add_file(struct atoll_make_job *job, const struct atoll_make_job_file *file,
                            struct atoll_error *err)
{
    int r = check(job->file_count, ATOLL_MAKE_FILES_MAX, "here-documents and secrets", err);
    char *copy;

    if (r < 0)
        return r;
    copy = atoll_recipe_text(&job->memory, file->bytes, file->len);
    if (!copy)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                          "the here-documents of a step are too large");
    job->files[job->file_count] = *file;
    job->files[job->file_count++].bytes = copy;
    return 0;
}

int atoll_make_job_add_command(struct atoll_make_job *job,
                               const struct atoll_make_job_command *command,
                               struct atoll_error *err)
{
    int r = check(job->command_count, ATOLL_MAKE_COMMANDS_MAX, "sources of different kinds", err);

    if (r == 0)
        job->commands[job->command_count++] = *command;
    return r;
}
