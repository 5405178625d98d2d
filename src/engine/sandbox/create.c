#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "base/trace.h"
#include "engine/engine_internal.h"

/*
 * Create: checks the request, resolves its template, chooses the provider, and takes a pooled
 * sandbox or makes a new one. Also lookup.
 */

struct creating {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1]; /* of a sandbox taken from the pool */
    atoll_sandbox_fn *done;
    void *arg;
    int64_t asked_us;
    struct atoll_provider_entry *entry; /* tried first; may be freed later */
    const char *asked;                  /* its name, a static string */
};

/* Counts the result of a create; called exactly once for each. */
static void measure(const char *provider, int64_t asked_us, const struct atoll_error *error)
{
    if (error)
        atoll_metric_add(ATOLL_METRIC_CREATE_ERRORS,
                         ATOLL_LABELS(provider, atoll_error_kind_name(error->kind)), 1);
    else
        atoll_metric_observe(ATOLL_METRIC_CREATE_SECONDS, ATOLL_LABELS(provider),
                             (double)(atoll_clock_us() - asked_us) / 1e6);
}

/* Whether the request names a provider that has templates of its own, so that the template's name
 * is meant for it. */
static bool names_provider_template(struct atoll_engine *engine, const struct atoll_options *create)
{
    const struct atoll_provider_entry *entry =
        create->provider ? atoll_provider_entry_by_name(engine, create->provider) : NULL;

    return entry && create->template_name && strcmp(create->template_name, "host") != 0 &&
           entry->provider->ops->caps(entry->provider)->own_templates;
}

static int make_spec(struct atoll_engine *engine, const struct atoll_options *create,
                     struct atoll_spec *spec, struct atoll_template **ret_template,
                     struct atoll_error *err)
{
    const char *name =
        create->template_name && *create->template_name ? create->template_name : "host";
    bool own_template = names_provider_template(engine, create);
    const char *image = own_template ? name : create->image ? create->image : "";
    struct atoll_template *t = atoll_template_find(
        engine, create->owner ? create->owner : "default", own_template ? "host" : name);

    if (atoll_artifacts_accept(engine, create->artifacts, err) < 0)
        return -EINVAL;
    if (engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (!t)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there is no template %.64s; see `atoll template ls`", name);
    if (atoll_engine_check_room(engine, err) < 0)
        return -EAGAIN;
    *spec = (struct atoll_spec){.template_kind = t->kind,
                                .layer_base = t->layer_base,
                                .persistent = create->lifetime.persistent,
                                .network = create->network,
                                .allow_sudo = true};
    if (t->kind == ATOLL_TEMPLATE_IMAGE)
        image = t->image;
    else if (atoll_text_copy(spec->layer, sizeof(spec->layer), t->digest) < 0)
        return atoll_fail_errno(err, ENAMETOOLONG, "layer");
    if (atoll_text_copy(spec->image, sizeof(spec->image), image) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the name of the image is longer than %zu bytes",
                          sizeof(spec->image) - 1);
    *ret_template = t;
    return 0;
}

/* Placement. */

/* A template that is an image can be used only by the provider that keeps it. */
static int follow_image(const struct atoll_template *t, struct atoll_options *create,
                        struct atoll_error *err)
{
    if (t->kind != ATOLL_TEMPLATE_IMAGE)
        return 0;
    if (create->provider && strcmp(create->provider, "auto") != 0 &&
        strcmp(create->provider, t->provider) != 0)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
            "template %s is an image that provider %s keeps; provider %.64s cannot use "
            "it",
            t->name, t->provider, create->provider);
    create->provider = t->provider;
    create->image = t->image;
    create->template_name = NULL;
    return 0;
}

static uint64_t within(uint64_t most, uint64_t asked, uint64_t value)
{
    return most > 0 && asked == 0 && (value > most || value == 0) ? most : value;
}

/* Lowers defaults to what a request could ask for. */
static void keep_within(const struct atoll_limits *most, const struct atoll_limits *asked,
                        struct atoll_limits *l)
{
    l->memory_bytes = within(most->memory_bytes, asked->memory_bytes, l->memory_bytes);
    l->cpu_millis = (uint32_t)within(most->cpu_millis, asked->cpu_millis, l->cpu_millis);
    l->disk_bytes = within(most->disk_bytes, asked->disk_bytes, l->disk_bytes);
    l->pids = (uint32_t)within(most->pids, asked->pids, l->pids);
    l->timeout_s = (uint32_t)within(most->timeout_s, asked->timeout_s, l->timeout_s);
    l->io_bytes = within(most->io_bytes, asked->io_bytes, l->io_bytes);
}

