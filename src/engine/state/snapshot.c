#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/state/capture.h"
#include "engine/state/capture_queue.h"
#include "sandbox/stack.h"

/* Snapshots that clients ask for: their names, and how many a tenant may have. */

struct snapshot {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    char *name; /* owned, or NULL */
    atoll_snapshot_fn *done;
    void *arg;
};

/* A retired one is there as long as sandboxes use it. */
static bool is_kept(const struct atoll_version *v)
{
    return strcmp(v->source, ATOLL_SOURCE_SNAPSHOT) == 0;
}

static bool is_listed(const struct atoll_version *v)
{
    return is_kept(v) && !atoll_template_is_retired(v->tmpl->name);
}

/* Those that are being made included. */
static size_t count_of(struct atoll_engine *engine, const char *tenant)
{
    size_t pos = 0, n = atoll_captures_count(engine, tenant, ATOLL_SOURCE_SNAPSHOT);
    const struct atoll_version *v;

    while ((v = atoll_map_next(&engine->template_tables.versions, &pos)) != NULL)
        n += is_kept(v) && strcmp(v->tmpl->owner, tenant) == 0;
    return n;
}

static int check_count(struct atoll_engine *engine, const char *tenant, struct atoll_error *err)
{
    uint32_t most = engine->config.snapshots_max;

    if (most == 0 || count_of(engine, tenant) < most)
        return 0;
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("snapshots"), 1);
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "tenant %s has %u snapshots, the most it may have (--tenant-snapshots); "
                      "remove some (`atoll template rm`)",
                      tenant, most);
}

/* Adds the layers of a version that `without` does not have; returns the bytes of those that were not there. */
static uint64_t add_layers(struct atoll_engine *engine, const struct atoll_version *v,
                           struct atoll_map *to, const struct atoll_map *without)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    const char *rest = v->layers;
    uint64_t sum = 0;

    while (rest && atoll_stack_next(&rest, name)) {
        struct atoll_layer *layer = atoll_map_get(&engine->template_tables.layers.map, name);

        if (!layer || (without && atoll_map_get(without, name)))
            continue;
        if (atoll_map_put(to, layer->name, layer) == 0)
            sum += layer->size_bytes;
    }
    return sum;
}

static bool is_of_sandbox(const struct atoll_version *v)
{
    return is_kept(v) || strcmp(v->source, ATOLL_SOURCE_FORK) == 0 ||
           strcmp(v->source, ATOLL_SOURCE_FORKING) == 0;
}

/* Of layers that snapshots of the tenant have, and no other template. */
static uint64_t bytes_of(struct atoll_engine *engine, const char *tenant)
{
    struct atoll_map others, own;
    const struct atoll_version *v;
    uint64_t sum = 0;
    size_t pos = 0;

    atoll_map_init(&others);
    atoll_map_init(&own);
    while ((v = atoll_map_next(&engine->template_tables.versions, &pos)) != NULL)
        if (!is_of_sandbox(v))
            (void)add_layers(engine, v, &others, NULL);
    pos = 0;
    while ((v = atoll_map_next(&engine->template_tables.versions, &pos)) != NULL)
        if (is_kept(v) && strcmp(v->tmpl->owner, tenant) == 0)
            sum += add_layers(engine, v, &own, &others);
    atoll_map_done(&own);
    atoll_map_done(&others);
    return sum;
}

int atoll_snapshot_admit(struct atoll_engine *engine, const char *tenant, uint64_t more,
                         struct atoll_error *err)
{
    uint64_t most = engine->config.snapshots_max_bytes, have;
    char texts[2][16];

    if (most == 0)
        return 0;
    have = bytes_of(engine, tenant);
    if (have < most && more <= most - have)
        return 0;
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("snapshot_bytes"), 1);
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "tenant %s would have more than %s of snapshots, the most it may have "
                      "(--tenant-snapshot-bytes); it has %s; remove some (`atoll template rm`)",
                      tenant, atoll_text_format_size(most, texts[0]),
                      atoll_text_format_size(have, texts[1]));
}

/* NAME or NAME:TAG. */
static int read_name(const struct atoll_sandbox *s, const char *text,
                     struct atoll_template_reference *ret, struct atoll_error *err)
{
    bool layers = s->provider->ops->caps(s->provider)->snapshot_layers;
    char made[33];
    int r;

