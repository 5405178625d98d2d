#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "engine/build/job.h"
#include "image/copy_match.h"
#include "loop/steps.h"

/*
 * Runs a job: the sandbox, files, commands, the layer, the cache; each is a step of a flow
 * (loop/steps.h). The sandbox ends in any case, before the answer.
 */

#define RUNS_MAX 8 /* in progress, and as many quick ones; each is a sandbox */
#define LINE_MAX_BYTES 4096
#define MANIFEST_MAX ((size_t)64 * 1024 * 1024)
#define TIMEOUT_DEFAULT_MS (60 * 60 * 1000)
#define GUARD_MS 250 /* how often the free space is looked at while a command runs */

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
};

struct atoll_run {
    struct atoll_engine *engine;
    struct atoll_list node; /* of the runs, in progress or waiting */
    bool begun;
    struct atoll_make_job *job; /* owned */
    struct atoll_list waits;    /* of struct atoll_run_wait */
    struct atoll_steps flow;
    char sandbox_id[ATOLL_ID_LEN + 1]; /* "" until it exists */
    size_t at;                         /* file or command in progress */
    struct atoll_reader *reader;       /* of the command */
    struct line lines[2];              /* the beginning of a line of stdout, stderr */
    struct atoll_buf manifest;         /* output of a command that matches */
    uint8_t *pairs;                    /* what it matched: input of the next command; owned */
    size_t pairs_len;
    int code;
    char layer[34]; /* held from keep() on; "" before */
    bool left;      /* the last waiter has left */
    bool held;      /* job->layers, as the next ones: of the trees */
    size_t held_trees;
    struct atoll_error error; /* it cannot begin; else kind NONE */
    struct atoll_timer later;
    struct atoll_timer guard;
    bool no_room; /* ended by the guard */
};

static void tell_line(struct atoll_run *run, int stream, const char *text, size_t n)
{
    ATOLL_LIST_FOREACH (&run->waits, node) {
        struct atoll_run_wait *wait = ATOLL_CONTAINER_OF(node, struct atoll_run_wait, node);
        if (wait->said)
            wait->said(wait->arg, stream, text, n);
    }
}

static void flush_line(struct atoll_run *run, int stream)
{
    struct line *line = &run->lines[stream == 2];

    if (line->len > 0)
        tell_line(run, stream, line->text, line->len);
    line->len = 0;
}

static void tell_output(struct atoll_run *run, int stream, const uint8_t *bytes, size_t n)
{
    struct line *line = &run->lines[stream == 2];

    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            tell_line(run, stream, line->text, line->len);
            line->len = 0;
            continue;
        }
        if (line->len == sizeof(line->text))
            flush_line(run, stream);
        line->text[line->len++] = (char)bytes[i];
    }
}

/* False: no waiter wants bytes. A run that has one is not shared. */
static bool tell_bytes(struct atoll_run *run, const uint8_t *bytes, size_t n)
{
    ATOLL_LIST_FOREACH (&run->waits, node) {
        struct atoll_run_wait *wait = ATOLL_CONTAINER_OF(node, struct atoll_run_wait, node);
        if (wait->wrote) {
            wait->wrote(wait->arg, bytes, n);
            return true;
        }
    }
    return false;
}

/* --- sandbox --- */

static void on_sandbox(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    if (!s)
        run->sandbox_id[0] = '\0';
    atoll_steps_done(&run->flow, error);
}

static void make_sandbox(void *arg)
{
    struct atoll_run *run = arg;
    const struct atoll_make_job *job = run->job;
    struct atoll_error err = run->error;
    struct atoll_sandbox *s =
        err.kind == ATOLL_ERR_NONE ? atoll_make_sandbox(run->engine, job, &err) : NULL;

    if (!s) {
        atoll_steps_done(&run->flow, &err);
        return;
    }
    memcpy(run->sandbox_id, s->spec.id, sizeof(run->sandbox_id));
    atoll_sandbox_launch(s, on_sandbox, run);
}

static void on_removed(void *arg, const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    run->sandbox_id[0] = '\0';
    if (error)
        atoll_log(ATOLL_LOG_WARN, "sandbox of a build is not removed", "error", error->text, NULL);
    atoll_steps_done(&run->flow, NULL);
}

static void remove_sandbox(void *arg)
{
    struct atoll_run *run = arg;
    struct atoll_sandbox *s = atoll_map_get(&run->engine->sandboxes, run->sandbox_id);

    run->reader = atoll_reader_close(run->reader);
    if (s)
        atoll_sandbox_destroy(s, "the end of the step", on_removed, run);
    else
        atoll_steps_done(&run->flow, NULL);
}

