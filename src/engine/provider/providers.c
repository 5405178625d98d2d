#include "engine/provider/providers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "provider/absent.h"

/*
 * The provider entries and their health, which follows from periodic checks and from creates. After
 * three consecutive failures of checks or of creates a provider is down and gets no new sandboxes.
 * It is checked with growing intervals until it answers.
 */
#define CHECK_MS 10000
#define CHECK_REMOTE_MS 30000
#define CHECK_MAX_MS 120000
#define LIST_AGAIN_MS 1000 /* interval while it answers but has not listed its sandboxes */
#define FAILURES_DOWN 3
/* Backoff after failed creates while checks succeed: doubles RESTS_MAX times, until one
 * succeeds. */
#define REST_FIRST_MS 1000
#define RESTS_MAX 6u
#define FORGIVE_MS 5000 /* after this time without a failed create, a good check resets the count */

const char *atoll_health_name(enum atoll_health health)
{
    static const char *const names[] = {"up", "degraded", "down"};
    return names[health];
}

static const char *const networks[] = {"none", "isolated", "bridge"};

const char *atoll_network_name(enum atoll_network network)
{
    return networks[network];
}

int atoll_network_by_name(const char *name, enum atoll_network *ret)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(networks); i++)
        if (strcmp(name, networks[i]) == 0) {
            *ret = (enum atoll_network)i;
            return 0;
        }
    return -EINVAL;
}

bool atoll_provider_entry_is_down(const struct atoll_provider_entry *entry)
{
    return entry->failures >= FAILURES_DOWN ||
           (entry->create_failures >= FAILURES_DOWN && atoll_clock_ms() < entry->rest_until_ms);
}

int64_t atoll_provider_entry_retry_ms(const struct atoll_provider_entry *entry)
{
    int64_t at = entry->create_failures >= FAILURES_DOWN ? entry->rest_until_ms : 0;

    if (entry->failures >= FAILURES_DOWN && entry->check.loop)
        at = ATOLL_MAX(at, entry->check.at_ms);
    return ATOLL_MAX(at - atoll_clock_ms(), (int64_t)0);
}

static enum atoll_health health_of(const struct atoll_provider_entry *entry)
{
    if (atoll_provider_entry_is_down(entry))
        return ATOLL_HEALTH_DOWN;
    return entry->failures > 0 || entry->create_failures > 0 || *entry->full || !entry->checked
               ? ATOLL_HEALTH_DEGRADED
               : ATOLL_HEALTH_UP;
}

/* Updates the health. Call after any change of what it depends on. */
static void judge(struct atoll_provider_entry *entry)
{
    enum atoll_health health = health_of(entry);
    const char *name = entry->provider->ops->name;

    atoll_metric_set(ATOLL_METRIC_PROVIDER_UP, ATOLL_LABELS(name), health != ATOLL_HEALTH_DOWN);
    if (health == ATOLL_HEALTH_UP)
        entry->reason[0] = '\0';
    if (health == entry->health)
        return;
    entry->health = health;
    entry->since_unix_ms = atoll_clock_unix_ms();
    if (health == ATOLL_HEALTH_UP && !entry->complained)
        return; /* no failure was logged, so no recovery is */
    entry->complained = health != ATOLL_HEALTH_UP;
    atoll_log(health == ATOLL_HEALTH_DOWN ? ATOLL_LOG_WARN : ATOLL_LOG_INFO, "provider health",
              "provider", name, "health", atoll_health_name(health), "reason", entry->reason, NULL);
}

static void check(void *arg);

static void check_later(struct atoll_provider_entry *entry)
{
    int64_t every = entry->config.check_ms;

    if (every == 0)
        every = entry->provider->ops->caps(entry->provider)->remote ? CHECK_REMOTE_MS : CHECK_MS;
    if (!entry->listed && entry->failures == 0)
        every = ATOLL_MIN(every, (int64_t)LIST_AGAIN_MS);
    /* The interval doubles with each failure after the provider is down. */
    for (unsigned i = FAILURES_DOWN; i < entry->failures && every < CHECK_MAX_MS; i++)
        every *= 2;
    atoll_timer_set(&entry->check, entry->engine->loop, ATOLL_MIN(every, (int64_t)CHECK_MAX_MS),
                    check, entry);
}