uint32_t atoll_create_missing_limits(struct atoll_provider *provider, const struct atoll_spec *spec)
{
    uint32_t missing = provider->ops->missing_limits(provider, spec);

    return spec->limits.io_bytes ? missing : missing & ~ATOLL_LIMIT_IO;
}

/* Sets the limits and the image that the sandbox would have at this provider. Returns the limits
 * that it cannot enforce and that are not waived. */
static uint32_t fit(const struct atoll_provider_entry *entry, const struct atoll_options *options,
                    struct atoll_spec *spec)
{
    const struct atoll_limits *want = &options->limits, *own = &entry->config.limits;
    uint32_t may_waive = options->waived | entry->engine->config.waived;
    uint32_t missing, asked = ATOLL_LIMIT_ALL;

    spec->limits = *want;
    atoll_limits_merge(&spec->limits, own);
    if (spec->limits.io_bytes == 0)
        spec->limits.io_bytes = entry->engine->config.io_bytes;
    atoll_limits_fill(&spec->limits);
    keep_within(&entry->config.most, want, &spec->limits);
    if (!atoll_options_name_root(options))
        memcpy(spec->image, entry->image, sizeof(spec->image));
    /* A remote service has limits of its own: only those that the request gives must be
     * enforced. */
    if (entry->provider->ops->caps(entry->provider)->remote)
        asked = (want->memory_bytes ? ATOLL_LIMIT_MEMORY : 0) |
                (want->cpu_millis ? ATOLL_LIMIT_CPU : 0) | (want->pids ? ATOLL_LIMIT_PIDS : 0) |
                (want->disk_bytes ? ATOLL_LIMIT_DISK : 0) | (want->io_bytes ? ATOLL_LIMIT_IO : 0);
    spec->waived = may_waive; /* so that missing_limits() knows what it may leave out */
    missing = atoll_create_missing_limits(entry->provider, spec);
    /* A limit that can be enforced is enforced, even if it was waived. */
    spec->waived = missing & (may_waive | ~asked);
    return missing & ~spec->waived;
}

static int choose(struct atoll_engine *engine, const struct atoll_options *create,
                  const struct atoll_spec *spec, struct atoll_candidates *candidates,
                  struct atoll_error *err)
{
    struct atoll_route_offer offers[ATOLL_PROVIDERS_MAX];
    /* "host" is the default template: other providers use their default instead. */
    bool named = create->template_name && strcmp(create->template_name, "host") != 0;
    const struct atoll_route_request route = {
        .provider = create->provider,
        .isolation = create->isolation,
        .image = create->image,
        .template_name = named ? create->template_name : NULL,
        .persistent = create->lifetime.persistent,
        .pauses = create->lifetime.at_deadline != ATOLL_DEADLINE_DESTROY,
        .gpus = create->gpus,
        .network = create->network,
        .language = create->language,
        .limits = create->limits,
        .mounts = create->mount_count > 0,
    };
    uint8_t chosen[ATOLL_PROVIDERS_MAX];
    size_t count = 0; /* retired entries come last */

    for (; count < engine->entry_count && !engine->entries[count]->retired; count++) {
        struct atoll_provider_entry *entry = engine->entries[count];
        struct atoll_spec fitted = *spec;

        offers[count] = (struct atoll_route_offer){
            .name = entry->provider->ops->name,
            .kind = entry->kind,
            .caps = entry->provider->ops->caps(entry->provider),
            .named_only = entry->config.named_only,
            .has_image = *entry->image != '\0',
            .mute = !atoll_provider_entry_runs(entry, create->language),
            .most = entry->config.most,
            .down = atoll_provider_entry_is_down(entry),
            .reason = entry->reason,
            .retry_ms = atoll_provider_entry_retry_ms(entry),
            .max_sandboxes = entry->config.max_sandboxes,
            .sandboxes = entry->config.max_sandboxes || engine->placement != ATOLL_PLACE_ORDER
                             ? atoll_provider_entry_count_sandboxes(entry)
                             : 0,
            .weight = entry->config.weight,
            .missing = fit(entry, create, &fitted),
        };
    }
    candidates->count = atoll_route(&route, offers, count, chosen, err);
    if (candidates->count < 0) {
        atoll_route_advise(&route, offers, count, atoll_engine_kinds(engine), err);
        atoll_advise_reload(engine, err);
    }
    atoll_route_place(engine->placement, offers, chosen, candidates->count);
    candidates->next = 1;
    for (int i = 0; i < candidates->count; i++)
        candidates->serials[i] = engine->entries[chosen[i]]->serial;
    return candidates->count < 0 ? candidates->count : 0;
}