/* --- files --- */

static void next_file(struct atoll_run *run);

static void on_file(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    (void)entry;
    if (error) {
        atoll_steps_done(&run->flow, error);
        return;
    }
    run->at++;
    next_file(run);
}

static void on_rewritten(void *arg, struct atoll_upload *upload, const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    const struct atoll_make_job_file *file = &run->job->files[run->at];
    struct atoll_error err;
    int r;

    if (error) {
        atoll_steps_done(&run->flow, error);
        return;
    }
    r = atoll_upload_write(upload, file->bytes, file->len);
    if (r < 0) {
        (void)atoll_upload_fail(r, &err);
        atoll_upload_drop(upload);
        atoll_steps_done(&run->flow, &err);
        return;
    }
    atoll_upload_finish(upload, on_file, run);
}

static void next_file(struct atoll_run *run)
{
    const struct atoll_make_job *job = run->job;

    if (run->at == job->file_count) {
        atoll_steps_done(&run->flow, NULL);
        return;
    }
    /* Not replaced: the file may be a mount point. */
    atoll_files_rewrite(run->engine, run->sandbox_id, "root", job->files[run->at].path,
                        job->files[run->at].mode, on_rewritten, run);
}

static void write_files(void *arg)
{
    struct atoll_run *run = arg;

    run->at = 0;
    next_file(run);
}

/* --- commands --- */

static void next_command(struct atoll_run *run);

/* Makes the input of the next command: PATH NUL NAME NUL …, see copy/copy.h. */
static int match_files(struct atoll_run *run, const struct atoll_recipe_step *step,
                       struct atoll_error *err)
{
    struct atoll_copy_tree *tree;
    struct atoll_copy_match match;
    int r = atoll_copy_tree_parse((const char *)atoll_buf_head(&run->manifest),
                                  atoll_buf_size(&run->manifest), &tree, err);

    if (r < 0)
        return r;
    r = atoll_copy_match(tree, step, &match, err);
    if (r == 0) {
        free(run->pairs);
        run->pairs = atoll_make_pairs(&match, &run->pairs_len);
        atoll_copy_match_done(&match);
    }
    atoll_copy_tree_free(tree);
    atoll_buf_done(&run->manifest);
    return r;
}

static int failed(struct atoll_run *run, const struct atoll_make_job_command *command,
                  const struct atoll_exec_result *result, struct atoll_error *err)
{
    if (run->no_room)
        return atoll_room_check(run->engine, err) < 0
                   ? -ENOSPC
                   : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC,
                                "the step was ended because the daemon's disk was almost full");
    switch (result->kind) {
    case ATOLL_END_EXITED:
        run->code = result->code;
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO, "%s ended with status %d",
                          command->what, result->code);
    case ATOLL_END_TIMED_OUT:
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "%s took too long",
                          command->what);
    case ATOLL_END_OOM_KILLED:
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                          "%s needed more memory than a step may have (%llu MiB)", command->what,
                          (unsigned long long)(run->job->limits.memory_bytes >> 20));
    case ATOLL_END_SIGNALED:
        run->code = 128 + result->signal;
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO, "%s was ended by signal %d",
                          command->what, result->signal);
    default:
        return atoll_fail(err, ATOLL_ERR_ABORTED, EIO, "%s did not end by itself: %s",
                          command->what, result->reason);
    }
}

/* The disk of a builder is a directory without a limit: the step ends before the disk of all is full. */
static void guard(void *arg)
{
    struct atoll_run *run = arg;
    struct atoll_sandbox *s = atoll_map_get(&run->engine->sandboxes, run->sandbox_id);
    struct atoll_error err;

    if (!run->reader || !s)
        return;
    if (atoll_room_check(run->engine, &err) == 0) {
        atoll_timer_set(&run->guard, run->engine->loop, GUARD_MS, guard, run);
        return;
    }
    run->no_room = true;
    atoll_sandbox_destroy(s, "the daemon, because its disk is almost full", NULL, NULL);
}

static void end_command(struct atoll_run *run, const struct atoll_exec_result *result)
{
    const struct atoll_make_job_command *command = &run->job->commands[run->at];
    struct atoll_error err;
    int r = 0;

    run->reader = atoll_reader_close(run->reader);
    flush_line(run, 1);
    flush_line(run, 2);
    if (result->kind != ATOLL_END_EXITED || result->code != 0)
        r = failed(run, command, result, &err);
    else if (command->match)
        r = match_files(run, command->match, &err);
    if (r < 0) {
        atoll_steps_done(&run->flow, &err);
        return;
    }
    run->at++;
    next_command(run);
}

