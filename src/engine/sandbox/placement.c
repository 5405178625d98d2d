#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/template/pull.h"

/*
 * Placement, the second step of a create: which template or image a sandbox is made from, which
 * providers can make it, with which limits each of them would, and where it is tried next when one
 * fails.
 */

/* Whether the request names a provider that has templates of its own, so that the template's name
 * is meant for it. */
static bool names_provider_template(struct atoll_engine *engine,
                                    const struct atoll_options *options)
{
    const struct atoll_provider_entry *entry =
        options->provider ? atoll_provider_entry_by_name(engine, options->provider) : NULL;

    return entry && options->template_name && strcmp(options->template_name, "host") != 0 &&
           entry->provider->ops->caps(entry->provider)->own_templates;
}

/* A request with fields for a service must name a provider of that kind. */
static int check_service(struct atoll_engine *engine, const struct atoll_options *options,
                         struct atoll_error *err)
{
    const struct atoll_provider_entry *entry =
        options->provider ? atoll_provider_entry_by_name(engine, options->provider) : NULL;

    if (!options->service || (entry && strcmp(entry->kind, options->service) == 0))
        return 0;
    if (options->provider && !entry && strcmp(options->provider, "auto") != 0) {
        (void)atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no provider %.64s",
                         options->provider);
        atoll_advise_name(atoll_engine_kinds(engine), options->provider, err);
        atoll_advise_reload(engine, err);
        return -EINVAL;
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "%s needs \"provider\": the name of a provider of kind %s", options->service,
                      options->service);
}

static int make_spec(struct atoll_engine *engine, const struct atoll_options *options,
                     struct atoll_place *place, struct atoll_error *err)
{
    const char *name =
        options->template_name && *options->template_name ? options->template_name : "host";
    bool own_template = names_provider_template(engine, options);
    const char *image = own_template ? name : options->image ? options->image : "";
    struct atoll_version *v =
        atoll_version_resolve(engine, options->owner ? options->owner : ATOLL_OPERATOR_TENANT,
                              own_template ? "host" : name, err);
    struct atoll_spec *spec = &place->spec;

    if (!v)
        return -ENOENT;
    *spec = (struct atoll_spec){.template_kind = v->kind,
                                .layer_base = v->layer_base,
                                .persistent = options->lifetime.persistent,
                                .network = options->network,
                                .allow_sudo = true};
    if (v->kind == ATOLL_TEMPLATE_IMAGE)
        image = v->image;
    else
        spec->layers = v->layers; /* "" for the host template */
    if (atoll_text_copy(spec->image, sizeof(spec->image), image) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the name of the image is longer than %zu bytes",
                          sizeof(spec->image) - 1);
    place->version = v;
    return 0;
}

/* A template that is an image can be used only by the provider that keeps it. */
static int follow_image(const struct atoll_version *v, struct atoll_options *options,
                        struct atoll_error *err)
{
    if (v->kind != ATOLL_TEMPLATE_IMAGE)
        return 0;
    if (options->provider && strcmp(options->provider, "auto") != 0 &&
        strcmp(options->provider, v->provider) != 0)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
            "template %s is an image that provider %s keeps; provider %.64s cannot use "
            "it",
            v->tmpl->name, v->provider, options->provider);
    options->provider = v->provider;
    options->image = v->image;
    options->template_name = NULL;
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
#define REQUEST_LIMIT(...)
#define LIMIT(member, ...) \
    l->member = (__typeof__(l->member))within(most->member, asked->member, l->member);
#include "sandbox/limits.def"
}

uint32_t atoll_place_missing_limits(struct atoll_provider *provider, const struct atoll_spec *spec)
{
    uint32_t missing = provider->ops->missing_limits(provider, spec);

    return spec->limits.io_bytes ? missing : missing & ~ATOLL_LIMIT_IO;
}

/* The default network of the provider, within what the operator permits to the tenant. */
static enum atoll_network default_network(const struct atoll_provider_entry *entry,
                                          const struct atoll_options *options)
{
    const char *tenant = options->owner ? options->owner : ATOLL_OPERATOR_TENANT;

    return ATOLL_MIN(entry->config.network, atoll_engine_network_most(entry->engine, tenant));
}

uint64_t atoll_place_history(struct atoll_provider *p, const struct atoll_options *options,
                             const struct atoll_limits *limits)
{
    return p->ops->caps(p)->disk_pool ? atoll_options_history(options, limits) : 0;
}

/* Sets the limits, the network and the image that the sandbox would have at this provider. Returns
 * the limits that it cannot enforce and that are not waived. */
static uint32_t fit(const struct atoll_provider_entry *entry, const struct atoll_options *options,
                    struct atoll_spec *spec)
{
    const struct atoll_limits *want = &options->limits;
    uint32_t may_waive = options->waived | entry->engine->config.waived;
    uint32_t missing, asked = ATOLL_LIMIT_ALL;

