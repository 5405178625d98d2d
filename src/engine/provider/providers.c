#include "engine/provider/providers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "provider/absent.h"

/*
 * The slots: one for each provider, with its health. A check every few seconds tells how it is; so
 * does every create. Three failures in a row, of checks or of creates, and it is left out; then it
 * is asked again and again, more and more seldom, until it answers.
 */
#define CHECK_MS 10000
#define CHECK_REMOTE_MS 30000
#define CHECK_MAX_MS 120000
#define LIST_AGAIN_MS 1000 /* of one that answers and has not told its sandboxes */
#define FAILURES_DOWN 3
/* After creates that failed, though checks do not: doubles until one succeeds, so often at most. */
#define REST_FIRST_MS 1000
#define RESTS_MAX 6u
#define FORGIVE_MS 5000 /* without another: a good check makes it good again */

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

/* Health. */

bool atoll_slot_is_down(const struct atoll_slot *slot)
{
    return slot->failures >= FAILURES_DOWN ||
           (slot->create_failures >= FAILURES_DOWN && atoll_clock_ms() < slot->rest_until_ms);
}

int64_t atoll_slot_retry_ms(const struct atoll_slot *slot)
{
    int64_t at = slot->create_failures >= FAILURES_DOWN ? slot->rest_until_ms : 0;

    if (slot->failures >= FAILURES_DOWN && slot->check.loop)
        at = ATOLL_MAX(at, slot->check.at_ms);
    return ATOLL_MAX(at - atoll_clock_ms(), (int64_t)0);
}

static enum atoll_health health_of(const struct atoll_slot *slot)
{
    if (atoll_slot_is_down(slot))
        return ATOLL_HEALTH_DOWN;
    return slot->failures > 0 || slot->create_failures > 0 || *slot->full || !slot->checked
               ? ATOLL_HEALTH_DEGRADED
               : ATOLL_HEALTH_UP;
}

/* After anything that may have changed it. */
static void judge(struct atoll_slot *slot)
{
    enum atoll_health health = health_of(slot);
    const char *name = slot->provider->ops->name;

    atoll_metric_set(ATOLL_METRIC_PROVIDER_UP, ATOLL_LABELS(name), health != ATOLL_HEALTH_DOWN);
    if (health == ATOLL_HEALTH_UP)
        slot->reason[0] = '\0';
    if (health == slot->health)
        return;
    slot->health = health;
    slot->since_unix_ms = atoll_clock_unix_ms();
    if (health == ATOLL_HEALTH_UP && !slot->complained)
        return; /* nobody asked */
    slot->complained = health != ATOLL_HEALTH_UP;
    atoll_log(health == ATOLL_HEALTH_DOWN ? ATOLL_LOG_WARN : ATOLL_LOG_INFO, "provider health",
              "provider", name, "health", atoll_health_name(health), "reason", slot->reason, NULL);
}

static void check(void *arg);

static void check_later(struct atoll_slot *slot)
{
    int64_t every = slot->config.check_ms;

    if (every == 0)
        every = slot->provider->ops->caps(slot->provider)->remote ? CHECK_REMOTE_MS : CHECK_MS;
    if (!slot->listed && slot->failures == 0)
        every = ATOLL_MIN(every, (int64_t)LIST_AGAIN_MS);
    /* One that is down is looked for quickly first, then more and more seldom. */
    for (unsigned i = FAILURES_DOWN; i < slot->failures && every < CHECK_MAX_MS; i++)
        every *= 2;
    atoll_timer_set(&slot->check, slot->engine->loop, ATOLL_MIN(every, (int64_t)CHECK_MAX_MS),
                    check, slot);
}

