#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "engine/build/trial.h"
#include "engine/json_memory.h"
#include "engine/template/pull.h"
#include "image/dockerfile.h"

/*
 * The life of builds: start, which stages are walked when, end, and what is listed.
 */
#define TENANT_MAX 64 /* builds of one tenant in progress */
#define ENDED_MS (24 * 60 * 60 * INT64_C(1000))
#define PRUNE_MS (10 * 60 * 1000)

const char *atoll_make_state_name(enum atoll_make_state state)
{
    static const char *const names[] = {
        [ATOLL_MAKE_WAITING] = "waiting",   [ATOLL_MAKE_RUNNING] = "running",
        [ATOLL_MAKE_READY] = "ready",       [ATOLL_MAKE_FAILED] = "failed",
        [ATOLL_MAKE_CANCELED] = "canceled",
    };
    return names[state];
}

static bool has_ended(const struct atoll_make *make)
{
    return make->state >= ATOLL_MAKE_READY;
}

struct atoll_makes *atoll_makes(struct atoll_engine *engine)
{
    if (!engine->makes) {
        engine->makes = atoll_alloc(sizeof(*engine->makes));
        atoll_list_init(&engine->makes->makes);
        atoll_list_init(&engine->makes->trials);
        atoll_list_init(&engine->makes->mounts.all);
        atoll_runs_init(&engine->makes->runs);
    }
    return engine->makes;
}

/* --- memory --- */

struct atoll_make *atoll_make_new(struct atoll_engine *engine)
{
    struct atoll_make *make = atoll_alloc(sizeof(*make));

    make->engine = engine;
    make->log_fd = ATOLL_NO_FD;
    atoll_list_init(&make->watches);
    return make;
}

static void drop_secrets(struct atoll_make *make)
{
    for (size_t i = 0; i < make->secret_count; i++) {
        explicit_bzero((void *)(uintptr_t)make->secrets[i].bytes, make->secrets[i].len);
        free((void *)(uintptr_t)make->secrets[i].bytes);
        free((void *)(uintptr_t)make->secrets[i].id);
    }
    free(ATOLL_TAKE_PTR(make->secrets));
    make->secret_count = 0;
    if (make->login)
        explicit_bzero(make->login, sizeof(*make->login));
    free(ATOLL_TAKE_PTR(make->login));
    free(ATOLL_TAKE_PTR(make->login_image));
}

static void drop_sources(struct atoll_make *make)
{
    for (size_t i = 0; i < make->source_count; i++) {
        if (make->sources[i].layer)
            atoll_layers_release(make->engine, make->sources[i].layer);
        atoll_copy_tree_free(make->sources[i].tree);
        free(make->sources[i].layer);
        free(make->sources[i].name);
        free(make->sources[i].context);
    }
    free(ATOLL_TAKE_PTR(make->sources));
    make->source_count = 0;
}

static void drop_images(struct atoll_make *make)
{
    for (size_t i = 0; i < make->image_count; i++) {
        atoll_image_pull_leave(make->images[i].pull);
        if (make->images[i].layers)
            atoll_layers_release(make->engine, make->images[i].layers);
        free(make->images[i].layers);
        free(make->images[i].reference);
        json_decref(make->images[i].config);
    }
    free(ATOLL_TAKE_PTR(make->images));
    make->image_count = 0;
}

/* Frees what only a build in progress needs. */
static void drop_work(struct atoll_make *make)
{
    for (size_t i = 0; make->stages && i < make->plan->stage_count; i++)
        atoll_stage_done(&make->stages[i]);
    free(ATOLL_TAKE_PTR(make->stages));
    drop_images(make);
    drop_sources(make);
    drop_secrets(make);
    make->plan = atoll_recipe_plan_free(make->plan);
    make->recipe = atoll_recipe_free(make->recipe);
    free(ATOLL_TAKE_PTR(make->args));
    make->arg_count = 0;
    atoll_recipe_memory_done(&make->memory);
    atoll_timer_cancel(&make->later);
}

void atoll_make_free(struct atoll_make *make)
{
    char *texts[] = {make->name,   make->tags,   make->source,    make->definition,
                     make->target, make->policy, make->start_cmd, make->ready_cmd};

    drop_work(make);
    atoll_list_remove(&make->node);
    atoll_timer_cancel(&make->telling);
    atoll_make_log_close(make);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(make);
}

