#include "engine/state/capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "engine/json_memory.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint.h"
#include "sandbox/stack.h"

/*
 * The provider copies what the sandbox has changed into a new layer while its processes stand still.
 * The layer is held from before it exists until the version has it: if the daemon dies in between, the
 * next one finds a layer without users and removes it.
 */

struct capture {
    struct atoll_list node; /* in engine->captures */
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    char owner[65], name[65], tags[ATOLL_TEMPLATE_TAG_MAX + 1], provider[65];
    const char *source;
    struct atoll_version *parent; /* pinned */
    struct atoll_limits limits;
    char image[64]; /* IMAGE: its name at the provider */
    char layer[34]; /* else: the new layer */
    char *layers;   /* the stack with the new layer, held; owned, or NULL */
    char *config;   /* of the new version; owned, or NULL */
    int64_t began_us;
    atoll_capture_fn *done;
    atoll_capture_layer_fn *layer_done; /* instead of done: no version is made */
    void *arg;
};

static bool makes_layers(const struct atoll_sandbox *s)
{
    return s->provider->ops->caps(s->provider)->snapshot_layers;
}

/* The builder removes layers that are not used any more. */
static int check_builder(const struct atoll_sandbox *s, struct atoll_error *err)
{
    struct atoll_provider *builder = s->engine->builder->provider;

    if (!makes_layers(s) || builder->ops->caps(builder)->layers)
        return 0;
    return atoll_fail(
        err, ATOLL_ERR_FAILED_PRECONDITION, ENOTSUP,
        "snapshots and forks at provider %s are layers, which the provider native keeps; "
        "enable it in providers.yaml",
        s->provider->ops->name);
}

size_t atoll_captures_count(struct atoll_engine *engine, const char *tenant, const char *source)
{
    size_t n = 0;

    ATOLL_LIST_FOREACH (&engine->captures, node) {
        const struct capture *c = ATOLL_CONTAINER_OF(node, struct capture, node);
        n += strcmp(c->owner, tenant) == 0 &&
             (source ? strcmp(c->source, source) == 0 : !c->layer_done);
    }
    return n;
}

int atoll_capture_admit(const struct atoll_sandbox *s, struct atoll_error *err)
{
    size_t n = atoll_captures_count(s->engine, s->spec.tenant, NULL) +
               atoll_capture_waiting(s->engine, s->spec.tenant);

    if (n < ATOLL_CAPTURES_MAX)
        return 0;
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("captures"), 1);
    return atoll_fail(
        err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
        "%d operations on files of sandboxes of tenant %s are in progress or wait, the "
        "most there may be; try again",
        ATOLL_CAPTURES_MAX, s->spec.tenant);
}

int atoll_capture_check_state(struct atoll_sandbox *s, struct atoll_error *err)
{
    bool rests = s->phase == ATOLL_PHASE_PAUSED || s->phase == ATOLL_PHASE_STOPPED;
    struct atoll_sandbox *running;
    int r = check_builder(s, err);

    if (r == 0 && !(rests && makes_layers(s)))
        r = atoll_engine_running(s->engine, s->spec.id, &running, err);
    return r;
}

int atoll_capture_check(struct atoll_sandbox *s, struct atoll_error *err)
{
    int r = atoll_capture_check_state(s, err);

    return r < 0 ? r : atoll_capture_admit(s, err);
}

static void capture_free(struct capture *c)
{
    c->parent->pins--;
    atoll_templates_collect_soon(c->engine); /* it may have been retired meanwhile */
    if (c->layers)
        atoll_layers_release(c->engine, c->layers);
    free(c->layers);
    free(c->config);
    free(c);
}