static void on_health(void *arg, const char *detail, const struct atoll_error *error)
{
    struct atoll_provider_entry *entry = arg;

    bool full = error && error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED;

    entry->checking = false;
    entry->checked = true;
    (void)snprintf(entry->full, sizeof(entry->full), "%s", full ? error->text : "");
    if (full) { /* it answers and its sandboxes work: not a failure */
        entry->failures = 0;
        (void)snprintf(entry->reason, sizeof(entry->reason), "%.190s", error->text);
    } else if (error) {
        entry->failures++;
        (void)snprintf(entry->reason, sizeof(entry->reason), "%.190s", error->text);
    } else {
        entry->failures = 0;
        if (atoll_clock_ms() >= entry->forgive_ms)
            entry->create_failures = 0;
        entry->latency_ms = (double)(atoll_clock_us() - entry->asked_us) / 1000;
        (void)snprintf(entry->detail, sizeof(entry->detail), "%.190s", detail);
    }
    judge(entry);
    if (entry->engine->ending)
        return;
    check_later(entry);
    if ((!error || full) && (!entry->listed || atoll_clock_ms() >= entry->list_at_ms) &&
        !atoll_provider_entry_awaits(entry))
        atoll_recover_provider_entry(entry);
}

static void check(void *arg)
{
    atoll_provider_entry_check(arg);
}

void atoll_provider_entry_check(struct atoll_provider_entry *entry)
{
    if (entry->checking || entry->engine->ending)
        return;
    entry->checking = true;
    entry->asked_us = atoll_clock_us();
    entry->provider->ops->health(entry->provider, on_health, entry);
}

void atoll_provider_entry_note_create(struct atoll_provider_entry *entry,
                                      const struct atoll_error *error)
{
    if (!error) {
        entry->create_failures = entry->rests = 0;
        entry->full[0] = '\0';
        judge(entry);
        return;
    }
    entry->list_at_ms = 0;
    /* Other errors concern the request, not the provider. So does an unreachable registry
     * (another): otherwise a tenant that names one could disable the provider for all tenants. */
    if (error->another ||
        (error->kind != ATOLL_ERR_UNAVAILABLE && error->kind != ATOLL_ERR_DEADLINE_EXCEEDED &&
         error->kind != ATOLL_ERR_UNAUTHENTICATED))
        return;
    if (++entry->create_failures >= FAILURES_DOWN)
        entry->rest_until_ms =
            atoll_clock_ms() + ((int64_t)REST_FIRST_MS << ATOLL_MIN(entry->rests++, RESTS_MAX));
    entry->forgive_ms = ATOLL_MAX(entry->rest_until_ms, atoll_clock_ms() + FORGIVE_MS);
    (void)snprintf(entry->reason, sizeof(entry->reason), "%.190s", error->text);
    judge(entry);
}

int atoll_provider_entry_refuse_pause(const struct atoll_provider_entry *entry,
                                      struct atoll_error *err)
{
    const struct atoll_engine *engine = entry->engine;
    const char *other = "";

    for (size_t i = 0; i < engine->entry_count; i++)
        if (engine->entries[i]->provider->ops->caps(engine->entries[i]->provider)->pause)
            other = engine->entries[i]->provider->ops->name;
    if (entry == engine->builder && entry->provider->ops->caps(entry->provider)->layers)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "sandboxes cannot be paused on this host: it gives the daemon no cgroup "
                          "freezer; run atolld as root, or stop a persistent sandbox instead");
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "provider %s cannot pause sandboxes%s%s%s", entry->provider->ops->name,
                      *other ? "; " : "", other, *other ? " can" : "");
}

void atoll_advise_language(const struct atoll_sandbox *s, const char *language,
                           struct atoll_error *err)
{
    const struct atoll_provider_entry *entry = s->entry;
    const char *name = s->provider->ops->name;

    if (atoll_options_name_root(&s->options) || !*entry->image ||
        strcmp(s->spec.image, entry->image) != 0)
        return;
    if (entry->languages)
        atoll_advise(err,
                     ATOLL_PROVIDERS_FILE
                     " says that %s runs %.32s (languages), but its default_image does not: the "
                     "operator of the daemon changes one of the two there, or name an image that "
                     "has it",
                     name, language);
    else
        atoll_advise(
            err,
            "it is not declared which languages the default_image of %s runs. The "
            "operator of the daemon names an image that runs %.32s in " ATOLL_PROVIDERS_FILE
            ", or lists the languages of this one, as in "
            "`languages: [bash]`, and sends atolld a SIGHUP: other "
            "languages then go to other providers",
            name, language);
}

int atoll_provider_entry_refuse_unreachable(const struct atoll_sandbox *s, struct atoll_error *err)
{
    const char *name = s->provider->ops->name;
    int r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN, "sandbox %s is out of reach: %s",
                       s->spec.id, s->cause);

    if (s->entry->retired)
        atoll_advise(
            err,
            "it is reachable again after the operator has put %s back into " ATOLL_PROVIDERS_FILE
            " and has sent atolld a SIGHUP, or restarted it",
            name);
    else
        atoll_advise(err,
                     "it is reachable again as soon as %s answers; `atoll providers` shows the "
                     "state of that",
                     name);
    return r;
}

