#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/build/build_internal.h"
#include "image/config_apply.h"
#include "image/dockerfile.h"

/*
 * Walks the steps of one stage. Instructions that change the config only are applied at once; RUN, COPY and
 * ADD have a job, whose layer is looked up by its key or made. The directory of a WORKDIR is made by the
 * next job, or by one of its own at the end of the stage.
 */
#define PATH_DEFAULT "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define EMPTY_KEY "the empty layer"

static void walk(struct atoll_make_stage *stage);

const char *atoll_config_text(const json_t *config, const char *name)
{
    const char *text = json_string_value(json_object_get(config, name));
    return text ? text : "";
}

const char *atoll_stage_name(const struct atoll_make_stage *stage, char out[32])
{
    const char *name = stage->make->recipe->stages[stage->index].name;

    if (name)
        return name;
    (void)snprintf(out, 32, "%zu", stage->index);
    return out;
}

/* --- paths and variables --- */

const char *atoll_stage_path(const struct atoll_make_stage *stage, struct atoll_make_job *job,
                             const char *path)
{
    const char *directory = atoll_config_text(stage->config, "WorkingDir");
    size_t n = strlen(directory);

    if (*path == '/')
        return path;
    while (n > 0 && directory[n - 1] == '/')
        n--;
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    if (strcmp(path, ".") == 0)
        path = "";
    return atoll_make_job_textf(job, "%.*s/%s", (int)n, directory, path);
}

const char *const *atoll_stage_env(const struct atoll_make_stage *stage, struct atoll_make_job *job)
{
    static const char *const none[] = {NULL};
    struct atoll_recipe_variable variable;
    size_t pos = 0, count = 0;
    const char **env;

    while (atoll_recipe_scope_next(stage->scope, &pos, &variable))
        count++;
    env = atoll_make_job_words(job, count);
    if (!env)
        return none;
    for (pos = 0, count = 0; atoll_recipe_scope_next(stage->scope, &pos, &variable); count++)
        env[count] = atoll_make_job_textf(job, "%s=%s", variable.name, variable.value);
    return env;
}

/* Variables that a key depends on: without those that clients give for their surroundings. */
static json_t *key_env(const struct atoll_make_stage *stage)
{
    struct atoll_recipe_variable variable;
    json_t *env = json_object();
    size_t pos = 0;

    while (atoll_recipe_scope_next(stage->scope, &pos, &variable))
        if (!variable.predefined)
            (void)json_object_set_new(env, variable.name, json_string_nocheck(variable.value));
    return env;
}

/* --- failures --- */

static void fail(struct atoll_make_stage *stage, const struct atoll_error *error)
{
    const int line = stage->at < stage->count ? stage->steps[stage->at]->line : 0;

    atoll_make_fail(stage->make, error, line, stage->number);
}

/* --- layers --- */

/* Adds a held layer to the stack. */
static void push_layer(struct atoll_make_stage *stage, const char *layer)
{
    char *layers;

    if (asprintf(&layers, "%s%s%s", stage->layers, *stage->layers ? " " : "", layer) < 0)
        abort();
    free(stage->layers);
    stage->layers = layers;
}

static void drop_pending(struct atoll_make_stage *stage)
{
    for (size_t i = 0; i < stage->pending_count; i++) {
        free(stage->pending[i].path);
        free(stage->pending[i].user);
    }
    stage->pending_count = 0;
}

/* A step has ended: the next one. */
static void step_done(struct atoll_make_stage *stage, bool cached)
{
    struct atoll_make *make = stage->make;

    drop_pending(stage);
    make->steps_done++;
    make->steps_cached += cached;
    atoll_metric_add(ATOLL_METRIC_BUILD_STEPS, ATOLL_LABELS(cached ? "cached" : "run"), 1);
    atoll_make_log_done(make, stage->number, atoll_clock_ms() - stage->began_ms, cached);
    stage->number = 0;
    stage->at++;
}

static void on_said(void *arg, int stream, const char *line, size_t n)
{
    const struct atoll_make_stage *stage = arg;

    atoll_make_log_output(stage->make, stage->number, stream, line, n);
}