    if (!text) {
        atoll_rand_id(made, 12);
        *ret = (struct atoll_template_reference){0};
        (void)snprintf(ret->name, sizeof(ret->name), "snapshot-%s", made);
        return 0;
    }
    r = atoll_template_reference_parse(text, ret, err);
    if (r < 0)
        return r;
    if (*ret->digest || strlen(ret->name) > 64 || strchr(ret->name, '/'))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of a snapshot is NAME or NAME:TAG: 1 to 64 letters, digits, "
                          "dots, dashes or underscores");
    return atoll_template_check(s->engine, s->spec.tenant, ret->name,
                                layers ? ATOLL_TEMPLATE_ROOTFS : ATOLL_TEMPLATE_IMAGE, err);
}

static void snapshot_free(struct snapshot *p)
{
    free(p->name);
    free(p);
}

static void on_captured(void *arg, struct atoll_version *v,
                        const struct atoll_snapshot_facts *facts, const struct atoll_error *error)
{
    struct snapshot *p = arg;
    const struct atoll_sandbox *s = atoll_map_get(&p->engine->sandboxes, p->sandbox_id);
    struct atoll_template_view view;

    if (!error && s)
        atoll_events_emit(p->engine, "sandbox.snapshot", s, "", v->tmpl->name);
    if (!error)
        view = atoll_version_get(p->engine, v);
    p->done(p->arg, error ? NULL : &view, facts, error);
    if (!error)
        atoll_snapshots_expire_soon(p->engine);
    snapshot_free(p);
}

static int check(struct atoll_sandbox *s, const char *name, struct atoll_template_reference *ref,
                 struct atoll_error *err)
{
    int r = atoll_capture_check(s, err);

    if (r == 0)
        r = read_name(s, name, ref, err);
    if (r == 0)
        r = check_count(s->engine, s->spec.tenant, err);
    if (r == 0)
        r = atoll_snapshot_admit(s->engine, s->spec.tenant, 0, err);
    return r < 0 ? r : atoll_room_admit(s->engine, err);
}

static void begin(void *arg, const struct atoll_error *error)
{
    struct snapshot *p = arg;
    struct atoll_sandbox *s = atoll_map_get(&p->engine->sandboxes, p->sandbox_id);
    struct atoll_template_reference ref;
    struct atoll_error err;

    if (!error && check(s, p->name, &ref, &err) < 0)
        error = &err;
    if (error) {
        p->done(p->arg, NULL, NULL, error);
        snapshot_free(p);
        return;
    }
    atoll_capture(s,
                  &(struct atoll_capture_request){.name = ref.name,
                                                  .tags = *ref.tag ? ref.tag : NULL,
                                                  .source = ATOLL_SOURCE_SNAPSHOT},
                  on_captured, p);
}

void atoll_engine_snapshot(struct atoll_engine *engine, const char *sandbox_id, const char *name,
                           atoll_snapshot_fn *done, void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);
    struct atoll_error err;
    struct snapshot *p;

    if (!s) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s",
                         sandbox_id);
        done(arg, NULL, NULL, &err);
        return;
    }
    p = atoll_alloc(sizeof(*p));
    *p = (struct snapshot){.engine = engine, .done = done, .arg = arg};
    p->name = name ? strdup(name) : NULL;
    if (name && !p->name)
        abort(); /* the daemon is crash-only */
    memcpy(p->sandbox_id, s->spec.id, sizeof(p->sandbox_id));
    atoll_capture_await(s, arg, begin, p);
}

/* Lists. */

static int newest_first(const void *a, const void *b)
{
    const struct atoll_version *x = *(const struct atoll_version *const *)a;
    const struct atoll_version *y = *(const struct atoll_version *const *)b;

    if (x->created_unix_ms != y->created_unix_ms)
        return x->created_unix_ms < y->created_unix_ms ? 1 : -1;
    return strcmp(x->id, y->id);
}

void atoll_snapshots_each(struct atoll_engine *engine, const char *tenant, const char *sandbox_id,
                          void (*fn)(void *arg, const struct atoll_template_view *view), void *arg)
{
    size_t all = engine->template_tables.versions.used, pos = 0, n = 0;
    const struct atoll_version **found = atoll_alloc((all + 1) * sizeof(*found));
    const struct atoll_version *v;
    struct atoll_template_view view;

    while ((v = atoll_map_next(&engine->template_tables.versions, &pos)) != NULL && n < all)
        if (is_listed(v) && (!tenant || strcmp(v->tmpl->owner, tenant) == 0) &&
            (!sandbox_id || strcmp(v->sandbox_id, sandbox_id) == 0))
            found[n++] = v;
    qsort(found, n, sizeof(*found), newest_first);
    for (size_t i = 0; i < n; i++) {
        view = atoll_version_get(engine, found[i]);
        fn(arg, &view);
    }
    free(found);
}
