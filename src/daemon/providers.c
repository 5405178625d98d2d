/*
 * How it works. The settings are read (provider_sources.c). The enabled providers are sorted by
 * order. Each that is not open yet, or whose settings changed, is opened
 * (provider_kinds.c).
 */
#include "daemon/providers.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/provider_sources.h"
#include "engine/provider/providers.h"

#define THREADS 16
#define QUEUE_MAX 1024
#define DEFAULT_ORDER 100
#define LANGUAGES_MAX 32
#define DIGESTED_MAX ((size_t)1024 * 1024)

/* One enabled provider of the new set. */
struct wanted {
    struct atoll_opened to;
    const json_t *settings; /* NULL: all defaults */
    int line;               /* 0: not in the file */
    double rank;
    bool kept; /* open already, with the same settings */
    char place[1200];
    const char *languages[LANGUAGES_MAX + 1];
};

struct atoll_provider_set {
    char path[ATOLL_CONFIG_PATH_MAX];
    json_t *file; /* owned */
    struct wanted list[ATOLL_DAEMON_PROVIDERS];
    size_t count;
};

/* The file. */

void atoll_daemon_providers_file(const struct atoll_daemon_place *place,
                                 char out[ATOLL_CONFIG_PATH_MAX])
{
    if (*place->file)
        (void)snprintf(out, ATOLL_CONFIG_PATH_MAX, "%s", place->file);
    else
        (void)snprintf(out, ATOLL_CONFIG_PATH_MAX, "%s/" ATOLL_PROVIDERS_FILE, place->state_dir);
}

static int refuse(const struct atoll_provider_set *set, const struct wanted *w, const char *text,
                  struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s:%d: provider %s %s", set->path,
                      w->line > 0 ? w->line : 1, w->to.name, text);
}

static bool is_wanted(const struct atoll_provider_kind *kind, const json_t *o)
{
    const json_t *enabled = json_object_get(o, "enabled");

    if (kind->only_explicit)
        return json_is_true(enabled);
    return o ? !json_is_false(enabled) : kind->by_default;
}

static const struct atoll_provider_kind *kind_by_name(const char *name)
{
    for (size_t i = 0; i < atoll_provider_kind_count; i++)
        if (strcmp(atoll_provider_kinds[i].name, name) == 0)
            return &atoll_provider_kinds[i];
    return NULL;
}

static int check_name(const struct atoll_provider_set *set, const struct wanted *w,
                      struct atoll_error *err)
{
    const struct atoll_provider_kind *other = kind_by_name(w->to.name);

    if (strcmp(w->to.name, "auto") == 0)
        return refuse(set, w, "cannot be called auto: that name means any provider", err);
    if (other && other != w->to.kind)
        return refuse(set, w, "has the name of another kind of provider", err);
    if (w->to.kind->at_start && strcmp(w->to.name, w->to.kind->name) != 0)
        return refuse(set, w, "must have the name of its kind, of which there can be only one",
                      err);
    return 0;
}

/* Digest of the settings whose change requires opening the provider again: all except those the
 * engine applies itself, plus size and time of the files they name. */
static int digest(const json_t *settings, char out[65], struct atoll_error *err)
{
    static const char *const of_engine[] = {
        "enabled",   "order",         "named_only",      "max_sandboxes",
        "languages", "check_seconds", "orphans_seconds", "reattach_seconds",
        "defaults",  "most",          "@line",           "@kind",
        "kind",      "weight",        "@source",         "networkMode"};
    static const char *const files[] = {"api_key_file", "ca_file", "ca", "cert", "key"};
    json_t *own = settings ? json_copy((json_t *)(uintptr_t)settings) : json_object();
    ATOLL_AUTOFREE char *text = NULL;
    uint8_t sum[32];
    struct atoll_buf all;
    unsigned n = 0;
    int r = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(of_engine); i++)
        (void)json_object_del(own, of_engine[i]);
    text = json_dumps(own, JSON_COMPACT | JSON_SORT_KEYS);
    atoll_buf_init(&all, DIGESTED_MAX);
    r = text ? atoll_buf_appends(&all, text) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(files); i++) {
        const char *path = atoll_setting_text(own, files[i]);
        struct stat st;
        if (path && stat(path, &st) == 0)
            r = atoll_buf_appendf(&all, "\n%llu %lld %lld.%09ld", (unsigned long long)st.st_ino,
                                  (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                                  st.st_mtim.tv_nsec);
    }
    if (r == 0 &&
        EVP_Digest(atoll_buf_head(&all), atoll_buf_size(&all), sum, &n, EVP_sha256(), NULL) != 1)
        r = -EIO;
    for (size_t i = 0; r == 0 && i < sizeof(sum); i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]);
    atoll_buf_done(&all);
    json_decref(own);
    return r < 0 ? atoll_fail_errno(err, -r, "settings of a provider") : 0;
}