static void take_output(struct atoll_run *run, const struct atoll_reader_item *item)
{
    if (run->job->commands[run->at].match && item->stream == 1)
        (void)!atoll_buf_append(&run->manifest, item->data, (size_t)item->length);
    else if (item->stream == 1 && tell_bytes(run, item->data, (size_t)item->length))
        return;
    else
        tell_output(run, item->stream, item->data, (size_t)item->length);
}

static void on_output(void *arg)
{
    struct atoll_run *run = arg;
    struct atoll_reader_item item;
    int r = 0;

    while (run->reader && (r = atoll_reader_next(run->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA) {
            take_output(run, &item);
        } else if (item.kind == ATOLL_READ_END) {
            struct atoll_exec_result result = *item.result;
            end_command(run, &result);
            return;
        }
    }
    if (r < 0)
        end_command(run, &(struct atoll_exec_result){.kind = ATOLL_END_LOST});
}

/* A command may run for a long time. Its end, with that of the sandbox, completes the step. */
static void stop_command(const struct atoll_run *run)
{
    struct atoll_sandbox *s = atoll_map_get(&run->engine->sandboxes, run->sandbox_id);

    if (s && run->reader)
        atoll_sandbox_destroy(s, "the end of the build", NULL, NULL);
}

static void on_command(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    const struct atoll_make_job_command *command = &run->job->commands[run->at];
    struct atoll_error err;

    if (!error && atoll_reader_open(exec, 0, 0, on_output, run, &run->reader, &err) < 0)
        error = &err;
    if (error) {
        atoll_steps_done(&run->flow, error);
        return;
    }
    if (!run->job->no_result)
        atoll_timer_set(&run->guard, run->engine->loop, GUARD_MS, guard, run);
    if (run->pairs)
        atoll_exec_feed(exec, run->pairs, run->pairs_len);
    else if (command->input)
        atoll_exec_feed(exec, command->input, command->input_len);
    free(ATOLL_TAKE_PTR(run->pairs));
    if (run->left)
        stop_command(run);
}

static void next_command(struct atoll_run *run)
{
    const struct atoll_make_job *job = run->job;
    const struct atoll_make_job_command *command = &job->commands[run->at];
    struct atoll_exec_start start = {0};

    if (run->at == job->command_count) {
        atoll_steps_done(&run->flow, NULL);
        return;
    }
    start.argv = command->argv;
    start.env = command->env;
    start.user = command->user;
    start.cwd = command->cwd;
    start.timeout_ms = job->limits.timeout_s ? job->limits.timeout_s * 1000 : TIMEOUT_DEFAULT_MS;
    start.stdin_open = command->input || run->pairs;
    atoll_buf_init(&run->manifest, MANIFEST_MAX);
    atoll_engine_exec(run->engine, run->sandbox_id, &start, on_command, run);
}

static void run_commands(void *arg)
{
    struct atoll_run *run = arg;

    run->at = 0;
    next_command(run);
}

/* --- the layer --- */

static void release_layer(void *arg)
{
    struct atoll_run *run = arg;

    if (*run->layer)
        atoll_layer_release(run->engine, run->layer);
    run->layer[0] = '\0';
    atoll_steps_done(&run->flow, NULL);
}

static int check_size(const struct atoll_run *run, uint64_t bytes, struct atoll_error *err)
{
    const uint64_t max = run->engine->config.build_step_max_bytes;
    char wrote[16], limit[16];

    if (max == 0 || bytes <= max)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                      "the step wrote %s, and a step may write %s (--build-step-max of atolld)",
                      atoll_text_format_size(bytes, wrote), atoll_text_format_size(max, limit));
}

static void on_kept(void *arg, const struct atoll_provider_layer *made,
                    const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    struct atoll_layer_facts facts = {.name = run->layer};
    struct atoll_error err;

    if (!error) {
        facts.size_bytes = made->bytes;
        facts.files = made->files;
    }
    if (!error && check_size(run, made->bytes, &err) < 0)
        error = &err;
    if (!error && atoll_layer_put(run->engine, &facts, &err) < 0)
        error = &err;
    if (error) {
        err = *error;
        atoll_layer_release(run->engine, run->layer);
        run->layer[0] = '\0';
        error = &err;
    }
    atoll_steps_done(&run->flow, error);
}