void atoll_makes_done(struct atoll_engine *engine)
{
    if (!engine->makes)
        return;
    ATOLL_LIST_FOREACH (&engine->makes->makes, node)
        atoll_make_free(ATOLL_CONTAINER_OF(node, struct atoll_make, node));
    atoll_runs_done(&engine->makes->runs);
    atoll_trials_done(&engine->makes->trials);
    atoll_cache_mounts_done(&engine->makes->mounts);
    atoll_timer_cancel(&engine->makes->prune);
    free(ATOLL_TAKE_PTR(engine->makes));
}

/* --- ends --- */

static void prune(void *arg)
{
    struct atoll_engine *engine = arg;
    struct atoll_makes *makes = engine->makes;
    const int64_t now = atoll_clock_unix_ms();
    size_t ended = 0;

    ATOLL_LIST_FOREACH (&makes->makes, node)
        ended += has_ended(ATOLL_CONTAINER_OF(node, struct atoll_make, node));
    ATOLL_LIST_FOREACH (&makes->makes, node) {
        struct atoll_make *make = ATOLL_CONTAINER_OF(node, struct atoll_make, node);
        if (!has_ended(make) || !atoll_list_empty(&make->watches) ||
            (ended <= ATOLL_MAKE_ENDED_MAX && now - make->ended_unix_ms < ENDED_MS))
            continue;
        ended--;
        atoll_make_unsave(make);
        atoll_make_free(make);
    }
    atoll_timer_set(&makes->prune, engine->loop, PRUNE_MS, prune, engine);
}

/* From the loop, since callers use builds that it may free. */
static void prune_later(struct atoll_engine *engine)
{
    struct atoll_makes *makes = atoll_makes(engine);

    atoll_timer_set(&makes->prune, engine->loop, 0, prune, engine);
}

static void on_late(void *arg)
{
    drop_work(arg);
}

/* Its stages may be in the call that ends it, so that they are freed later. */
void atoll_make_end(struct atoll_make *make, enum atoll_make_state state)
{
    struct atoll_error err;

    make->state = state;
    make->ended_unix_ms = atoll_clock_unix_ms();
    for (size_t i = 0; make->stages && make->plan && i < make->plan->stage_count; i++)
        atoll_stage_stop(&make->stages[i]);
    for (size_t i = 0; i < make->image_count; i++)
        atoll_image_pull_leave(ATOLL_TAKE_PTR(make->images[i].pull));
    atoll_metric_add(ATOLL_METRIC_BUILDS, ATOLL_LABELS(atoll_make_state_name(state)), 1);
    atoll_make_log_end(make);
    if (atoll_make_save(make, &err) < 0) {
        atoll_log(ATOLL_LOG_WARN, "end of a build is not stored", "build", make->id, "error",
                  err.text, NULL);
        atoll_make_unsave(make); /* else the next daemon would run it again */
    }
    atoll_make_changed(make);
    atoll_timer_set(&make->later, make->engine->loop, 0, on_late, make);
    prune_later(make->engine);
}

static const struct atoll_make_stage *stage_at(const struct atoll_make *make, unsigned step)
{
    for (size_t i = 0; step > 0 && make->stages && i < make->plan->stage_count; i++)
        if (make->stages[i].number == step)
            return &make->stages[i];
    return NULL;
}

/* Keeps the text of the step that failed: its stage is freed with the end of the build. */
static void note_step(struct atoll_make *make, unsigned step)
{
    const struct atoll_make_stage *stage = stage_at(make, step);

    if (stage && stage->now.text)
        (void)snprintf(make->error_text, sizeof(make->error_text), "%s", stage->now.text);
}

/* A template from which a shell in the state before the failed step can be started. */
static void keep_for_debugging(struct atoll_make *make, unsigned step)
{
    const struct atoll_make_stage *stage = stage_at(make, step);
    struct atoll_template_view view;
    struct atoll_error err;
    char name[65], *config;

    if (!make->debug || !stage || !*stage->layers)
        return;
    (void)snprintf(name, sizeof(name), "debug-%.8s", make->id);
    config = atoll_json_dump(stage->config, JSON_COMPACT);
    if (!config)
        abort();
    if (atoll_version_add(make->engine,
                          &(struct atoll_version_new){.owner = make->owner,
                                                      .name = name,
                                                      .layers = stage->layers,
                                                      .config_json = config,
                                                      .source = "debug"},
                          &view, &err) == 0)
        (void)snprintf(make->debug_template, sizeof(make->debug_template), "%s", name);
    free(config);
}