static void on_run(void *arg, const char *layer, int code, const struct atoll_error *error)
{
    struct atoll_make_stage *stage = arg;
    struct atoll_error err;

    (void)code;
    if (!error && atoll_layer_hold(stage->make->engine, layer, &err) < 0)
        error = &err;
    if (error) {
        fail(stage, error);
        return;
    }
    push_layer(stage, layer);
    if (stage->number > 0)
        step_done(stage, false);
    else if (stage->making)
        drop_pending(stage);
    stage->making = false;
    walk(stage);
}

/* Takes the job. True: its layer was in the cache. */
static bool find_or_run(struct atoll_make_stage *stage, struct atoll_make_job *job)
{
    struct atoll_engine *engine = stage->make->engine;
    struct atoll_cached_step cached;
    struct atoll_error err;

    if (!job->fresh && atoll_steps_get(engine, job->tenant, job->key, &cached) &&
        atoll_layers_hold(engine, cached.layers, &err) == 0) {
        push_layer(stage, cached.layers);
        atoll_make_job_free(job);
        return true;
    }
    stage->wait = (struct atoll_run_wait){.said = on_said, .done = on_run, .arg = stage};
    atoll_run_start(engine, job, &stage->wait);
    return false;
}

/* --- jobs --- */

static struct atoll_make_job *new_job(struct atoll_make_stage *stage)
{
    const struct atoll_make *make = stage->make;
    struct atoll_make_job *job = atoll_make_job_new();

    (void)snprintf(job->tenant, sizeof(job->tenant), "%s", make->tenant);
    job->layers = atoll_make_job_textf(job, "%s", stage->layers);
    job->limits = make->limits;
    job->fresh = make->no_cache || stage->fresh;
    return job;
}

/* What every key depends on. */
static json_t *new_facts(const struct atoll_make_stage *stage)
{
    json_t *facts = json_object(), *pending = json_array();

    for (size_t i = 0; i < stage->pending_count; i++)
        (void)json_array_append_new(
            pending, json_pack("[s, s]", stage->pending[i].path, stage->pending[i].user));
    (void)json_object_set_new(facts, "layers", json_string(stage->layers));
    (void)json_object_set_new(facts, "directories", pending);
    return facts;
}

static int compose(struct atoll_make_stage *stage, struct atoll_make_job *job, json_t *facts,
                   struct atoll_error *err)
{
    bool copies = stage->now.kind != ATOLL_RECIPE_RUN;
    int r;

    (void)json_object_set_new(facts, "step", atoll_recipe_step_to_json(&stage->now, true));
    if (copies)
        atoll_stage_use_copier(job);
    r = atoll_stage_compose_directories(stage, job, err);
    if (r < 0 || copies)
        return r < 0 ? r : atoll_stage_compose_copy(stage, job, facts, err);
    (void)json_object_set_new(facts, "env", key_env(stage));
    (void)json_object_set_new(facts, "user",
                              json_string_nocheck(atoll_config_text(stage->config, "User")));
    (void)json_object_set_new(facts, "workdir",
                              json_string_nocheck(atoll_config_text(stage->config, "WorkingDir")));
    return atoll_stage_compose_run(stage, job, facts, err);
}

/* A step with a sandbox. True: it was cached; false: it runs, or has failed. */
static bool begin_step(struct atoll_make_stage *stage)
{
    struct atoll_make *make = stage->make;
    struct atoll_make_job *job = new_job(stage);
    json_t *facts = new_facts(stage);
    struct atoll_error err;
    char name[32];
    int r;

    stage->number = ++make->steps_begun;
    stage->began_ms = atoll_clock_ms();
    atoll_make_log_step(make, stage->number, atoll_stage_name(stage, name), stage->now.line,
                        stage->now.text ? stage->now.text : "");
    r = compose(stage, job, facts, &err);
    if (r == 0)
        r = atoll_make_job_check(job, &err);
    atoll_make_key(facts, job->key);
    json_decref(facts);
    if (r < 0) {
        atoll_make_job_free(job);
        fail(stage, &err);
        return false;
    }
    if (!find_or_run(stage, job))
        return false;
    step_done(stage, true);
    return true;
}