/* Whether it is there because of the environment: the operator did not ask for it. */
static bool is_found(const struct wanted *w)
{
    return w->settings && w->line == 0;
}

static int want(struct atoll_provider_set *set, const char *name,
                const struct atoll_provider_kind *kind, const json_t *settings,
                struct atoll_error *err)
{
    struct wanted *w = &set->list[set->count];
    double order = atoll_setting_number(settings, "order");

    *w = (struct wanted){.settings = settings,
                         .line = (int)atoll_setting_number(settings, "@line"),
                         .rank = (order > 0 ? order : DEFAULT_ORDER) +
                                 (double)(kind - atoll_provider_kinds) / 100};
    w->to.kind = kind;
    (void)snprintf(w->to.name, sizeof(w->to.name), "%s", name);
    (void)snprintf(w->place, sizeof(w->place), "%s %s", kind->name, kind->where(settings));
    if (!is_wanted(kind, settings))
        return check_name(set, w, err);
    if (set->count == ATOLL_DAEMON_PROVIDERS - 1 && is_found(w))
        return 0;
    if (set->count == ATOLL_DAEMON_PROVIDERS - 1)
        return refuse(set, w, "exceeds the maximum number of providers", err);
    set->count++;
    return check_name(set, w, err) < 0 ? -EINVAL : digest(settings, w->to.digest, err);
}

/* Sorts by the operator's order, then by kind, then by the place in the file. */
static void sort(struct atoll_provider_set *set)
{
    for (size_t i = 1; i < set->count; i++)
        for (size_t k = i; k > 0 && set->list[k].rank < set->list[k - 1].rank; k--) {
            struct wanted one = set->list[k];

            set->list[k] = set->list[k - 1];
            set->list[k - 1] = one;
        }
}

static int read_set(const struct atoll_daemon_place *place, struct atoll_provider_set *set,
                    struct atoll_error *err)
{
    json_t *listed, *settings;
    const char *name;
    size_t found = 0;
    int r;

    atoll_daemon_providers_file(place, set->path);
    r = atoll_provider_sources_load(place, set->path, &set->file, err);
    listed = json_object_get(set->file, "providers");
    for (size_t i = 0; r == 0 && i < atoll_provider_kind_count; i++)
        if (!json_object_get(listed, atoll_provider_kinds[i].name))
            r = want(set, atoll_provider_kinds[i].name, &atoll_provider_kinds[i], NULL, err);
    json_object_foreach(listed, name, settings)
    {
        if (r == 0)
            r = want(set, name, kind_by_name(atoll_setting_text(settings, "@kind")), settings, err);
    }
    for (size_t i = 0; i < set->count; i++)
        found += is_found(&set->list[i]);
    if (r == 0 && set->count == found)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "%s:1: it leaves no provider: enable one", set->path);
    sort(set);
    return r;
}

/* Open. */

/* Returns 1 if the threads served an earlier provider of that name, else 0. */
static int workers_of(struct atoll_daemon_providers *p, const char *name,
                      struct atoll_workers **ret, struct atoll_error *err)
{
    size_t i = 0;
    int r;