static void on_health(void *arg, const char *detail, const struct atoll_error *error)
{
    struct atoll_slot *slot = arg;

    bool full = error && error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED;

    slot->checking = false;
    slot->checked = true;
    (void)snprintf(slot->full, sizeof(slot->full), "%s", full ? error->text : "");
    if (full) { /* it answers: what it has goes on, and it is asked again as usual */
        slot->failures = 0;
        (void)snprintf(slot->reason, sizeof(slot->reason), "%.190s", error->text);
    } else if (error) {
        slot->failures++;
        (void)snprintf(slot->reason, sizeof(slot->reason), "%.190s", error->text);
    } else {
        slot->failures = 0;
        if (atoll_clock_ms() >= slot->forgive_ms)
            slot->create_failures = 0;
        slot->latency_ms = (double)(atoll_clock_us() - slot->asked_us) / 1000;
        (void)snprintf(slot->detail, sizeof(slot->detail), "%.190s", detail);
    }
    judge(slot);
    if (slot->engine->ending)
        return;
    check_later(slot);
    if ((!error || full) && (!slot->listed || atoll_clock_ms() >= slot->list_at_ms) &&
        !atoll_slot_awaits(slot))
        atoll_recover_slot(slot);
}

static void check(void *arg)
{
    atoll_slot_check(arg);
}

void atoll_slot_check(struct atoll_slot *slot)
{
    if (slot->checking || slot->engine->ending)
        return;
    slot->checking = true;
    slot->asked_us = atoll_clock_us();
    slot->provider->ops->health(slot->provider, on_health, slot);
}

void atoll_slot_note_create(struct atoll_slot *slot, const struct atoll_error *error)
{
    if (!error) {
        slot->create_failures = slot->rests = 0;
        slot->full[0] = '\0';
        judge(slot);
        return;
    }
    slot->list_at_ms = 0;
    /* Others say something about the request, and nothing about who refused it. So does a registry
     * that is out of reach: with its name anybody could take the provider away from everybody. */
    if (error->another ||
        (error->kind != ATOLL_ERR_UNAVAILABLE && error->kind != ATOLL_ERR_DEADLINE_EXCEEDED &&
         error->kind != ATOLL_ERR_UNAUTHENTICATED))
        return;
    if (++slot->create_failures >= FAILURES_DOWN)
        slot->rest_until_ms =
            atoll_clock_ms() + ((int64_t)REST_FIRST_MS << ATOLL_MIN(slot->rests++, RESTS_MAX));
    slot->forgive_ms = ATOLL_MAX(slot->rest_until_ms, atoll_clock_ms() + FORGIVE_MS);
    (void)snprintf(slot->reason, sizeof(slot->reason), "%.190s", error->text);
    judge(slot);
}

int atoll_slot_refuse_pause(const struct atoll_slot *slot, struct atoll_error *err)
{
    const struct atoll_engine *engine = slot->engine;
    const char *other = "";

    for (size_t i = 0; i < engine->slot_count; i++)
        if (engine->slots[i]->provider->ops->caps(engine->slots[i]->provider)->pause)
            other = engine->slots[i]->provider->ops->name;
    if (slot == engine->home && slot->provider->ops->caps(slot->provider)->layers)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "sandboxes cannot be paused on this host: it gives the daemon no cgroup "
                          "freezer; run atolld as root, or stop a persistent sandbox instead");
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "provider %s cannot pause sandboxes%s%s%s", slot->provider->ops->name,
                      *other ? "; " : "", other, *other ? " can" : "");
}

void atoll_advise_language(const struct atoll_sandbox *s, const char *language,
                           struct atoll_error *err)
{
    const struct atoll_slot *slot = s->slot;
    const char *name = s->provider->ops->name;

    if (s->wish.named || !*slot->image || strcmp(s->spec.image, slot->image) != 0)
        return;
    if (slot->languages)
        atoll_advise(err,
                     ATOLL_PROVIDERS_FILE
                     " says that %s runs %.32s (languages), and its default_image "
                     "does not: whoever runs the daemon changes one of the two there, or name an "
                     "image that has it",
                     name, language);
    else
        atoll_advise(err,
                     "nobody says what the default_image of %s runs. Whoever runs the daemon names "
                     "one there that runs %.32s in " ATOLL_PROVIDERS_FILE
                     ", or lists what this one "
                     "runs, as in `languages: [bash]`, and sends atolld a SIGHUP: other languages "
                     "then go to other providers",
                     name, language);
}