void atoll_make_fail(struct atoll_make *make, const struct atoll_error *error, int line,
                     unsigned step)
{
    /* A daemon that stops ends the sandboxes; the next one continues the build. */
    if (has_ended(make) || make->engine->ending)
        return;
    if (step > 0)
        atoll_metric_add(ATOLL_METRIC_BUILD_STEPS, ATOLL_LABELS("failed"), 1);
    make->error = *error;
    make->error_line = line;
    make->error_step = step;
    note_step(make, step);
    atoll_make_log_note(make, "error", step, line, error->text);
    if (error->kind != ATOLL_ERR_CANCELED)
        keep_for_debugging(make, step);
    atoll_make_end(make,
                   error->kind == ATOLL_ERR_CANCELED ? ATOLL_MAKE_CANCELED : ATOLL_MAKE_FAILED);
}

/* --- stages --- */

static bool is_prepared(const struct atoll_make *make, size_t index)
{
    const struct atoll_recipe_plan_stage *plan = &make->plan->stages[index];
    const struct atoll_make_image *image;

    for (size_t i = 0; i < plan->need_count; i++)
        if (make->stages[plan->needs[i]].state != ATOLL_STAGE_READY)
            return false;
    if (plan->base.kind == ATOLL_RECIPE_FROM_IMAGE &&
        !atoll_make_image_of(make, plan->base.image)->ready)
        return false;
    for (size_t i = 0; i < plan->image_count; i++) {
        image = atoll_make_image_of(make, plan->images[i]);
        if (image && !image->ready)
            return false;
    }
    return true;
}

void atoll_make_advance(struct atoll_make *make)
{
    for (size_t i = 0; !has_ended(make) && i < make->plan->stage_count; i++) {
        struct atoll_make_stage *stage = &make->stages[i];
        if (make->plan->stages[i].needed && stage->state == ATOLL_STAGE_IDLE &&
            is_prepared(make, i))
            atoll_stage_start(stage); /* may call this function */
    }
    if (!has_ended(make) && !make->finishing &&
        make->stages[make->plan->target].state == ATOLL_STAGE_READY)
        atoll_make_finish(make);
}

/* --- start --- */

static bool has_layer(const struct atoll_recipe_step *step)
{
    return step->kind == ATOLL_RECIPE_RUN || step->kind == ATOLL_RECIPE_COPY ||
           step->kind == ATOLL_RECIPE_ADD;
}

int atoll_make_plan(struct atoll_make *make, struct atoll_error *err)
{
    int r;

    make->inputs = (struct atoll_recipe_inputs){.args = make->args,
                                                .arg_count = make->arg_count,
                                                .target = make->target,
                                                .platform = "linux/amd64"};
    r = atoll_recipe_plan(make->recipe, &make->inputs, &make->plan, err);
    if (r < 0)
        return r;
    make->stages = atoll_alloc(make->plan->stage_count * sizeof(*make->stages));
    for (size_t i = 0; i < make->plan->stage_count; i++) {
        const struct atoll_recipe_stage *stage = &make->recipe->stages[i];
        make->stages[i].make = make;
        make->stages[i].index = i;
        for (size_t k = 0; make->plan->stages[i].needed && k < stage->step_count; k++)
            make->step_count += has_layer(stage->steps[k]);
    }
    r = atoll_make_find_images(make, err);
    for (size_t i = 0; r == 0 && i < make->source_count; i++)
        r = atoll_make_load_source(make, &make->sources[i], err);
    return r;
}

static void on_warning(const struct atoll_dockerfile_warning *w, void *arg)
{
    char text[300];

    (void)snprintf(text, sizeof(text), "%s (%s)", w->text, w->rule);
    atoll_make_log_note(arg, "warning", 0, w->line, text);
}

static void run(void *arg)
{
    struct atoll_make *make = arg;

    make->state = ATOLL_MAKE_RUNNING;
    make->began_ms = atoll_clock_ms();
    atoll_dockerfile_lint(make->recipe, on_warning, make);
    atoll_make_ask_images(make);
}

void atoll_make_begin(struct atoll_make *make)
{
    atoll_timer_set(&make->later, make->engine->loop, 0, run, make);
}

static int check(struct atoll_engine *engine, const struct atoll_make_request *request,
                 struct atoll_error *err)
{
    const char *tenant = request->tenant ? request->tenant : ATOLL_OPERATOR_TENANT;
    struct atoll_make_view view;
    size_t pos = 0, count = 0;