    while (i < p->worker_count && strcmp(p->workers[i].name, name) != 0)
        i++;
    if (i == ATOLL_DAEMON_WORKERS)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                          "%d provider names were used since the start: restart the daemon",
                          ATOLL_DAEMON_WORKERS);
    if (i < p->worker_count) {
        *ret = p->workers[i].workers;
        return 1;
    }
    r = atoll_workers_new(p->place.loop, THREADS, QUEUE_MAX, ret, err);
    if (r < 0)
        return r;
    p->workers[i].workers = *ret;
    (void)snprintf(p->workers[i].name, sizeof(p->workers[i].name), "%s", name);
    p->worker_count++;
    return 0;
}

/* Fills what the engine needs to know about the provider. */
static void describe(struct wanted *w, struct atoll_engine_provider *to)
{
    const json_t *o = w->settings, *languages = json_object_get(o, "languages");
    const char *mode = atoll_setting_text(o, "networkMode");

    *to = (struct atoll_engine_provider){
        .name = w->to.name,
        .kind = w->to.kind->name,
        .place = w->place,
        .max_sandboxes = (uint32_t)atoll_setting_number(o, "max_sandboxes"),
        .named_only = atoll_setting_is_true(o, "named_only"),
        .source = o ? atoll_setting_text(o, "@source") : ATOLL_SOURCE_DEFAULT,
        .weight = (uint32_t)atoll_setting_number(o, "weight"),
        .check_ms = (uint32_t)(atoll_setting_number(o, "check_seconds") * 1000),
        .orphans_ms = (uint32_t)(atoll_setting_number(o, "orphans_seconds") * 1000),
        .reattach_ms = (uint32_t)(atoll_setting_number(o, "reattach_seconds") * 1000),
        .limits = atoll_yaml_limits(json_object_get(o, "defaults")),
        .most = atoll_yaml_limits(json_object_get(o, "most")),
        .image = atoll_setting_text(o, "default_image"),
    };
    if (mode)
        (void)!atoll_network_by_name(mode, &to->network); /* one of the choices */
    for (size_t i = 0; i < json_array_size(languages) && i < LANGUAGES_MAX; i++)
        w->languages[i] = json_string_value(json_array_get(languages, i));
    if (languages)
        to->languages = w->languages;
}

static int open_one(struct atoll_daemon_providers *p, struct wanted *w,
                    struct atoll_engine_provider *to, struct atoll_error *err)
{
    struct atoll_provider_settings entry = {.name = w->to.name, .settings = w->settings};
    struct atoll_provider *made;
    int r = workers_of(p, w->to.name, &entry.workers, err);

    entry.succeeds = r > 0;
    if (r >= 0)
        r = w->to.kind->open(&p->place, &entry, &made, err);
    if (r == 0)
        r = atoll_checked_wrap(p->place.loop, &p->group, w->to.name, made, &to->provider, err);
    return r;
}

void atoll_daemon_providers_drop(struct atoll_engine_provider *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].provider)
            list[i].provider = list[i].provider->ops->free(list[i].provider);
}

/* Removes a provider of the environment that cannot be opened. */
static void leave_out(struct atoll_provider_set *set, struct atoll_engine_provider *list, size_t at,
                      const struct atoll_error *error)
{
    atoll_log(ATOLL_LOG_WARN, "a provider of the environment cannot be used", "provider",
              set->list[at].to.name, "source", list[at].source, "error", error->text, NULL);
    set->count--;
    for (size_t i = at; i < set->count; i++) {
        struct atoll_provider *provider = list[i + 1].provider;

        set->list[i] = set->list[i + 1];
        describe(&set->list[i], &list[i]); /* it borrows from the element */
        list[i].provider = provider;
    }
    list[set->count].provider = NULL;
}

/* Opens the kinds that start programs last: if another provider's settings are refused, no
 * program has to be stopped. */
static int open_set(struct atoll_daemon_providers *p, struct atoll_provider_set *set,
                    struct atoll_engine_provider *list, struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; i < set->count; i++)
        describe(&set->list[i], &list[i]);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; r == 0 && i < set->count; i++) {
            struct wanted *w = &set->list[i];

            if (w->kept || w->to.kind->at_start != (round == 1))
                continue;
            r = open_one(p, w, &list[i], err);
            if (r < 0 && is_found(w)) {
                leave_out(set, list, i--, err);
                r = 0;
            } else if (r < 0 && w->line > 0) {
                (void)atoll_wrap(err, "%s:%d: provider %s", set->path, w->line, w->to.name);
            } else if (r < 0) {
                (void)atoll_wrap(err, "provider %s", w->to.name);
            }
        }
    if (r < 0)
        atoll_daemon_providers_drop(list, set->count);
    return r;
}