static bool would_help_elsewhere(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DEADLINE_EXCEEDED ||
           error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED || error->kind == ATOLL_ERR_UNAUTHENTICATED;
}

bool atoll_create_elsewhere(struct atoll_sandbox *s, const struct atoll_error *error,
                            atoll_provider_created_fn *done)
{
    struct atoll_candidates *candidates = &s->candidates;

    if (!would_help_elsewhere(error))
        return false;
    while (candidates->next < candidates->count) {
        struct atoll_provider_entry *next =
            atoll_provider_entry_by_serial(s->engine, candidates->serials[candidates->next++]);

        if (!next || next == s->entry || atoll_provider_entry_is_down(next))
            continue;
        atoll_log(ATOLL_LOG_WARN, "create moves to another provider", "sandbox", s->spec.id, "from",
                  s->provider->ops->name, "to", next->provider->ops->name, "error", error->text,
                  "request_id", atoll_origin_get()->request_id, "trace_id",
                  atoll_origin_get()->trace.id, NULL);
        s->entry = next;
        s->provider = next->provider;
        s->spec.handle[0] = '\0';
        (void)fit(next, &s->options, &s->spec);
        atoll_tenant_recount(s);
        atoll_sandbox_make(s, done);
        return true;
    }
    return false;
}

static int apply_request(struct atoll_sandbox *s, const struct atoll_options *create,
                         struct atoll_error *err)
{
    const char *owner = create->owner ? create->owner : ATOLL_OPERATOR_TENANT;

    if (atoll_text_copy(s->spec.tenant, sizeof(s->spec.tenant), owner) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the tenant's name is too long");
    atoll_options_free(&s->options); /* a pooled sandbox has the environment of its pool class */
    if (atoll_options_dup(&s->options, create, err) < 0)
        return -ENOMEM;
    s->options.env_is_common = create->env_is_common || !create->env || !*create->env;
    return atoll_env_save(s, err) < 0 ? -EIO : atoll_artifacts_apply_request(s, err);
}

static void finish(struct creating *c, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_error err;

    if (s)
        atoll_sandbox_arm_deadline(s);
    if (s && (s->pooled || s->expires_unix_ms) &&
        (atoll_persist_sandbox(s, &err) < 0 || atoll_exec_enlist_all(s, &err) < 0)) {
        atoll_sandbox_destroy(s, "the daemon, because the store did not accept it", NULL, NULL);
        s = NULL;
        error = &err;
    }
    if (s) {
        if (s->pooled && s->engine->interpreters.handed_over)
            s->engine->interpreters.handed_over(s->engine->interpreters.arg, s->spec.id);
        atoll_lifetime_begin(s);
        atoll_events_emit(s->engine, "sandbox.created", s, "", "");
    }
    measure(s ? s->provider->ops->name : c->asked, c->asked_us, error);
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

    if (!error && (!s || s->state != ATOLL_SANDBOX_RUNNING)) {
        (void)atoll_fail(&gone, ATOLL_ERR_ABORTED, ECANCELED, "it ended while its limits were set");
        error = &gone;
    }
    if (error && s)
        atoll_sandbox_destroy(s, "the daemon, because its limits could not be set", NULL, NULL);
    finish(c, error ? NULL : s, error);
}

/* Hands over a pooled sandbox: changes the limits and applies the request. */
static void adopt(struct atoll_sandbox *s, const struct atoll_spec *spec, struct creating *c)
{
    struct atoll_limits was = s->spec.limits;

    memcpy(c->id, s->spec.id, sizeof(c->id));
    s->spec.limits = spec->limits;
    s->created_unix_ms = atoll_clock_unix_ms();
    s->created_ms = atoll_clock_ms();
    s->pooled = true;
    atoll_tenant_enter(s);
    atoll_sandbox_leave_note(s);
    if (was.memory_bytes == spec->limits.memory_bytes &&
        was.cpu_millis == spec->limits.cpu_millis && was.pids == spec->limits.pids) {
        finish(c, s, NULL);
        return;
    }
    s->provider->ops->set_limits(s->provider, &s->spec, &s->spec.limits, on_limits_set, c);
}

/* Makes a new sandbox; takes ownership of c. */
static void make(struct creating *c, const struct atoll_options *create,
                 const struct atoll_spec *spec, struct atoll_template *t,
                 const struct atoll_candidates *candidates)
{
    struct atoll_sandbox *s = atoll_sandbox_prepare(c->engine, spec, t);
    struct atoll_error err;
    int r;

    if (s) {
        s->entry = c->entry;
        s->provider = c->entry->provider;
        s->candidates = *candidates;
    }
    r = s ? apply_request(s, create, &err) : atoll_fail_errno(&err, ENOMEM, "sandbox");
    if (r < 0) {
        if (s) {
            atoll_env_drop(s);
            atoll_sandbox_discard(s);
        }
        finish(c, NULL, &err);
        return;
    }
    c->engine->public_count++;
    atoll_tenant_enter(s);
    atoll_sandbox_launch(s, on_created, c);
}

void atoll_engine_create_now(struct atoll_engine *engine, const struct atoll_options *create,
                             atoll_sandbox_fn *done, void *arg)
{
    struct creating *c = calloc(1, sizeof(*c));
    struct atoll_template *t = NULL;
    struct atoll_candidates candidates = {0};
    struct atoll_options routed = *create;
    struct atoll_provider_entry *entry = NULL;
    struct atoll_sandbox *s;
    struct atoll_spec spec;
    struct atoll_error err;
    const char *owner = create->owner ? create->owner : ATOLL_OPERATOR_TENANT;
    int64_t asked_us = atoll_clock_us();
    int r =
        c ? make_spec(engine, create, &spec, &t, &err) : atoll_fail_errno(&err, ENOMEM, "sandbox");

    if (r == 0)
        r = atoll_room_admit(engine, &err);
    if (r == 0)
        r = follow_image(t, &routed, &err);
    if (r == 0)
        r = choose(engine, &routed, &spec, &candidates, &err);
    if (r == 0) {
        entry = atoll_provider_entry_by_serial(engine, candidates.serials[0]);
        (void)fit(entry, create, &spec);
        r = atoll_tenant_admit(engine, owner, entry, &spec, &err);
    }
    if (r < 0) {
        measure("", asked_us, &err);
        free(c);
        done(arg, NULL, &err);
        return;
    }
    *c = (struct creating){
        .engine = engine, .done = done, .arg = arg, .asked_us = asked_us, .entry = entry};
    c->asked = c->entry->provider->ops->name;
    s = c->entry == engine->builder && create->mount_count == 0 && !create->login
            ? atoll_pool_take(engine, &spec, create)
            : NULL;
    if (!s) {
        make(c, create, &spec, t, &candidates);
        return;
    }
    s->candidates = candidates;
    r = apply_request(s, create, &err);
    if (r < 0) {
        atoll_sandbox_destroy(s, "the daemon, because the create failed", NULL, NULL);
        finish(c, NULL, &err);
        return;
    }
    adopt(s, &spec, c);
}

struct atoll_sandbox *atoll_engine_find(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);
    return s && !s->hidden ? s : NULL;
}

