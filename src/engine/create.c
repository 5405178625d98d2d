#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * What a client asks for when it wants a sandbox, and finding what it has.
 */

struct creating {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1]; /* of a sandbox taken from the pool */
    atoll_sandbox_fn *done;
    void *arg;
    int64_t asked_us;
};

/* Of every creation exactly once. */
static void measure(const struct atoll_engine *engine, int64_t asked_us,
                    const struct atoll_error *error)
{
    const char *provider = engine->config.provider->ops->name;

    if (error)
        atoll_metric_add(ATOLL_METRIC_CREATE_ERRORS,
                         ATOLL_LABELS(provider, atoll_error_kind_name(error->kind)), 1);
    else
        atoll_metric_observe(ATOLL_METRIC_CREATE_SECONDS, ATOLL_LABELS(provider),
                             (double)(atoll_clock_us() - asked_us) / 1e6);
}

static int make_spec(struct atoll_engine *engine, const struct atoll_create *create,
                     struct atoll_spec *spec, struct atoll_template **ret_template,
                     struct atoll_error *err)
{
    const char *name =
        create->template_name && *create->template_name ? create->template_name : "host";
    struct atoll_template *t = atoll_map_get(&engine->templates, name);
    uint32_t missing;

    if (atoll_artifacts_accept(engine, create->artifacts, err) < 0)
        return -EINVAL;
    if (engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (!t)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there is no template %.64s; see `atoll template ls`", name);
    if (engine->public_count >= engine->config.max_sandboxes)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "%zu sandboxes exist, the most this daemon allows; destroy some",
                          engine->public_count);
    *spec = (struct atoll_spec){.limits = create->limits,
                                .template_kind = t->kind,
                                .layer_base = t->layer_base,
                                .persistent = create->lifetime.persistent,
                                .allow_sudo = true};
    if (atoll_text_copy(spec->layer, sizeof(spec->layer), t->digest) < 0)
        return atoll_fail_errno(err, ENAMETOOLONG, "layer");
    atoll_limits_fill(&spec->limits);
    missing = engine->config.provider->ops->missing_limits(engine->config.provider, spec);
    /* Only what is really missing counts as waived: a host that can enforce does. */
    spec->waived = missing & (create->waived | engine->config.waived);
    *ret_template = t;
    return 0;
}

static int dress(struct atoll_sandbox *s, const struct atoll_create *create,
                 struct atoll_error *err)
{
    if (atoll_text_copy(s->owner, sizeof(s->owner), create->owner ? create->owner : "default") < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the tenant's name is too long");
    memcpy(s->spec.tenant, s->owner, sizeof(s->owner));
    if (create->env) {
        s->env = atoll_strings_dup(create->env);
        if (!s->env)
            return atoll_fail_errno(err, ENOMEM, "environment");
    }
    if (create->metadata_json && !(s->metadata_json = strdup(create->metadata_json)))
        return atoll_fail_errno(err, ENOMEM, "metadata");
    if (create->facade_json && !(s->facade_json = strdup(create->facade_json)))
        return atoll_fail_errno(err, ENOMEM, "facts");
    s->lifetime = create->lifetime;
    if (atoll_env_save(s, err) < 0)
        return -EIO;
    return atoll_artifacts_dress(s, create, err);
}

static void finish(struct creating *c, struct atoll_sandbox *s, const struct atoll_error *error)
{
    if (s) {
        atoll_sandbox_arm_deadline(s);
        atoll_lifetime_begin(s);
        if (s->pooled || s->expires_unix_ms)
            atoll_persist_sandbox(s);
        atoll_events_emit(s->engine, "sandbox.created", s, "", "");
    }
    measure(c->engine, c->asked_us, error);
    c->done(c->arg, s, error);
    free(c);
}

static void on_created(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    finish(arg, s, error);
}

static void on_limits_set(void *arg, const struct atoll_error *error)
{
    struct creating *c = arg;
    struct atoll_sandbox *s = atoll_map_get(&c->engine->sandboxes, c->id);
    struct atoll_error gone;

    if (error && s)
        atoll_sandbox_destroy(s, "its limits could not be set", NULL, NULL);
    if (!error && !s) {
        (void)atoll_fail(&gone, ATOLL_ERR_ABORTED, ECANCELED, "it ended while its limits were set");
        error = &gone;
    }
    finish(c, error ? NULL : s, error);
}

/* A sandbox of the pool becomes this one: only what can still change may differ. */
static void adopt(struct atoll_sandbox *s, const struct atoll_spec *spec, struct creating *c)
{
    struct atoll_limits was = s->spec.limits;

    memcpy(c->id, s->spec.id, sizeof(c->id));
    s->spec.limits = spec->limits;
    s->created_unix_ms = atoll_clock_unix_ms();
    s->created_ms = atoll_clock_ms();
    s->pooled = true;
    atoll_sandbox_leave_note(s);
    if (was.memory_bytes == spec->limits.memory_bytes &&
        was.cpu_millis == spec->limits.cpu_millis && was.pids == spec->limits.pids) {
        finish(c, s, NULL);
        return;
    }
    s->provider->ops->set_limits(s->provider, &s->spec, &s->spec.limits, on_limits_set, c);
}

void atoll_engine_create_now(struct atoll_engine *engine, const struct atoll_create *create,
                             atoll_sandbox_fn *done, void *arg)
{
    struct creating *c = calloc(1, sizeof(*c));
    struct atoll_template *t = NULL;
    struct atoll_sandbox *s;
    struct atoll_spec spec;
    struct atoll_error err;
    int64_t asked_us = atoll_clock_us();
    int r =
        c ? make_spec(engine, create, &spec, &t, &err) : atoll_fail_errno(&err, ENOMEM, "sandbox");

    if (r < 0) {
        measure(engine, asked_us, &err);
        free(c);
        done(arg, NULL, &err);
        return;
    }
    *c = (struct creating){.engine = engine, .done = done, .arg = arg, .asked_us = asked_us};
    s = atoll_pool_take(engine, &spec);
    if (s) {
        r = dress(s, create, &err);
        if (r < 0)
            finish(c, NULL, &err);
        else
            adopt(s, &spec, c);
        return;
    }
    s = atoll_sandbox_prepare(engine, &spec, t);
    r = s ? dress(s, create, &err) : atoll_fail_errno(&err, ENOMEM, "sandbox");
    if (r < 0) {
        if (s)
            atoll_sandbox_discard(s);
        finish(c, NULL, &err);
        return;
    }
    engine->public_count++;
    atoll_sandbox_launch(s, on_created, c);
}

struct atoll_sandbox *atoll_engine_find(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);
    return s && !s->hidden ? s : NULL;
}