static int placement_of(const json_t *file)
{
    static const char *const names[] = {"order", "spread", "weight"};
    const char *name = atoll_setting_text(file, "placement");

    for (size_t i = 0; name && i < ATOLL_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (int)i;
    return ATOLL_PLACE_ORDER;
}

static void remember(struct atoll_daemon_providers *p, const struct atoll_provider_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        p->opened[i] = set->list[i].to;
    p->opened_count = set->count;
    p->placement = placement_of(set->file);
}

static struct atoll_provider_set *set_free(struct atoll_provider_set *set)
{
    if (set)
        json_decref(set->file);
    free(set);
    return NULL;
}

int atoll_daemon_providers_open(struct atoll_daemon_providers *p,
                                const struct atoll_daemon_place *place,
                                struct atoll_engine_provider *list, size_t *ret_count,
                                struct atoll_error *err)
{
    int r;

    p->place = *place;
    p->set = calloc(1, sizeof(*p->set));
    r = p->set ? read_set(place, p->set, err) : atoll_fail_errno(err, ENOMEM, "providers");
    if (r == 0)
        r = open_set(p, p->set, list, err);
    if (r < 0)
        return r;
    remember(p, p->set);
    *ret_count = p->set->count;
    return 0;
}

void atoll_daemon_providers_taken(struct atoll_daemon_providers *p)
{
    p->set = set_free(p->set);
}

/* Reload. */

static const struct atoll_opened *find_opened(const struct atoll_daemon_providers *p,
                                              const char *name)
{
    for (size_t i = 0; i < p->opened_count; i++)
        if (strcmp(p->opened[i].name, name) == 0)
            return &p->opened[i];
    return NULL;
}

/* Finds which providers are open already. Refuses changes that need a restart. */
static int compare(const struct atoll_daemon_providers *p, struct atoll_provider_set *set,
                   struct atoll_error *err)
{
    for (size_t i = 0; i < set->count; i++) {
        struct wanted *w = &set->list[i];
        const struct atoll_opened *old = find_opened(p, w->to.name);

        w->kept = old && old->kind == w->to.kind && strcmp(old->digest, w->to.digest) == 0;
        if (!w->kept && w->to.kind->at_start)
            return refuse(set, w,
                          old ? "cannot be changed while the daemon runs: restart it"
                              : "cannot be added while the daemon runs: restart it",
                          err);
    }
    for (size_t i = 0; i < p->opened_count; i++) {
        bool stays = !p->opened[i].kind->at_start;

        for (size_t k = 0; k < set->count; k++)
            stays |= strcmp(set->list[k].to.name, p->opened[i].name) == 0;
        if (!stays)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s:1: provider %s cannot be removed while the daemon runs: "
                              "restart it",
                              set->path, p->opened[i].name);
    }
    return 0;
}

int atoll_daemon_providers_reload(struct atoll_daemon_providers *p, struct atoll_engine *engine,
                                  struct atoll_error *err)
{
    struct atoll_engine_provider list[ATOLL_DAEMON_PROVIDERS] = {0};
    struct atoll_provider_set *set = calloc(1, sizeof(*set));
    int r = set ? read_set(&p->place, set, err) : atoll_fail_errno(err, ENOMEM, "providers");

    if (r == 0)
        r = compare(p, set, err);
    if (r == 0)
        r = open_set(p, set, list, err);
    if (r == 0)
        r = atoll_engine_set_providers(engine, list, set->count, err);
    if (r == 0) {
        remember(p, set);
        atoll_engine_set_placement(engine, p->placement);
    }
    (void)set_free(set);
    return r;
}

void atoll_daemon_providers_done(struct atoll_daemon_providers *p)
{
    p->set = set_free(p->set);
    for (size_t i = 0; i < p->worker_count; i++)
        p->workers[i].workers = atoll_workers_free(p->workers[i].workers);
}