int atoll_slot_refuse_unreachable(const struct atoll_sandbox *s, struct atoll_error *err)
{
    const char *name = s->provider->ops->name;
    int r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN, "sandbox %s is out of reach: %s",
                       s->spec.id, s->cause);

    if (s->slot->retired)
        atoll_advise(
            err,
            "it is in reach again when whoever runs the daemon has put %s back into " ATOLL_PROVIDERS_FILE
            " and sent atolld a SIGHUP, or restarted it",
            name);
    else
        atoll_advise(err,
                     "it is in reach again as soon as %s answers; `atoll providers` shows how "
                     "that is",
                     name);
    return r;
}

/* The set. */

struct atoll_slot *atoll_slot_by_name(struct atoll_engine *engine, const char *name)
{
    for (size_t i = 0; i < engine->slot_count; i++)
        if (strcmp(engine->slots[i]->provider->ops->name, name) == 0)
            return engine->slots[i];
    return NULL;
}

struct atoll_slot *atoll_slot_by_serial(struct atoll_engine *engine, uint32_t serial)
{
    for (size_t i = 0; i < engine->slot_count; i++)
        if (engine->slots[i]->serial == serial)
            return engine->slots[i]->retired ? NULL : engine->slots[i];
    return NULL;
}

bool atoll_slot_runs(const struct atoll_slot *slot, const char *language)
{
    if (!slot->languages || !language)
        return true;
    for (char **p = slot->languages; *p; p++)
        if (strcmp(*p, language) == 0)
            return true;
    return false;
}

int atoll_slot_configure(struct atoll_slot *slot, const struct atoll_engine_provider *config,
                         struct atoll_error *err)
{
    slot->config = *config;
    slot->config.provider = NULL;
    slot->config.name = slot->config.kind = slot->config.place = slot->config.image = NULL;
    slot->config.languages = NULL;
    slot->languages = atoll_strings_free(slot->languages);
    if (config->languages && !(slot->languages = atoll_strings_dup(config->languages)))
        return atoll_fail_errno(err, ENOMEM, "provider");
    if (atoll_text_copy(slot->image, sizeof(slot->image), config->image ? config->image : "") < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "provider %s: the name of its image is too long",
                          slot->provider->ops->name);
    return 0;
}

int atoll_slot_add(struct atoll_engine *engine, const struct atoll_engine_provider *config,
                   struct atoll_slot **ret, struct atoll_error *err)
{
    struct atoll_slot *slot =
        engine->slot_count < ATOLL_PROVIDERS_MAX ? calloc(1, sizeof(*slot)) : NULL;

    if (!slot) {
        (void)config->provider->ops->free(config->provider);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS, "too many providers");
    }
    slot->engine = engine;
    slot->serial = ++engine->slot_serial;
    slot->provider = config->provider;
    slot->health = ATOLL_HEALTH_DEGRADED;
    slot->since_unix_ms = atoll_clock_unix_ms();
    (void)snprintf(slot->reason, sizeof(slot->reason), "its first check is under way");
    (void)snprintf(slot->kind, sizeof(slot->kind), "%s",
                   config->kind ? config->kind : slot->provider->ops->name);
    slot->place = config->place ? strdup(config->place) : NULL;
    slot->provider->events = &atoll_slot_events;
    slot->provider->events_arg = slot;
    engine->slots[engine->slot_count++] = slot;
    *ret = slot;
    return atoll_slot_configure(slot, config, err);
}

int atoll_slots_open(struct atoll_engine *engine, const struct atoll_engine_config *config,
                     struct atoll_error *err)
{
    struct atoll_slot *slot;
    size_t i = 0;
    int r = 0;

    for (; r == 0 && i < config->provider_count; i++)
        r = atoll_slot_add(engine, &config->providers[i], &slot, err);
    for (; i < config->provider_count; i++)
        (void)config->providers[i].provider->ops->free(config->providers[i].provider);
    if (r == 0 && engine->slot_count == 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no provider");
    if (r == 0)
        atoll_slots_choose_home(engine);
    return r;
}

void atoll_slots_choose_home(struct atoll_engine *engine)
{
    engine->home = engine->slots[0];
    for (size_t i = 0; i < engine->slot_count; i++)
        if (!engine->slots[i]->retired &&
            engine->slots[i]->provider->ops->caps(engine->slots[i]->provider)->layers) {
            engine->home = engine->slots[i];
            return;
        }
}

struct atoll_slot *atoll_slot_absent(struct atoll_engine *engine, const char *name,
                                     struct atoll_error *err)
{
    struct atoll_engine_provider config = {.kind = ""};
    struct atoll_slot *slot;