struct atoll_provider_entry *atoll_provider_entry_by_name(struct atoll_engine *engine,
                                                          const char *name)
{
    for (size_t i = 0; i < engine->entry_count; i++)
        if (strcmp(engine->entries[i]->provider->ops->name, name) == 0)
            return engine->entries[i];
    return NULL;
}

struct atoll_provider_entry *atoll_provider_entry_by_serial(struct atoll_engine *engine,
                                                            uint32_t serial)
{
    for (size_t i = 0; i < engine->entry_count; i++)
        if (engine->entries[i]->serial == serial)
            return engine->entries[i]->retired ? NULL : engine->entries[i];
    return NULL;
}

bool atoll_provider_entry_runs(const struct atoll_provider_entry *entry, const char *language)
{
    if (!entry->languages || !language)
        return true;
    for (char **p = entry->languages; *p; p++)
        if (strcmp(*p, language) == 0)
            return true;
    return false;
}

int atoll_provider_entry_configure(struct atoll_provider_entry *entry,
                                   const struct atoll_engine_provider *config,
                                   struct atoll_error *err)
{
    entry->config = *config;
    entry->config.provider = NULL;
    entry->config.name = entry->config.kind = entry->config.place = entry->config.image = NULL;
    entry->config.languages = NULL;
    entry->config.source = NULL;
    (void)snprintf(entry->source, sizeof(entry->source), "%s",
                   config->source ? config->source : "");
    entry->languages = atoll_strings_free(entry->languages);
    if (config->languages && !(entry->languages = atoll_strings_dup(config->languages)))
        return atoll_fail_errno(err, ENOMEM, "provider");
    if (atoll_text_copy(entry->image, sizeof(entry->image), config->image ? config->image : "") < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "provider %s: the name of its image is too long",
                          entry->provider->ops->name);
    return 0;
}

int atoll_provider_entry_add(struct atoll_engine *engine,
                             const struct atoll_engine_provider *config,
                             struct atoll_provider_entry **ret, struct atoll_error *err)
{
    struct atoll_provider_entry *entry =
        engine->entry_count < ATOLL_PROVIDERS_MAX ? calloc(1, sizeof(*entry)) : NULL;

    if (!entry) {
        (void)config->provider->ops->free(config->provider);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS, "too many providers");
    }
    entry->engine = engine;
    entry->serial = ++engine->entry_serial;
    entry->provider = config->provider;
    entry->health = ATOLL_HEALTH_DEGRADED;
    entry->since_unix_ms = atoll_clock_unix_ms();
    (void)snprintf(entry->reason, sizeof(entry->reason), "its first check is under way");
    (void)snprintf(entry->kind, sizeof(entry->kind), "%s",
                   config->kind ? config->kind : entry->provider->ops->name);
    entry->place = config->place ? strdup(config->place) : NULL;
    entry->provider->events = &atoll_provider_entry_events;
    entry->provider->events_arg = entry;
    engine->entries[engine->entry_count++] = entry;
    *ret = entry;
    return atoll_provider_entry_configure(entry, config, err);
}

