#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/switches.h"
#include "engine/build/build_internal.h"
#include "sandbox/programs.h"
#include "sandbox/stack.h"

/*
 * COPY and ADD: atoll-copy (copy/copy.h), with the sources as read-only trees. The tree of the step is at
 * /import, or on the host template the root of the sandbox. The files of a context are matched here, by
 * its manifest. Those of a stage or an image are matched by a list that atoll-copy makes in the sandbox,
 * since their key is that of the whole stack.
 */
#define TREE "/.atoll/source"
#define HERE "/.atoll/here"
#define EMPTY "/.atoll/empty"
#define ROOT "/import"

#define EXCLUDED "/" /* as the name of a pair, see copy/copy.h */

int atoll_stage_find_tree(const struct atoll_make_stage *stage, const char *from,
                          struct atoll_stage_tree *ret, struct atoll_error *err)
{
    const struct atoll_make *make = stage->make;
    struct atoll_recipe_source found;
    int r;

    *ret = (struct atoll_stage_tree){0};
    for (size_t i = 0; i < make->source_count; i++)
        if (strcmp(make->sources[i].name, from ? from : "") == 0)
            ret->source = &make->sources[i];
    if (ret->source)
        return 0;
    r = atoll_recipe_find_source(make->recipe, stage->index, from, &found, err);
    if (r < 0)
        return r;
    switch (found.kind) {
    case ATOLL_RECIPE_FROM_CONTEXT:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT,
                          "the build was started without files, so there is nothing to copy");
    case ATOLL_RECIPE_FROM_STAGE:
        ret->layers = make->stages[found.stage].layers;
        break;
    case ATOLL_RECIPE_FROM_IMAGE:
        ret->layers = atoll_make_image_of(make, found.image)->layers;
        break;
    case ATOLL_RECIPE_FROM_SCRATCH:
        break;
    }
    return 0;
}

uint8_t *atoll_make_pairs(const struct atoll_copy_match *match, size_t *ret_len)
{
    size_t len = 0;
    uint8_t *pairs, *at;

    for (size_t i = 0; i < match->pair_count; i++)
        len += strlen(match->pairs[i].path) + strlen(match->pairs[i].name) + 2;
    for (size_t i = 0; i < match->exclude_count; i++)
        len += strlen(match->excludes[i]) + sizeof(EXCLUDED) + 1;
    pairs = at = malloc(len + 1);
    if (!pairs)
        abort();
    for (size_t i = 0; i < match->pair_count; i++) {
        at = (uint8_t *)stpcpy((char *)at, match->pairs[i].path) + 1;
        at = (uint8_t *)stpcpy((char *)at, match->pairs[i].name) + 1;
    }
    for (size_t i = 0; i < match->exclude_count; i++) {
        at = (uint8_t *)stpcpy((char *)at, match->excludes[i]) + 1;
        at = (uint8_t *)stpcpy((char *)at, EXCLUDED) + 1;
    }
    *ret_len = len ? (size_t)(at - pairs) : 0;
    return pairs;
}

/* The list of arguments of atoll-copy, in the job's memory. */
struct arguments {
    const char *argv[16 + 2 * 64];
    size_t count;
};

static void add_word(struct arguments *a, const char *word)
{
    if (a->count < ATOLL_ARRAY_LEN(a->argv) - 1)
        a->argv[a->count++] = word;
}

/* NULL: the job is too large. */
static const char *const *finish_words(struct atoll_make_job *job, const struct arguments *a)
{
    const char **argv = atoll_make_job_words(job, a->count);

    if (argv)
        memcpy(argv, a->argv, a->count * sizeof(*argv));
    return argv;
}

/* The files of a step on the host template are in its own root; see ATOLL_BUILDER_COPY. */
static void begin_words(struct arguments *a, const struct atoll_make_job *job)
{
    add_word(a, ATOLL_COPY_PROGRAM);
    if (job->builder == ATOLL_BUILDER_COPY) {
        add_word(a, "--root");
        add_word(a, ROOT);
    }
}