/* FROM scratch: an overlay needs a layer, so a stage without layers begins with an empty one. True: it has
 * one now. */
static bool begin_empty(struct atoll_make_stage *stage)
{
    struct atoll_make_job *job = new_job(stage);
    json_t *facts = json_string(EMPTY_KEY);

    job->builder = ATOLL_BUILDER_UNPACK;
    job->result = "import";
    job->fresh = false;
    atoll_make_key(facts, job->key);
    json_decref(facts);
    return find_or_run(stage, job);
}

/* Makes the directories of pending WORKDIRs without another step. True: nothing to make, or cached. */
static bool begin_directories(struct atoll_make_stage *stage)
{
    struct atoll_make_job *job;
    struct atoll_error err;
    json_t *facts;

    if (stage->pending_count == 0)
        return true;
    job = new_job(stage);
    facts = new_facts(stage);
    atoll_make_key(facts, job->key);
    json_decref(facts);
    atoll_stage_use_copier(job);
    if (atoll_stage_compose_directories(stage, job, &err) < 0 ||
        atoll_make_job_check(job, &err) < 0) {
        atoll_make_job_free(job);
        fail(stage, &err);
        return false;
    }
    stage->making = true;
    if (!find_or_run(stage, job))
        return false;
    stage->making = false;
    drop_pending(stage);
    return true;
}

/* --- the walk --- */

static int add_workdir(struct atoll_make_stage *stage, struct atoll_error *err)
{
    const char *path = atoll_config_text(stage->config, "WorkingDir");
    const char *user = atoll_config_text(stage->config, "User");
    struct atoll_make_pending *pending = &stage->pending[stage->pending_count];

    if (strcmp(path, "/") == 0 || !*path)
        return 0;
    if (stage->pending_count == ATOLL_MAKE_PENDING_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "%d WORKDIRs without another step between them", ATOLL_MAKE_PENDING_MAX);
    pending->path = strdup(path);
    pending->user = strdup(user);
    if (!pending->path || !pending->user)
        abort();
    stage->pending_count++;
    return 0;
}

/* True: go on with the next; false: the step runs, or has failed. */
static bool take_step(struct atoll_make_stage *stage)
{
    struct atoll_error err;
    int r = atoll_recipe_scope_expand(stage->scope, stage->steps[stage->at], &stage->now, &err);

    stage->fresh = stage->fresh || stage->steps[stage->at]->fresh;
    if (r == 0) {
        switch (stage->now.kind) {
        case ATOLL_RECIPE_RUN:
        case ATOLL_RECIPE_COPY:
        case ATOLL_RECIPE_ADD:
            if (!*stage->layers && !begin_empty(stage))
                return false;
            /* What is below a mount point that the sandbox makes would not be part of the result. */
            if (stage->now.flags.mount_count > 0 && !begin_directories(stage))
                return false;
            return begin_step(stage);
        default:
            r = atoll_image_config_apply(stage->config, &stage->now, &stage->cmd_set, &err);
        }
    }
    if (r == 0 && stage->now.kind == ATOLL_RECIPE_WORKDIR)
        r = add_workdir(stage, &err);
    if (r < 0) {
        fail(stage, &err);
        return false;
    }
    stage->at++;
    return true;
}

static void walk(struct atoll_make_stage *stage)
{
    while (stage->at < stage->count)
        if (!take_step(stage))
            return;
    if (!*stage->layers && !begin_empty(stage))
        return;
    if (!begin_directories(stage))
        return;
    stage->state = ATOLL_STAGE_READY;
    atoll_make_advance(stage->make);
}

/* --- the start --- */

