#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "store/templates.h"

/*
 * The cache of build steps: which layers a step made, by the tenant and the step's key. Entries hold
 * their layers. The cache has a maximum of bytes that only it uses, and of entries.
 */

#define STEPS_MAX 20000
#define KEY_MAX 128
#define CONFIG_MAX ((size_t)16 * 1024 * 1024) /* manifests of contexts: some 100,000 files */
#define USED_AGAIN_MS INT64_C(60000)          /* uses within this time are not stored again */

struct step {
    struct atoll_list node;    /* in `used` */
    char id[65 + KEY_MAX + 2]; /* TENANT/KEY */
    size_t tenant_len;
    char *layers, *config; /* owned */
    int64_t created_unix_ms, used_unix_ms;
};

static struct atoll_step_table *table(struct atoll_engine *engine)
{
    return &engine->template_tables.steps;
}

static struct step *find(struct atoll_engine *engine, const char *tenant, const char *key)
{
    char id[sizeof(((struct step *)0)->id)];

    return snprintf(id, sizeof(id), "%s/%s", tenant, key) < (int)sizeof(id)
               ? atoll_map_get(&table(engine)->map, id)
               : NULL;
}

static struct step *step_free(struct step *s)
{
    if (s) {
        free(s->layers);
        free(s->config);
        free(s);
    }
    return NULL;
}

static struct step *step_new(const char *tenant, const char *key,
                             const struct atoll_cached_step *from)
{
    struct step *s = atoll_alloc(sizeof(*s));

    s->tenant_len = strlen(tenant);
    (void)snprintf(s->id, sizeof(s->id), "%s/%s", tenant, key);
    s->layers = strdup(from->layers ? from->layers : "");
    s->config = strdup(from->config ? from->config : "");
    return s->layers && s->config ? s : step_free(s);
}

struct holding {
    struct atoll_engine *engine;
    struct atoll_error *err;
    int result;
    size_t held;
};

static void hold_one(void *arg, const char *name)
{
    struct holding *h = arg;

    if (h->result == 0)
        h->result = atoll_layer_hold_step(h->engine, name, h->err);
    h->held += h->result == 0;
}

static void release_one(void *arg, const char *name)
{
    struct holding *h = arg;

    if (h->held > 0)
        atoll_layer_release_step(h->engine, name);
    h->held -= h->held > 0;
}

static void release_layers(struct atoll_engine *engine, const struct step *s)
{
    struct holding h = {.engine = engine, .held = SIZE_MAX};

    atoll_words_each(s->layers, release_one, &h);
}

/* Takes s, also on failure. */
static int add(struct atoll_engine *engine, struct step *s, struct atoll_error *err)
{
    struct holding h = {.engine = engine, .err = err};
    int r;

    atoll_words_each(s->layers, hold_one, &h);
    r = h.result;
    if (r == 0 && atoll_map_put(&table(engine)->map, s->id, s) < 0)
        r = atoll_fail_errno(err, ENOMEM, "cached step");
    if (r < 0) {
        atoll_words_each(s->layers, release_one, &h);
        (void)step_free(s);
        return r;
    }
    atoll_list_push_back(&table(engine)->used, &s->node);
    return 0;
}

static void remove_step(struct atoll_engine *engine, struct step *s)
{
    char tenant[66];
    struct atoll_error err;

    (void)snprintf(tenant, sizeof(tenant), "%.*s", (int)s->tenant_len, s->id);
    if (atoll_store_drop_step(engine->config.store, tenant, s->id + s->tenant_len + 1, &err) < 0) {
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "removal of a cached step", "error",
                  err.text, NULL);
        return; /* the row would name layers that are gone */
    }
    (void)atoll_map_remove(&table(engine)->map, s->id);
    atoll_list_remove(&s->node);
    table(engine)->removed++;
    release_layers(engine, s);
    (void)step_free(s);
}

static int store(struct atoll_engine *engine, const struct step *s, struct atoll_error *err)
{
    char tenant[66];

    (void)snprintf(tenant, sizeof(tenant), "%.*s", (int)s->tenant_len, s->id);
    return atoll_store_put_step(engine->config.store,
                                &(struct atoll_store_step){tenant, s->id + s->tenant_len + 1,
                                                           s->layers, s->config, s->created_unix_ms,
                                                           s->used_unix_ms},
                                err);
}

struct looking {
    struct atoll_engine *engine;
    bool missing, step_only;
};