    if (engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (request->name && !atoll_text_is_name(request->name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a template's name has up to 64 letters, digits, \"-\", \"_\" and \".\" "
                          "(got \"%.100s\")",
                          request->name);
    if (request->network == ATOLL_NETWORK_ISOLATED)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a build has the network \"none\" or \"bridge\"");
    if (atoll_network_admit(engine, tenant, request->network, err) < 0)
        return -EPERM;
    while (atoll_make_next(engine, &pos, &view)) {
        count += view.state < ATOLL_MAKE_READY && strcmp(view.tenant, tenant) == 0;
        if (request->id && strcmp(view.id, request->id) == 0)
            return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "build %s exists already",
                              request->id);
    }
    if (count >= TENANT_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "%d builds are in progress, the most a tenant may have", TENANT_MAX);
    return 0;
}

static char *dup_or_null(const char *text)
{
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        abort();
    return copy;
}

static void take_texts(struct atoll_make *make, const struct atoll_make_request *q)
{
    const char *tenant = q->tenant ? q->tenant : ATOLL_OPERATOR_TENANT;

    (void)snprintf(make->tenant, sizeof(make->tenant), "%s", tenant);
    (void)snprintf(make->owner, sizeof(make->owner), "%s", q->owner ? q->owner : "");
    if (q->id)
        (void)snprintf(make->id, sizeof(make->id), "%s", q->id);
    else
        atoll_version_id(make->id);
    make->name = dup_or_null(q->name);
    make->tags = dup_or_null(q->tags);
    make->source = dup_or_null(q->source);
    make->definition = dup_or_null(q->definition);
    make->target = dup_or_null(q->target);
    make->policy = dup_or_null(q->policy);
    make->start_cmd = dup_or_null(q->start_cmd);
    make->ready_cmd = dup_or_null(q->ready_cmd);
    make->network = q->network;
    make->limits = q->limits;
    make->no_cache = q->no_cache;
    make->debug = q->debug;
    make->cpu_millis = q->cpu_millis;
    make->memory_bytes = q->memory_bytes;
    make->created_unix_ms = atoll_clock_unix_ms();
}

static const char *keep_text(struct atoll_make *make, const char *text)
{
    return text ? atoll_recipe_text(&make->memory, text, strlen(text)) : NULL;
}

static int take_args(struct atoll_make *make, const struct atoll_make_request *q,
                     struct atoll_error *err)
{
    make->args = atoll_alloc((q->arg_count + 1) * sizeof(*make->args));
    for (; make->arg_count < q->arg_count; make->arg_count++) {
        const struct atoll_recipe_pair *from = &q->args[make->arg_count];
        struct atoll_recipe_pair *to = &make->args[make->arg_count];
        to->name = keep_text(make, from->name);
        to->value = keep_text(make, from->value);
        if (!to->name || (from->value && !to->value))
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                              "the arguments of a build take more than %zu MiB",
                              ATOLL_RECIPE_MEMORY_MAX >> 20);
    }
    return 0;
}

static void take_lists(struct atoll_make *make, const struct atoll_make_request *q)
{
    make->sources = atoll_alloc((q->context_count + 1) * sizeof(*make->sources));
    for (; make->source_count < q->context_count; make->source_count++) {
        make->sources[make->source_count].name = dup_or_null(q->contexts[make->source_count].name);
        make->sources[make->source_count].context =
            dup_or_null(q->contexts[make->source_count].context);
    }
    make->secrets = atoll_alloc((q->secret_count + 1) * sizeof(*make->secrets));
    for (; make->secret_count < q->secret_count; make->secret_count++) {
        const struct atoll_make_secret *from = &q->secrets[make->secret_count];
        struct atoll_make_secret *to = &make->secrets[make->secret_count];
        char *bytes = atoll_alloc(from->len + 1);
        memcpy(bytes, from->bytes, from->len);
        *to = (struct atoll_make_secret){dup_or_null(from->id), bytes, from->len};
    }
    if (q->login && q->login_image) {
        make->login_image = dup_or_null(q->login_image);
        make->login = atoll_alloc(sizeof(*make->login));
        *make->login = *q->login;
    }
}

/* A copy, by way of its stored form. */
static int take_recipe(struct atoll_make *make, const struct atoll_recipe *recipe,
                       struct atoll_error *err)
{
    json_t *json = atoll_recipe_to_json(recipe);
    int r = json ? atoll_recipe_from_json(json, &make->recipe, err)
                 : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");