static int set_base(struct atoll_make_stage *stage, struct atoll_error *err)
{
    struct atoll_make *make = stage->make;
    const struct atoll_recipe_source *base = &make->plan->stages[stage->index].base;
    const struct atoll_make_stage *other;
    const struct atoll_make_image *image;
    const char *layers = "";

    if (base->kind == ATOLL_RECIPE_FROM_SCRATCH) {
        stage->config = json_pack("{s:[s]}", "Env", PATH_DEFAULT);
    } else if (base->kind == ATOLL_RECIPE_FROM_STAGE) {
        other = &make->stages[base->stage];
        layers = other->layers;
        stage->config = json_deep_copy(other->config);
        stage->scope = atoll_recipe_scope_child(other->scope);
    } else {
        image = atoll_make_image_of(make, base->image);
        layers = image->layers;
        stage->config = json_deep_copy(image->config);
    }
    if (!stage->scope)
        stage->scope = atoll_recipe_scope_new(make->recipe, &make->inputs);
    stage->layers = strdup(layers);
    if (!stage->scope || !stage->config || !stage->layers)
        abort();
    return *layers ? atoll_layers_hold(make->engine, layers, err) : 0;
}

/* The variables of the base. */
static int set_env(struct atoll_make_stage *stage, struct atoll_error *err)
{
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(stage->config, "Env"), i, item)
    {
        const char *text = json_string_value(item), *value = text ? strchr(text, '=') : NULL;
        char *name = value ? strndup(text, (size_t)(value - text)) : NULL;
        int r = name ? atoll_recipe_scope_set_env(stage->scope, name, value + 1, err) : 0;
        free(name);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The steps: first the triggers of the base, which are not triggers of the result. */
static int set_steps(struct atoll_make_stage *stage, struct atoll_error *err)
{
    const struct atoll_recipe *recipe = stage->make->recipe;
    const struct atoll_recipe_stage *own = &recipe->stages[stage->index];
    json_t *triggers = json_object_get(stage->config, "OnBuild"), *item;
    struct atoll_recipe_step *step;
    size_t i;

    stage->steps =
        atoll_alloc((json_array_size(triggers) + own->step_count + 1) * sizeof(*stage->steps));
    json_array_foreach(triggers, i, item)
    {
        const char *text = json_string_value(item);
        if (!text)
            continue;
        step = atoll_recipe_alloc(&stage->triggers, sizeof(*step));
        if (!step)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                              "the ONBUILD instructions of the base take more than %zu MiB",
                              ATOLL_RECIPE_MEMORY_MAX >> 20);
        if (atoll_dockerfile_parse_step(&stage->triggers, text, strlen(text), recipe->escape, step,
                                        err) < 0)
            return atoll_wrap(err, "ONBUILD of the base");
        step->line = own->line;
        stage->steps[stage->count++] = step;
        stage->make->step_count += step->kind == ATOLL_RECIPE_RUN ||
                                   step->kind == ATOLL_RECIPE_COPY ||
                                   step->kind == ATOLL_RECIPE_ADD;
    }
    (void)json_object_del(stage->config, "OnBuild");
    for (i = 0; i < own->step_count; i++)
        stage->steps[stage->count++] = own->steps[i];
    return 0;
}

void atoll_stage_start(struct atoll_make_stage *stage)
{
    struct atoll_error err;

    stage->state = ATOLL_STAGE_WALKING;
    if (set_base(stage, &err) < 0 || set_env(stage, &err) < 0 || set_steps(stage, &err) < 0) {
        atoll_make_fail(stage->make, &err, stage->make->recipe->stages[stage->index].line, 0);
        return;
    }
    walk(stage);
}

void atoll_stage_stop(struct atoll_make_stage *stage)
{
    atoll_run_leave(&stage->wait);
}

void atoll_stage_done(struct atoll_make_stage *stage)
{
    atoll_run_leave(&stage->wait);
    drop_pending(stage);
    if (stage->layers && *stage->layers)
        atoll_layers_release(stage->make->engine, stage->layers);
    free(stage->layers);
    json_decref(stage->config);
    atoll_recipe_scope_free(stage->scope);
    free(stage->steps);
    atoll_recipe_memory_done(&stage->triggers);
}