static void end(struct capture *c, struct atoll_version *v,
                const struct atoll_snapshot_facts *facts, const struct atoll_error *error)
{
    static const struct atoll_snapshot_facts unknown;
    struct atoll_sandbox *s = atoll_map_get(&c->engine->sandboxes, c->sandbox_id);
    const char *provider = atoll_metric_keep(c->provider);
    struct atoll_engine *engine = c->engine;
    char id[ATOLL_ID_LEN + 1];

    memcpy(id, c->sandbox_id, sizeof(id));
    atoll_metric_add(ATOLL_METRIC_SNAPSHOTS, ATOLL_LABELS(c->source, error ? "failed" : "made"), 1);
    if (!error)
        atoll_metric_observe(ATOLL_METRIC_SNAPSHOT_SECONDS, ATOLL_LABELS(provider),
                             (double)(atoll_clock_us() - c->began_us) / 1e6);
    if (facts) {
        atoll_metric_observe(ATOLL_METRIC_FLUSH_SECONDS, ATOLL_LABELS(provider),
                             (double)facts->flush_us / 1e6);
        atoll_metric_observe(ATOLL_METRIC_FROZEN_SECONDS, ATOLL_LABELS(provider),
                             (double)facts->frozen_us / 1e6);
    }
    atoll_list_remove(&c->node);
    if (s && !error && s->phase == ATOLL_PHASE_STOPPED)
        s->spec.unwritten = false;
    if (s) {
        s->snapping = false;
        atoll_capture_proceed(s);
    }
    facts = facts ? facts : &unknown;
    if (c->layer_done)
        c->layer_done(c->arg, error ? NULL : c->layers, facts, error);
    else
        c->done(c->arg, error ? NULL : v, facts, error);
    capture_free(c);
    s = atoll_map_get(&engine->sandboxes, id);
    if (s)
        atoll_capture_next(s);
}

static struct atoll_version_new describe(const struct capture *c)
{
    return (struct atoll_version_new){
        .owner = c->owner,
        .name = c->name,
        .tags = c->tags,
        .layers = c->layers,
        .config_json = c->config,
        .source = c->source,
        .start_cmd = c->parent->start_cmd,
        .ready_cmd = c->parent->ready_cmd,
        .cpu_millis = c->limits.cpu_millis,
        .memory_bytes = c->limits.memory_bytes,
        .disk_bytes = c->limits.disk_bytes,
        .parent = c->parent->id,
        .sandbox_id = c->sandbox_id,
    };
}

static int keep_layer(struct capture *c, const struct atoll_provider_layer *made,
                      struct atoll_version **ret, struct atoll_error *err)
{
    const struct atoll_layer_facts facts = {
        .name = c->layer, .size_bytes = made->bytes, .files = made->files};
    const struct atoll_version_new version = describe(c);
    struct atoll_template_view view;
    int r = atoll_fault("state.keep");

    r = r ? atoll_fail_errno(err, r, "keep the snapshot") : 0;
    if (r == 0 && strcmp(c->source, ATOLL_SOURCE_SNAPSHOT) == 0)
        r = atoll_snapshot_admit(c->engine, c->owner, made->bytes, err);
    if (r == 0)
        r = atoll_layer_put(c->engine, &facts, err);
    if (r < 0 || c->layer_done)
        return r;
    r = atoll_version_add(c->engine, &version, &view, err);
    if (r == 0)
        *ret = atoll_map_get(&c->engine->template_tables.versions, view.id);
    return r;
}

static void on_layer(void *arg, const struct atoll_provider_layer *made,
                     const struct atoll_error *error)
{
    struct capture *c = arg;
    struct atoll_snapshot_facts facts;
    struct atoll_version *v = NULL;
    struct atoll_error err;

    if (!error && keep_layer(c, made, &v, &err) < 0)
        error = &err;
    if (made)
        facts = (struct atoll_snapshot_facts){made->bytes, made->files, made->frozen_us,
                                              made->flush_us};
    end(c, v, made ? &facts : NULL, error);
}

/* Images of the provider. */

static int keep_image(struct capture *c, const struct atoll_provider_image *made,
                      struct atoll_version **ret, struct atoll_error *err)
{
    const struct atoll_version_new version = describe(c);
    struct atoll_provider_entry *entry = atoll_provider_entry_by_name(c->engine, c->provider);

    if (!entry)
        return atoll_fail(err, ATOLL_ERR_ABORTED, ENODEV, "provider %s was removed meanwhile",
                          c->provider);
    if (atoll_template_check(c->engine, c->owner, c->name, ATOLL_TEMPLATE_IMAGE, err) < 0) {
        entry->provider->ops->drop_image(entry->provider, c->image, atoll_done_ignore, NULL);
        return -EEXIST;
    }
    return atoll_template_keep_image(c->engine, &version, entry, c->image, made, ret, err);
}