    json_decref(json);
    return r;
}

static void view_of(const struct atoll_make *make, struct atoll_make_view *ret)
{
    *ret = (struct atoll_make_view){
        .id = make->id,
        .tenant = make->tenant,
        .owner = make->owner,
        .name = make->name ? make->name : "",
        .tags = make->tags ? make->tags : "",
        .state = make->state,
        .created_unix_ms = make->created_unix_ms,
        .ended_unix_ms = make->ended_unix_ms,
        .steps = make->step_count,
        .steps_done = make->steps_done,
        .steps_cached = make->steps_cached,
        .log_bytes = make->log_bytes,
        .error = &make->error,
        .error_line = make->error_line,
        .error_step = (int)make->error_step,
        .error_text = make->error_text,
        .version = make->version,
        .digest = make->digest,
        .debug_template = make->debug_template,
    };
}

int atoll_make_start(struct atoll_engine *engine, const struct atoll_make_request *request,
                     struct atoll_make_view *ret, struct atoll_error *err)
{
    struct atoll_make *make;
    int r = check(engine, request, err);

    if (r < 0)
        return r;
    make = atoll_make_new(engine);
    take_texts(make, request);
    take_lists(make, request);
    r = take_args(make, request, err);
    if (r == 0)
        r = take_recipe(make, request->recipe, err);
    if (r == 0)
        r = atoll_make_plan(make, err);
    if (r == 0)
        r = atoll_make_log_open(make, err);
    if (r == 0)
        r = atoll_make_save(make, err);
    if (r < 0) {
        atoll_make_free(make);
        return r;
    }
    atoll_fault_die("build.stored");
    atoll_list_push_back(&atoll_makes(engine)->makes, &make->node);
    atoll_make_begin(make);
    if (ret)
        view_of(make, ret);
    return 0;
}

/* --- what is listed --- */

bool atoll_make_next(struct atoll_engine *engine, size_t *pos, struct atoll_make_view *ret)
{
    size_t at = 0;

    ATOLL_LIST_FOREACH (&atoll_makes(engine)->makes, node) {
        if (at++ < *pos)
            continue;
        view_of(ATOLL_CONTAINER_OF(node, struct atoll_make, node), ret);
        (*pos)++;
        return true;
    }
    return false;
}

static struct atoll_make *find(struct atoll_engine *engine, const char *tenant, const char *id,
                               struct atoll_error *err)
{
    ATOLL_LIST_FOREACH (&atoll_makes(engine)->makes, node) {
        struct atoll_make *make = ATOLL_CONTAINER_OF(node, struct atoll_make, node);
        if (strcmp(make->id, id) == 0 && (!tenant || strcmp(make->tenant, tenant) == 0))
            return make;
    }
    (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no build %.64s", id);
    return NULL;
}

struct atoll_make *atoll_make_by_id(struct atoll_engine *engine, const char *id)
{
    return find(engine, NULL, id, NULL);
}

int atoll_make_find(struct atoll_engine *engine, const char *tenant, const char *id,
                    struct atoll_make_view *ret, struct atoll_error *err)
{
    const struct atoll_make *make = find(engine, tenant, id, err);

    if (!make)
        return -ENOENT;
    view_of(make, ret);
    return 0;
}

int atoll_make_cancel(struct atoll_engine *engine, const char *id, const char *who,
                      struct atoll_error *err)
{
    struct atoll_make *make = find(engine, NULL, id, err);
    struct atoll_error why;

    if (!make)
        return -ENOENT;
    (void)atoll_fail(&why, ATOLL_ERR_CANCELED, ECANCELED, "canceled by %s", who);
    atoll_make_fail(make, &why, 0, 0);
    return 0;
}

/* --- a new daemon --- */

void atoll_makes_recover(struct atoll_engine *engine)
{
    atoll_cache_mounts_load(engine);
    atoll_makes_load(engine);
    ATOLL_LIST_FOREACH (&atoll_makes(engine)->makes, node) {
        struct atoll_make *make = ATOLL_CONTAINER_OF(node, struct atoll_make, node);
        struct atoll_error err;
        if (has_ended(make))
            continue;
        if (atoll_make_log_open(make, &err) == 0)
            atoll_make_log_note(make, "note", 0, 0, "continued by a new daemon");
        if (atoll_make_plan(make, &err) < 0)
            atoll_make_fail(make, &err, 0, 0);
        else
            atoll_make_begin(make);
    }
    prune_later(engine);
}