int atoll_provider_entries_open(struct atoll_engine *engine,
                                const struct atoll_engine_config *config, struct atoll_error *err)
{
    struct atoll_provider_entry *entry;
    size_t i = 0;
    int r = 0;

    for (; r == 0 && i < config->provider_count; i++)
        r = atoll_provider_entry_add(engine, &config->providers[i], &entry, err);
    for (; i < config->provider_count; i++)
        (void)config->providers[i].provider->ops->free(config->providers[i].provider);
    if (r == 0 && engine->entry_count == 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no provider");
    if (r == 0)
        atoll_provider_entries_choose_builder(engine);
    return r;
}

void atoll_provider_entries_choose_builder(struct atoll_engine *engine)
{
    engine->builder = engine->entries[0];
    for (size_t i = 0; i < engine->entry_count; i++)
        if (!engine->entries[i]->retired &&
            engine->entries[i]->provider->ops->caps(engine->entries[i]->provider)->layers) {
            engine->builder = engine->entries[i];
            return;
        }
}

struct atoll_provider_entry *atoll_provider_entry_absent(struct atoll_engine *engine,
                                                         const char *name, struct atoll_error *err)
{
    struct atoll_engine_provider config = {.kind = ""};
    struct atoll_provider_entry *entry;

    if (atoll_absent_new(name, &config.provider, err) < 0 ||
        atoll_provider_entry_add(engine, &config, &entry, err) < 0)
        return NULL;
    entry->retired = true;
    return entry;
}

void atoll_provider_entries_start(struct atoll_engine *engine)
{
    for (size_t i = 0; i < engine->entry_count; i++)
        atoll_provider_entry_check(engine->entries[i]);
}

void atoll_provider_entries_shutdown(struct atoll_engine *engine)
{
    for (size_t i = 0; i < engine->entry_count; i++)
        engine->entries[i]->provider->ops->shutdown(engine->entries[i]->provider);
}

struct atoll_provider_entry *atoll_provider_entry_free(struct atoll_provider_entry *entry)
{
    atoll_timer_cancel(&entry->check);
    (void)entry->provider->ops->free(entry->provider);
    atoll_strings_free(entry->languages);
    free(entry->place);
    free(entry);
    return NULL;
}

void atoll_provider_entries_close(struct atoll_engine *engine)
{
    atoll_timer_cancel(&engine->entry_sweep);
    for (size_t i = 0; i < engine->entry_count; i++)
        engine->entries[i] = atoll_provider_entry_free(engine->entries[i]);
    engine->entry_count = 0;
}

size_t atoll_provider_entry_count_sandboxes(const struct atoll_provider_entry *entry)
{
    const struct atoll_ordered *all = &entry->engine->ordered;
    size_t n = 0;

    for (size_t i = 0; i < all->count; i++)
        n += all->items[i]->entry == entry;
    return n;
}

const struct atoll_route_kinds *atoll_engine_kinds(const struct atoll_engine *engine)
{
    static const struct atoll_route_kinds none = {NULL, 0};
    return engine->config.kinds ? engine->config.kinds : &none;
}

void atoll_advise_reload(const struct atoll_engine *engine, struct atoll_error *err)
{
    if (*engine->providers_error && strstr(err->hint, ATOLL_PROVIDERS_FILE))
        atoll_advise(err,
                     ATOLL_PROVIDERS_FILE
                     " was read again and is not in use, so that the providers are as before: %s",
                     engine->providers_error);
}

const char *atoll_providers_file(const struct atoll_engine *engine)
{
    return engine->providers_file;
}

bool atoll_providers_next(struct atoll_engine *engine, size_t *pos, struct atoll_provider_view *ret)
{
    struct atoll_provider_entry *entry = *pos < engine->entry_count ? engine->entries[*pos] : NULL;
    const struct atoll_provider_caps *caps, *builder;
    size_t count;

    if (!entry)
        return false;
    builder = engine->builder->provider->ops->caps(engine->builder->provider);
    judge(entry); /* a backoff may have ended */
    count = atoll_provider_entry_count_sandboxes(entry);
    caps = entry->provider->ops->caps(entry->provider);
    *ret = (struct atoll_provider_view){
        .name = entry->provider->ops->name,
        .kind = entry->kind,
        .removed = entry->retired,
        .is_builder = entry == engine->builder,
        .isolation = caps->isolation,
        .is_default = *pos == 0,
        .named_only = entry->config.named_only,
        .source = entry->source,
        .remote = caps->remote,
        .templates = caps->templates,
        .images = caps->images || caps->stacks,
        .builds = caps->builds,
        .snapshots = caps->snapshots || (caps->snapshot_layers && builder->layers),
        .volumes = caps->volumes,
        .policies = caps->policies || (caps->sockets && entry->engine->network->program),
        .pause = caps->pause,
        .persistent = caps->persistent,
        .set_limits = caps->set_limits,
        .stats = caps->stats,
        .networks = caps->networks,
        .order = (uint32_t)*pos + 1,
        .max_sandboxes = entry->config.max_sandboxes,
        .sandboxes = count,
        .can_create = !entry->retired && entry->health != ATOLL_HEALTH_DOWN &&
                      (entry->config.max_sandboxes == 0 || count < entry->config.max_sandboxes),
        .full = entry->full,
        .most = entry->config.most,
        .languages = (const char *const *)entry->languages,
        .health = entry->health,
        .reason = entry->reason,
        .detail = entry->detail,
        .since_unix_ms = entry->since_unix_ms,
        .latency_ms = entry->latency_ms,
    };
    ++*pos;
    return true;
}

bool atoll_sandbox_public_host(const struct atoll_sandbox *s, char out[ATOLL_PUBLIC_HOST_MAX])
{
    return s->provider->ops->public_host &&
           s->provider->ops->public_host(s->provider, &s->spec, out, ATOLL_PUBLIC_HOST_MAX);
}