static void add_flags(struct arguments *a, const struct atoll_recipe_step *step)
{
    add_word(a, "--stdin");
    if (step->flags.chown) {
        add_word(a, "--chown");
        add_word(a, step->flags.chown);
    } else if (step->flags.from) {
        add_word(a, "--keep-owner");
    }
    if (step->flags.chmod) {
        add_word(a, "--chmod");
        add_word(a, step->flags.chmod);
    }
}

/* The command that copies from the tree to dest. Its input is set by the caller. */
static struct atoll_make_job_command copy_command(struct atoll_make_job *job,
                                                  const struct atoll_recipe_step *step,
                                                  const char *tree, const char *dest)
{
    struct arguments a = {0};

    begin_words(&a, job);
    add_flags(&a, step);
    add_word(&a, tree);
    add_word(&a, dest);
    return (struct atoll_make_job_command){
        .what = "the copy", .argv = finish_words(job, &a), .user = "root", .cwd = "/"};
}

static int add_here(struct atoll_make_stage *stage, struct atoll_make_job *job, const char *dest,
                    struct atoll_error *err)
{
    const struct atoll_recipe_step *step = &stage->now;
    struct atoll_make_job_command command;
    struct atoll_buf pairs;
    int r = 0;

    if (step->heredoc_count == 0)
        return 0;
    r = atoll_make_job_add_cache(job, ATOLL_CACHE_SCRATCH, HERE, NULL, err);
    atoll_buf_init(&pairs, (size_t)1024 * 1024);
    for (size_t i = 0; r == 0 && i < step->heredoc_count; i++) {
        const struct atoll_recipe_heredoc *here = &step->heredocs[i];
        const struct atoll_make_job_file file = {atoll_make_job_textf(job, HERE "/%zu", i), 0644,
                                                 here->text, strlen(here->text)};
        const char *path = atoll_make_job_textf(job, "%zu", i);
        r = atoll_make_job_add_file(job, &file, err);
        (void)!atoll_buf_append(&pairs, path, strlen(path) + 1);
        (void)!atoll_buf_append(&pairs, here->name, strlen(here->name) + 1);
    }
    if (r == 0) {
        command = copy_command(job, step, HERE, dest);
        atoll_make_job_set_input(job, &command, atoll_buf_head(&pairs), atoll_buf_size(&pairs));
        r = atoll_make_job_add_command(job, &command, err);
    }
    atoll_buf_done(&pairs);
    return r;
}

/* "": the job is too large. */
static bool is_directory(const char *dest)
{
    size_t n = strlen(dest);
    return n == 0 || dest[n - 1] == '/';
}

/* From a context: what is copied is known, and its digest is in the key. */
static int add_context(struct atoll_make_stage *stage, struct atoll_make_job *job, json_t *facts,
                       const struct atoll_make_source *source, const char *dest,
                       struct atoll_error *err)
{
    struct atoll_copy_match match;
    struct atoll_make_job_command command;
    uint8_t *pairs;
    size_t len;
    int r = atoll_copy_match(source->tree, &stage->now, &match, err);

    if (r < 0)
        return r;
    if (match.pair_count > 1 && !is_directory(dest))
        dest = atoll_make_job_textf(job, "%s/", dest);
    (void)json_object_set_new(facts, "copied", json_string(match.digest));
    r = atoll_make_job_add_tree(job, TREE, atoll_make_job_textf(job, "%s", source->layer), err);
    if (r == 0 && stage->now.kind == ATOLL_RECIPE_ADD)
        r = atoll_stage_add_files(job, &stage->now, &match, dest, err);
    if (r < 0 || stage->now.kind == ATOLL_RECIPE_ADD) {
        atoll_copy_match_done(&match);
        return r;
    }
    pairs = atoll_make_pairs(&match, &len);
    command = copy_command(job, &stage->now, TREE, dest);
    atoll_make_job_set_input(job, &command, pairs, len);
    free(pairs);
    atoll_copy_match_done(&match);
    return atoll_make_job_add_command(job, &command, err);
}