static void on_image(void *arg, const struct atoll_provider_image *made,
                     const struct atoll_error *error)
{
    struct capture *c = arg;
    struct atoll_version *v = NULL;
    struct atoll_error err;

    if (!error && keep_image(c, made, &v, &err) < 0)
        error = &err;
    end(c, v, NULL, error);
}

const char *atoll_capture_stack(const struct atoll_sandbox *s)
{
    return s->spec.layers && *s->spec.layers ? s->spec.layers
           : *s->spec.layer                  ? s->spec.layer
                                             : ATOLL_STACK_HOST;
}

/* The stack of the sandbox with the new layer on it. */
static int hold_layers(struct capture *c, const struct atoll_sandbox *s, struct atoll_error *err)
{
    const char *below = atoll_capture_stack(s);
    char stack[ATOLL_STACK_CAP + ATOLL_LAYER_NAME_MAX + 2];
    int r;

    atoll_layer_new_name(c->layer);
    (void)snprintf(stack, sizeof(stack), "%s %s", below, c->layer);
    if (atoll_stack_count(stack) > ATOLL_LAYERS_MAX)
        return atoll_fail(
            err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
            "sandbox %s has %d layers below it, the most there may be: copy its files "
            "into a new sandbox (`atoll cp`) and go on there",
            s->spec.id, ATOLL_LAYERS_MAX);
    r = atoll_layers_hold(c->engine, stack, err);
    if (r < 0)
        return r;
    c->layers = strdup(stack);
    if (!c->layers)
        abort();
    return 0;
}

/* That of the parent, with the sandbox's own default user: its files belong to that one. Owned. */
static char *config_of(const struct atoll_sandbox *s)
{
    json_t *config = *s->version->config ? atoll_json_load_own(s->version->config) : NULL;
    char *text = NULL;

    if (s->options.user) {
        config = config ? config : json_object();
        (void)json_object_set_new(config, "User", json_string(s->options.user));
    }
    if (config && !(text = atoll_json_dump(config, JSON_COMPACT)))
        abort(); /* a short text: the daemon is crash-only */
    json_decref(config);
    return text;
}

static struct capture *capture_new(struct atoll_sandbox *s,
                                   const struct atoll_capture_request *request)
{
    struct capture *c = atoll_alloc(sizeof(*c));

    *c = (struct capture){.engine = s->engine,
                          .source = request->source,
                          .parent = s->version,
                          .config = config_of(s),
                          .limits = s->spec.limits,
                          .began_us = atoll_clock_us()};
    c->parent->pins++;
    atoll_list_push_back(&s->engine->captures, &c->node);
    memcpy(c->sandbox_id, s->spec.id, sizeof(c->sandbox_id));
    memcpy(c->owner, s->spec.tenant, sizeof(c->owner));
    (void)snprintf(c->name, sizeof(c->name), "%s", request->name);
    (void)snprintf(c->tags, sizeof(c->tags), "%s", request->tags ? request->tags : "latest");
    (void)snprintf(c->provider, sizeof(c->provider), "%s", s->provider->ops->name);
    return c;
}

static void make_layer(struct capture *c, struct atoll_sandbox *s)
{
    struct atoll_error err;

    if (hold_layers(c, s, &err) < 0)
        end(c, NULL, NULL, &err);
    else
        s->provider->ops->snapshot_layer(s->provider, &s->spec, c->layer, on_layer, c);
}

void atoll_capture_layer(struct atoll_sandbox *s, const char *source, atoll_capture_layer_fn *done,
                         void *arg)
{
    const struct atoll_capture_request request = {.name = "", .tags = "", .source = source};
    struct capture *c = capture_new(s, &request);

    c->layer_done = done;
    c->arg = arg;
    s->snapping = true;
    make_layer(c, s);
}

void atoll_capture(struct atoll_sandbox *s, const struct atoll_capture_request *request,
                   atoll_capture_fn *done, void *arg)
{
    bool layers = makes_layers(s);
    struct capture *c = capture_new(s, request);

    c->done = done;
    c->arg = arg;
    s->snapping = true;
    if (layers) {
        make_layer(c, s);
    } else {
        atoll_image_name(c->image);
        s->provider->ops->snapshot(s->provider, &s->spec, c->image, on_image, c);
    }
}