struct atoll_sandbox *atoll_engine_next(struct atoll_engine *engine, size_t *pos)
{
    struct atoll_sandbox *s;

    while ((s = atoll_map_next(&engine->sandboxes, pos)) != NULL && s->hidden)
        ;
    return s;
}

int atoll_engine_look(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                      struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    if (s->state == ATOLL_SANDBOX_FAILED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "sandbox %s has failed: %s",
                          id, s->cause);
    if (s->state == ATOLL_SANDBOX_PAUSED || s->state == ATOLL_SANDBOX_STOPPED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                          "sandbox %s is %s; resume it first", id,
                          atoll_sandbox_state_name(s->state));
    if (s->state != ATOLL_SANDBOX_RUNNING || s->change != ATOLL_CHANGE_NONE)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN, "sandbox %s is %s", id,
                          s->change == ATOLL_CHANGE_PAUSING ? "being paused"
                                                            : atoll_sandbox_state_name(s->state));
    *ret = s;
    return 0;
}

int atoll_engine_running(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                         struct atoll_error *err)
{
    int r = atoll_engine_look(engine, id, ret, err);

    if (r == 0)
        (*ret)->life.used_ms = atoll_clock_ms();
    return r;
}

void atoll_engine_destroy(struct atoll_engine *engine, const char *id, const char *who,
                          atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    struct atoll_error err;

    if (s) {
        atoll_sandbox_destroy(s, who, done, arg);
        return;
    }
    (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    done(arg, &err);
}

void atoll_sandbox_get(const struct atoll_sandbox *s, struct atoll_sandbox_view *ret)
{
    *ret = (struct atoll_sandbox_view){
        .id = s->spec.id,
        .template_name = s->template_ref->name,
        .artifacts = (const char *const *)s->artifacts,
        .metadata_json = s->metadata_json,
        .facade_json = s->facade_json,
        .env = (const char *const *)s->env,
        .lifetime = s->lifetime,
        .cpu_spent_s = atoll_lifetime_cpu_us(s) / 1000000,
        .output_spent_bytes = s->life.output_bytes,
        .owner = s->owner,
        .state = s->state,
        .cause = s->cause,
        .created_unix_ms = s->created_unix_ms,
        .paused_unix_ms = s->paused_unix_ms,
        .expires_unix_ms = s->expires_unix_ms,
        .limits = s->spec.limits,
        .waived = s->spec.waived,
        .boot_ms = s->boot_ms,
        .pooled = s->pooled,
    };
}