/* From a stage or an image: the key is that of its whole stack. */
static int add_stack(struct atoll_make_stage *stage, struct atoll_make_job *job, json_t *facts,
                     const char *layers, const char *dest, struct atoll_error *err)
{
    struct arguments a = {0};
    struct atoll_make_job_command list = {.what = "the list of files", .user = "root", .cwd = "/"};
    struct atoll_make_job_command copy = copy_command(job, &stage->now, TREE, dest);
    int r = atoll_make_job_add_tree(job, TREE, atoll_make_job_textf(job, "%s", layers), err);

    add_word(&a, ATOLL_COPY_PROGRAM);
    add_word(&a, "--list");
    add_word(&a, TREE);
    list.argv = finish_words(job, &a);
    list.match = &stage->now;
    (void)json_object_set_new(facts, "from", json_string(layers));
    if (r == 0)
        r = atoll_make_job_add_command(job, &list, err);
    return r < 0 ? r : atoll_make_job_add_command(job, &copy, err);
}

void atoll_stage_use_copier(struct atoll_make_job *job)
{
    if (atoll_stack_is_host(job->layers))
        return;
    job->builder = ATOLL_BUILDER_COPY;
    job->result = "u.import";
}

int atoll_stage_compose_directories(const struct atoll_make_stage *stage,
                                    struct atoll_make_job *job, struct atoll_error *err)
{
    int r = stage->pending_count
                ? atoll_make_job_add_cache(job, ATOLL_CACHE_SCRATCH, EMPTY, NULL, err)
                : 0;

    for (size_t i = 0; r == 0 && i < stage->pending_count; i++) {
        struct atoll_make_job_command command = {.what = "WORKDIR", .user = "root", .cwd = "/"};
        struct arguments a = {0};
        begin_words(&a, job);
        if (*stage->pending[i].user) {
            add_word(&a, "--chown");
            add_word(&a, atoll_make_job_textf(job, "%s", stage->pending[i].user));
        }
        add_word(&a, EMPTY);
        add_word(&a, atoll_make_job_textf(job, "%s/", stage->pending[i].path));
        add_word(&a, ""); /* the content of the empty directory */
        add_word(&a, "");
        command.argv = finish_words(job, &a);
        r = atoll_make_job_add_command(job, &command, err);
    }
    return r;
}

int atoll_stage_compose_copy(struct atoll_make_stage *stage, struct atoll_make_job *job,
                             json_t *facts, struct atoll_error *err)
{
    const struct atoll_recipe_step *step = &stage->now;
    const char *dest = atoll_stage_path(stage, job, step->dest);
    size_t urls = 0, files = 0;
    struct atoll_stage_tree tree;
    int r;

    for (size_t i = 0; i < step->arg_count; i++)
        *(step->kind == ATOLL_RECIPE_ADD && atoll_copy_is_remote(step->args[i]) ? &urls : &files) +=
            1;
    if (files + step->heredoc_count > 1 && !is_directory(dest))
        dest = atoll_make_job_textf(job, "%s/", dest);
    (void)json_object_set_new(facts, "dest", json_string_nocheck(dest));
    r = add_here(stage, job, dest, err);
    if (r == 0 && urls > 0)
        r = atoll_stage_add_urls(stage, job, dest, err);
    if (r < 0 || files == 0)
        return r;
    r = atoll_stage_find_tree(stage, step->flags.from, &tree, err);
    if (r < 0)
        return r;
    if (tree.source)
        return add_context(stage, job, facts, tree.source, dest, err);
    if (!tree.layers || !*tree.layers)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s has no files", step->flags.from);
    return add_stack(stage, job, facts, tree.layers, dest, err);
}