struct atoll_sandbox *atoll_engine_peek(struct atoll_engine *engine, const char *id)
{
    return atoll_map_get(&engine->sandboxes, id);
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
    if (s->state == ATOLL_SANDBOX_UNREACHABLE)
        return atoll_provider_entry_refuse_unreachable(s, err);
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
    const struct atoll_provider_caps *caps = s->provider->ops->caps(s->provider);
    bool own_template = caps->own_templates && *s->spec.image;

    *ret = (struct atoll_sandbox_view){
        .id = s->spec.id,
        .template_name = own_template ? s->spec.image : s->template_ref->name,
        .handle = s->spec.handle,
        .provider = s->provider->ops->name,
        .isolation = caps->isolation,
        .image = own_template ? "" : s->spec.image,
        .network = s->spec.network,
        .recreate = s->options.recreate,
        .mounts = s->options.mounts,
        .mount_count = s->options.mount_count,
        .own_image = s->template_ref->kind == ATOLL_TEMPLATE_IMAGE,
        .artifacts = s->options.artifacts,
        .metadata_json = s->options.metadata_json,
        .facade_json = s->options.facade_json,
        .env = s->options.env,
        .lifetime = s->options.lifetime,
        .cpu_spent_s = atoll_lifetime_cpu_us(s) / 1000000,
        .output_spent_bytes = s->life.output_bytes,
        .owner = s->spec.tenant,
        .state = s->state,
        .cause = s->cause,
        .silent_ms = atoll_sandbox_expects(s) ? atoll_rpc_silent_ms(s->agent) : 0,
        .created_unix_ms = s->created_unix_ms,
        .paused_unix_ms = s->paused_unix_ms,
        .expires_unix_ms = s->expires_unix_ms,
        .limits = s->spec.limits,
        .waived = s->spec.waived,
        .boot_ms = s->boot_ms,
        .pooled = s->pooled,
    };
}