static void keep_layer(void *arg)
{
    struct atoll_run *run = arg;
    struct atoll_provider *provider = run->engine->builder->provider;
    struct atoll_spec spec = {0};
    struct atoll_sandbox *s;
    struct atoll_error err;
    int r;

    if (run->job->no_result) {
        atoll_steps_done(&run->flow, NULL);
        return;
    }
    r = atoll_fault("build.keep");
    atoll_layer_new_name(run->layer);
    r = r ? atoll_fail_errno(&err, r, "keep the layer")
          : atoll_layer_hold(run->engine, run->layer, &err);
    if (r < 0) {
        run->layer[0] = '\0';
        atoll_steps_done(&run->flow, &err);
        return;
    }
    memcpy(spec.id, run->sandbox_id, sizeof(spec.id));
    s = atoll_map_get(&run->engine->sandboxes, run->sandbox_id);
    if (s)
        s->keeping = true;
    provider->ops->keep_layer(provider, &spec, run->job->result, run->layer, on_kept, run);
}

static void put_into_cache(void *arg)
{
    struct atoll_run *run = arg;
    const struct atoll_cached_step step = {.layers = run->layer, .config = ""};
    struct atoll_error err;
    int r = 0;

    atoll_fault_die("build.kept");
    if (*run->job->key && !run->job->no_result)
        r = atoll_steps_put(run->engine, run->job->tenant, run->job->key, &step, &err);
    atoll_fault_die("build.cached");
    atoll_steps_done(&run->flow, r < 0 ? &err : NULL);
}

static const struct atoll_step flow[] = {
    {"making the sandbox", make_sandbox, remove_sandbox},
    {"writing the files", write_files, NULL},
    {"running the commands", run_commands, NULL},
    {"keeping the layer", keep_layer, release_layer},
    {"storing the step", put_into_cache, NULL},
};

/* --- life --- */

/* What its sandbox sees is held by the run: builds that share it may end before the sandbox is gone. */
static int hold_layers(struct atoll_run *run, struct atoll_error *err)
{
    const struct atoll_make_job *job = run->job;
    int r = *job->layers ? atoll_layers_hold(run->engine, job->layers, err) : 0;

    run->held = r == 0;
    for (size_t i = 0; r == 0 && i < job->tree_count; i++) {
        r = atoll_layers_hold(run->engine, job->trees[i].layers, err);
        run->held_trees += r == 0;
    }
    return r;
}

static void release_layers(struct atoll_run *run)
{
    const struct atoll_make_job *job = run->job;

    if (run->held && *job->layers)
        atoll_layers_release(run->engine, job->layers);
    for (size_t i = 0; i < run->held_trees; i++)
        atoll_layers_release(run->engine, job->trees[i].layers);
}

static void run_free(struct atoll_run *run)
{
    release_layers(run);
    atoll_list_remove(&run->node);
    atoll_timer_cancel(&run->later);
    atoll_timer_cancel(&run->guard);
    run->reader = atoll_reader_close(run->reader);
    atoll_buf_done(&run->manifest);
    free(run->pairs);
    atoll_make_job_free(run->job);
    free(run);
}

static void answer(struct atoll_run *run, const struct atoll_error *error)
{
    while (!atoll_list_empty(&run->waits)) {
        struct atoll_run_wait *wait =
            ATOLL_CONTAINER_OF(run->waits.next, struct atoll_run_wait, node);
        atoll_list_remove(&wait->node);
        wait->run = NULL;
        wait->done(wait->arg, run->layer, run->code, error);
    }
}

static void start_next(struct atoll_engine *engine);

static unsigned *count_of(struct atoll_engine *engine, const struct atoll_make_job *job)
{
    return &atoll_makes(engine)->runs.counts[job->quick];
}

static void end_run(struct atoll_run *run, const struct atoll_error *error)
{
    struct atoll_engine *engine = run->engine;

    atoll_list_remove(&run->node); /* its key is free for a new run */
    *count_of(engine, run->job) -= 1;
    atoll_cache_mounts_used(engine, run->job);
    answer(run, error);
    if (*run->layer)
        atoll_layer_release(engine, run->layer);
    run_free(run);
    start_next(engine);
}

static void on_last_removed(void *arg, const struct atoll_error *error)
{
    (void)error;
    end_run(arg, NULL);
}

static void on_flow(void *arg, const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    struct atoll_sandbox *s = atoll_map_get(&run->engine->sandboxes, run->sandbox_id);
    struct atoll_error err;

    if (error) { /* the undo has removed the sandbox */
        err = *error;
        end_run(run, &err);
        return;
    }
    if (s)
        atoll_sandbox_destroy(s, "the end of the step", on_last_removed, run);
    else
        end_run(run, NULL);
}