    if (atoll_absent_new(name, &config.provider, err) < 0 ||
        atoll_slot_add(engine, &config, &slot, err) < 0)
        return NULL;
    slot->retired = true;
    return slot;
}

void atoll_slots_start(struct atoll_engine *engine)
{
    for (size_t i = 0; i < engine->slot_count; i++)
        atoll_slot_check(engine->slots[i]);
}

void atoll_slots_shutdown(struct atoll_engine *engine)
{
    for (size_t i = 0; i < engine->slot_count; i++)
        engine->slots[i]->provider->ops->shutdown(engine->slots[i]->provider);
}

struct atoll_slot *atoll_slot_free(struct atoll_slot *slot)
{
    atoll_timer_cancel(&slot->check);
    (void)slot->provider->ops->free(slot->provider);
    atoll_strings_free(slot->languages);
    free(slot->place);
    free(slot);
    return NULL;
}

void atoll_slots_close(struct atoll_engine *engine)
{
    atoll_timer_cancel(&engine->slot_sweep);
    for (size_t i = 0; i < engine->slot_count; i++)
        engine->slots[i] = atoll_slot_free(engine->slots[i]);
    engine->slot_count = 0;
}

size_t atoll_slot_count_sandboxes(const struct atoll_slot *slot)
{
    const struct atoll_ordered *all = &slot->engine->ordered;
    size_t n = 0;

    for (size_t i = 0; i < all->count; i++)
        n += all->items[i]->slot == slot;
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
                     " was read again and not taken, so that the providers are "
                     "as before: %s",
                     engine->providers_error);
}

const char *atoll_providers_file(const struct atoll_engine *engine)
{
    return engine->providers_file;
}

bool atoll_providers_next(struct atoll_engine *engine, size_t *pos, struct atoll_provider_view *ret)
{
    struct atoll_slot *slot = *pos < engine->slot_count ? engine->slots[*pos] : NULL;
    const struct atoll_provider_caps *caps;
    size_t count;

    if (!slot)
        return false;
    judge(slot); /* a rest may be over */
    count = atoll_slot_count_sandboxes(slot);
    caps = slot->provider->ops->caps(slot->provider);
    *ret = (struct atoll_provider_view){
        .name = slot->provider->ops->name,
        .kind = slot->kind,
        .removed = slot->retired,
        .is_home = slot == engine->home,
        .isolation = caps->isolation,
        .is_default = *pos == 0,
        .named_only = slot->config.named_only,
        .remote = caps->remote,
        .templates = caps->templates,
        .images = caps->images,
        .builds = caps->builds,
        .snapshots = caps->snapshots,
        .volumes = caps->volumes,
        .pause = caps->pause,
        .persistent = caps->persistent,
        .set_limits = caps->set_limits,
        .stats = caps->stats,
        .networks = caps->networks,
        .order = (uint32_t)*pos + 1,
        .max_sandboxes = slot->config.max_sandboxes,
        .sandboxes = count,
        .can_create = !slot->retired && slot->health != ATOLL_HEALTH_DOWN &&
                      (slot->config.max_sandboxes == 0 || count < slot->config.max_sandboxes),
        .full = slot->full,
        .most = slot->config.most,
        .languages = (const char *const *)slot->languages,
        .health = slot->health,
        .reason = slot->reason,
        .detail = slot->detail,
        .since_unix_ms = slot->since_unix_ms,
        .latency_ms = slot->latency_ms,
    };
    ++*pos;
    return true;
}

bool atoll_sandbox_public_host(const struct atoll_sandbox *s, char out[ATOLL_PUBLIC_HOST_MAX])
{
    return s->provider->ops->public_host &&
           s->provider->ops->public_host(s->provider, &s->spec, out, ATOLL_PUBLIC_HOST_MAX);
}