    spec->network = options->network_is_given || options->network != ATOLL_NETWORK_NONE
                        ? options->network
                        : default_network(entry, options);
    spec->limits = *want;
    atoll_limits_merge(&spec->limits, &entry->config.limits);
    if (spec->limits.io_bytes == 0)
        spec->limits.io_bytes = entry->engine->config.io_bytes;
    atoll_limits_fill(&spec->limits);
    keep_within(&entry->config.most, want, &spec->limits);
    spec->history_bytes = atoll_place_history(entry->provider, options, &spec->limits);
    if (!atoll_options_name_root(options))
        memcpy(spec->image, entry->image, sizeof(spec->image));
    /* A remote service has limits of its own: only those that the request gives must be
     * enforced. */
    if (entry->provider->ops->caps(entry->provider)->remote)
        asked = (want->memory_bytes ? ATOLL_LIMIT_MEMORY : 0) |
                (want->cpu_millis ? ATOLL_LIMIT_CPU : 0) | (want->pids ? ATOLL_LIMIT_PIDS : 0) |
                (want->disk_bytes ? ATOLL_LIMIT_DISK : 0) | (want->io_bytes ? ATOLL_LIMIT_IO : 0);
    spec->waived = may_waive; /* so that missing_limits() knows what it may leave out */
    missing = atoll_place_missing_limits(entry->provider, spec);
    /* A limit that can be enforced is enforced, even if it was waived. */
    spec->waived = missing & (may_waive | ~asked);
    return missing & ~spec->waived;
}

/* Lists the providers that can make it. */
static int choose(struct atoll_engine *engine, const struct atoll_options *options,
                  struct atoll_place *place, struct atoll_error *err)
{
    struct atoll_route_offer offers[ATOLL_PROVIDERS_MAX];
    /* "host" is the default template: other providers use their default instead. */
    bool named = options->template_name && strcmp(options->template_name, "host") != 0;
    const struct atoll_route_request route = {
        .provider = options->provider,
        .isolation = options->isolation,
        .image = options->image,
        .template_name = named ? options->template_name : NULL,
        .checkpoints = options->checkpoints,
        .persistent = options->lifetime.persistent,
        .pauses = options->lifetime.at_deadline != ATOLL_DEADLINE_DESTROY,
        .gpus = options->gpus,
        .network = options->network,
        .network_is_given = options->network_is_given,
        .policy = options->network_json,
        .denies = engine->operator_networks.denies,
        .language = options->language,
        .limits = options->limits,
        .mounts = options->mount_count > 0,
        .read_only = options->read_only,
        .disk_choice = options->disk_choice != ATOLL_DISK_ANY,
    };
    struct atoll_candidates *candidates = &place->candidates;
    uint8_t chosen[ATOLL_PROVIDERS_MAX];
    size_t count = 0; /* retired entries come last */

    for (; count < engine->entry_count && !engine->entries[count]->retired; count++) {
        struct atoll_provider_entry *entry = engine->entries[count];
        struct atoll_spec fitted = place->spec;

        offers[count] = (struct atoll_route_offer){
            .name = entry->provider->ops->name,
            .kind = entry->kind,
            .caps = entry->provider->ops->caps(entry->provider),
            .named_only = entry->config.named_only,
            .has_image = *entry->image != '\0',
            .network = default_network(entry, options),
            .lacks_egress = !engine->network->program,
            .lacks_language = !atoll_provider_entry_runs(entry, options->language),
            .most = entry->config.most,
            .down = atoll_provider_entry_is_down(entry),
            .reason = entry->reason,
            .retry_ms = atoll_provider_entry_retry_ms(entry),
            .max_sandboxes = entry->config.max_sandboxes,
            .sandboxes = entry->config.max_sandboxes || engine->placement != ATOLL_PLACE_ORDER
                             ? atoll_provider_entry_count_sandboxes(entry)
                             : 0,
            .weight = entry->config.weight,
            .missing = fit(entry, options, &fitted),
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

/* A provider that runs stacks of layers gets those of the image; others pull it themselves. 1: the image
 * is not here. */
static int find_layers(struct atoll_engine *engine, const struct atoll_options *options,
                       struct atoll_place *place, struct atoll_error *err)
{
    const char *tenant = options->owner ? options->owner : ATOLL_OPERATOR_TENANT;
    char name[ATOLL_IMAGE_NAME_MAX];
    struct atoll_version *v;
    int r;

    if (!options->image || place->version->kind == ATOLL_TEMPLATE_IMAGE ||
        !place->entry->provider->ops->caps(place->entry->provider)->stacks)
        return 0;
    r = atoll_image_template(options->image, name, err);
    if (r < 0)
        return r;
    v = atoll_version_resolve(engine, tenant, name, err);
    if (!v)
        return err->kind == ATOLL_ERR_NOT_FOUND ? 1 : -EINVAL;
    place->version = v;
    place->spec.template_kind = v->kind;
    place->spec.layer_base = v->layer_base;
    place->spec.layers = v->layers;
    return 0;
}

int atoll_place(struct atoll_engine *engine, const struct atoll_options *options,
                struct atoll_place *ret, struct atoll_error *err)
{
    struct atoll_options routed = *options;
    int r = check_service(engine, options, err);

    if (r == 0)
        r = make_spec(engine, options, ret, err);
    if (r == 0)
        r = follow_image(ret->version, &routed, err);
    if (r == 0)
        r = choose(engine, &routed, ret, err);
    if (r == 0) {
        ret->entry = atoll_provider_entry_by_serial(engine, ret->candidates.serials[0]);
        (void)fit(ret->entry, options, &ret->spec);
        r = find_layers(engine, options, ret, err);
    }
    return r;
}

/* Failover. */

static bool would_help_elsewhere(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DEADLINE_EXCEEDED ||
           error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED || error->kind == ATOLL_ERR_UNAUTHENTICATED;
}

bool atoll_place_elsewhere(struct atoll_sandbox *s, const struct atoll_error *error)
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
        s->spec.handle[0] = s->spec.warning[0] = '\0';
        if (!s->options.network_is_given)
            s->options.network = ATOLL_NETWORK_NONE; /* it had the default of the last one */
        (void)fit(next, &s->options, &s->spec);
        s->options.network = s->spec.network;
        atoll_tenant_recount(s);
        return true;
    }
    return false;
}