static void begin(void *arg)
{
    struct atoll_run *run = arg;

    run->flow = (struct atoll_steps){
        .steps = flow, .count = ATOLL_ARRAY_LEN(flow), .arg = run, .done = on_flow};
    atoll_steps_start(&run->flow);
}

static bool has_cache(const struct atoll_make_job *job, const char *name)
{
    for (size_t i = 0; i < job->cache_count; i++)
        if (job->caches[i].kind == ATOLL_CACHE_KEPT && strcmp(job->caches[i].name, name) == 0)
            return true;
    return false;
}

/* A cache is written by one step at a time, as with sharing=locked: two sandboxes with one directory could pass
 * descriptors to each other and keep a root alive that has become a layer. */
static bool waits_for_cache(const struct atoll_runs *runs, const struct atoll_make_job *job)
{
    if (job->shares_caches)
        return false;
    ATOLL_LIST_FOREACH (&runs->runs, node) {
        const struct atoll_make_job *other = ATOLL_CONTAINER_OF(node, struct atoll_run, node)->job;
        if (other->shares_caches || strcmp(other->tenant, job->tenant) != 0)
            continue;
        for (size_t i = 0; i < job->cache_count; i++)
            if (job->caches[i].kind == ATOLL_CACHE_KEPT && has_cache(other, job->caches[i].name))
                return true;
    }
    return false;
}

static void start_next(struct atoll_engine *engine)
{
    struct atoll_runs *runs = &atoll_makes(engine)->runs;

    ATOLL_LIST_FOREACH (&runs->waiting, node) {
        struct atoll_run *run = ATOLL_CONTAINER_OF(node, struct atoll_run, node);
        if (engine->ending)
            return;
        if (*count_of(engine, run->job) >= RUNS_MAX || waits_for_cache(runs, run->job))
            continue;
        atoll_list_remove(&run->node);
        atoll_list_push_back(&runs->runs, &run->node);
        *count_of(engine, run->job) += 1;
        run->begun = true;
        atoll_timer_set(&run->later, engine->loop, 0, begin, run);
    }
}

static struct atoll_run *find_in(struct atoll_list *list, const struct atoll_make_job *job)
{
    ATOLL_LIST_FOREACH (list, node) {
        struct atoll_run *run = ATOLL_CONTAINER_OF(node, struct atoll_run, node);
        if (!run->left && !run->job->fresh && strcmp(run->job->key, job->key) == 0 &&
            strcmp(run->job->tenant, job->tenant) == 0)
            return run;
    }
    return NULL;
}

void atoll_run_start(struct atoll_engine *engine, struct atoll_make_job *job,
                     struct atoll_run_wait *wait)
{
    struct atoll_runs *runs = &atoll_makes(engine)->runs;
    struct atoll_run *run = NULL;

    if (*job->key && !job->fresh) {
        run = find_in(&runs->runs, job);
        run = run ? run : find_in(&runs->waiting, job);
    }
    if (run) {
        atoll_make_job_free(job);
    } else {
        run = atoll_alloc(sizeof(*run));
        run->engine = engine;
        run->job = job;
        if (hold_layers(run, &run->error) == 0)
            run->error.kind = ATOLL_ERR_NONE;
        atoll_list_init(&run->waits);
        atoll_list_push_back(&runs->waiting, &run->node);
    }
    wait->run = run;
    atoll_list_push_back(&run->waits, &wait->node);
    start_next(engine);
}

void atoll_run_leave(struct atoll_run_wait *wait)
{
    struct atoll_run *run = wait->run;

    if (!run)
        return;
    atoll_list_remove(&wait->node);
    wait->run = NULL;
    if (!atoll_list_empty(&run->waits))
        return;
    run->left = true;
    if (!run->begun) {
        run_free(run);
        return;
    }
    if (run->later.loop) { /* the flow has not started */
        struct atoll_engine *engine = run->engine;
        *count_of(engine, run->job) -= 1;
        run_free(run);
        start_next(engine);
        return;
    }
    atoll_steps_cancel(&run->flow, "the client");
    stop_command(run);
}

void atoll_runs_init(struct atoll_runs *runs)
{
    atoll_list_init(&runs->runs);
    atoll_list_init(&runs->waiting);
}

void atoll_runs_done(struct atoll_runs *runs)
{
    ATOLL_LIST_FOREACH (&runs->runs, node)
        run_free(ATOLL_CONTAINER_OF(node, struct atoll_run, node));
    ATOLL_LIST_FOREACH (&runs->waiting, node)
        run_free(ATOLL_CONTAINER_OF(node, struct atoll_run, node));
}