static void look(void *arg, const char *name)
{
    struct looking *l = arg;

    l->missing |= !atoll_layer_find(l->engine, name, NULL);
    l->step_only |= atoll_layer_is_step_only(l->engine, name);
}

static struct looking look_at(struct atoll_engine *engine, const struct step *s)
{
    struct looking l = {.engine = engine};

    atoll_words_each(s->layers, look, &l);
    return l;
}

bool atoll_steps_get(struct atoll_engine *engine, const char *tenant, const char *key,
                     struct atoll_cached_step *ret)
{
    struct step *s = find(engine, tenant, key);
    int64_t now = atoll_clock_unix_ms();
    struct atoll_error err;

    if (!s)
        return false;
    if (look_at(engine, s).missing) {
        remove_step(engine, s);
        return false;
    }
    atoll_list_remove(&s->node);
    atoll_list_push_back(&table(engine)->used, &s->node);
    if (now - s->used_unix_ms >= USED_AGAIN_MS) {
        s->used_unix_ms = now;
        if (store(engine, s, &err) < 0)
            atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "use of a cached step", "error",
                      err.text, NULL);
    }
    *ret = (struct atoll_cached_step){s->layers, s->config};
    return true;
}

int atoll_steps_put(struct atoll_engine *engine, const char *tenant, const char *key,
                    const struct atoll_cached_step *step, struct atoll_error *err)
{
    struct step *old = find(engine, tenant, key), *s;
    int r;

    if (!atoll_text_is_name(tenant) || !*key || strlen(key) > KEY_MAX ||
        (step->config && strlen(step->config) > CONFIG_MAX))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a step that can be cached");
    s = step_new(tenant, key, step);
    if (!s)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    s->created_unix_ms = s->used_unix_ms = atoll_clock_unix_ms();
    r = store(engine, s, err);
    if (r < 0) {
        (void)step_free(s);
        return r;
    }
    if (old) {
        (void)atoll_map_remove(&table(engine)->map, old->id);
        atoll_list_remove(&old->node);
    }
    r = add(engine, s, err);
    if (old) { /* after the new one holds the layers that both have */
        release_layers(engine, old);
        (void)step_free(old);
    }
    atoll_templates_collect_soon(engine);
    return r;
}

size_t atoll_steps_drop(struct atoll_engine *engine, const char *tenant, const char *key)
{
    struct step *one = key ? find(engine, tenant, key) : NULL;
    uint64_t before = table(engine)->removed;
    size_t n = tenant ? strlen(tenant) : 0;

    if (one)
        remove_step(engine, one);
    if (!key)
        ATOLL_LIST_FOREACH (&table(engine)->used, node) {
            struct step *s = ATOLL_CONTAINER_OF(node, struct step, node);
            if (!tenant || (s->tenant_len == n && memcmp(s->id, tenant, n) == 0))
                remove_step(engine, s);
        }
    return table(engine)->removed - before;
}

void atoll_step_cache_fit(struct atoll_engine *engine)
{
    uint64_t max = engine->config.template_cache_max_bytes;
    struct atoll_step_table *t = table(engine);

    ATOLL_LIST_FOREACH (&t->used, node) {
        struct step *s = ATOLL_CONTAINER_OF(node, struct step, node);
        bool is_large = engine->template_tables.layers.step_bytes > max;

        if (!is_large && t->map.used <= STEPS_MAX)
            return;
        if (t->map.used > STEPS_MAX || look_at(engine, s).step_only)
            remove_step(engine, s);
    }
}

static int load_one(void *arg, const struct atoll_store_step *row, struct atoll_error *err)
{
    struct atoll_engine *engine = arg;
    struct step *s;

    if (strlen(row->tenant) > 64 || strlen(row->key) > KEY_MAX)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored step has a bad key");
    s = step_new(row->tenant, row->key, &(struct atoll_cached_step){row->layers, row->config});
    if (!s)
        return atoll_fail_errno(err, ENOMEM, "cached step");
    s->created_unix_ms = row->created_unix_ms;
    s->used_unix_ms = row->used_unix_ms;
    return add(engine, s, err);
}

int atoll_step_cache_load(struct atoll_engine *engine, struct atoll_error *err)
{
    return atoll_store_each_step(engine->config.store, load_one, engine, err);
}

void atoll_step_cache_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&table(engine)->used, node)
        (void)step_free(ATOLL_CONTAINER_OF(node, struct step, node));
    atoll_map_done(&table(engine)->map);
}
