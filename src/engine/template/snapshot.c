#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "engine/engine_internal.h"

/*
 * Snapshots and volumes, which providers keep beside sandboxes. A snapshot of a sandbox's disk
 * becomes a template that only the sandbox's tenant can use.
 */

#define OWN_MAX 64 /* maximum number of snapshots of one tenant */

struct snapshot {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    char owner[65], name[65], provider[65], image[64];
    atoll_template_fn *done;
    void *arg;
};

void atoll_done_ignore(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

static int keep(struct snapshot *p, const struct atoll_provider_image *made,
                struct atoll_version **ret, struct atoll_error *err)
{
    struct atoll_provider_entry *entry = atoll_provider_entry_by_name(p->engine, p->provider);

    if (!entry)
        return atoll_fail(err, ATOLL_ERR_ABORTED, ENODEV, "provider %s was removed meanwhile",
                          p->provider);
    if (atoll_template_check(p->engine, p->owner, p->name, ATOLL_TEMPLATE_IMAGE, err) < 0) {
        entry->provider->ops->drop_image(entry->provider, p->image, atoll_done_ignore, NULL);
        return -EEXIST;
    }
    return atoll_template_keep_image(p->engine, p->owner, p->name, entry, p->image, made, ret, err);
}

static void on_made(void *arg, const struct atoll_provider_image *made,
                    const struct atoll_error *error)
{
    struct snapshot *p = arg;
    struct atoll_sandbox *s = atoll_map_get(&p->engine->sandboxes, p->sandbox_id);
    struct atoll_version *v = NULL;
    struct atoll_template_view view;
    struct atoll_error err;

    if (s)
        s->snapping = false;
    if (!error && keep(p, made, &v, &err) < 0)
        error = &err;
    if (!error && s)
        atoll_events_emit(p->engine, "sandbox.snapshot", s, "", p->name);
    if (!error)
        view = atoll_version_get(p->engine, v);
    p->done(p->arg, error ? NULL : &view, error);
    free(p);
}

static int check(struct atoll_engine *engine, struct atoll_sandbox *s, const char *name,
                 struct atoll_error *err)
{
    int r = atoll_template_check(engine, s->spec.tenant, name, ATOLL_TEMPLATE_IMAGE, err);

    if (r < 0)
        return r;
    if (s->snapping)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "another snapshot of sandbox %s is being made", s->spec.id);
    if (atoll_templates_count(engine, s->spec.tenant) >= OWN_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "there are %d snapshots, the most a tenant may have; remove some",
                          OWN_MAX);
    return 0;
}

void atoll_engine_snapshot(struct atoll_engine *engine, const char *sandbox_id, const char *name,
                           atoll_template_fn *done, void *arg)
{
    struct atoll_sandbox *s;
    struct atoll_error err;
    struct snapshot *p;

    if (atoll_engine_running(engine, sandbox_id, &s, &err) < 0 ||
        check(engine, s, name, &err) < 0) {
        done(arg, NULL, &err);
        return;
    }
    p = atoll_alloc(sizeof(*p));
    p->engine = engine;
    p->done = done;
    p->arg = arg;
    memcpy(p->sandbox_id, s->spec.id, sizeof(p->sandbox_id));
    memcpy(p->owner, s->spec.tenant, sizeof(p->owner));
    (void)snprintf(p->name, sizeof(p->name), "%s", name);
    (void)snprintf(p->provider, sizeof(p->provider), "%s", s->provider->ops->name);
    atoll_image_name(p->image);
    s->snapping = true;
    s->provider->ops->snapshot(s->provider, &s->spec, p->image, on_made, p);
}

struct listing {
    const char *provider;
    void (*each)(void *arg, const struct atoll_volume_view *view);
    atoll_done_fn *done;
    void *arg;
};

static bool has_volumes(const struct atoll_provider_caps *caps)
{
    return caps->volumes;
}

static void on_volume(void *arg, const struct atoll_provider_volume *volume)
{
    const struct listing *l = arg;

    l->each(l->arg, &(struct atoll_volume_view){.name = volume->name,
                                                .provider = l->provider,
                                                .created_unix_ms = volume->created_unix_ms});
}

static void on_listed(void *arg, const struct atoll_error *error)
{
    struct listing *l = arg;

    l->done(l->arg, error);
    free(l);
}

void atoll_volumes_list(struct atoll_engine *engine, const char *tenant, const char *provider,
                        void (*each)(void *arg, const struct atoll_volume_view *view),
                        atoll_done_fn *done, void *arg)
{
    struct atoll_error err;
    struct atoll_provider_entry *entry =
        atoll_provider_entry_for(engine, provider, has_volumes, "keep volumes", &err);
    struct listing *l;

    if (!entry) {
        done(arg, &err);
        return;
    }
    l = atoll_alloc(sizeof(*l));
    *l = (struct listing){entry->provider->ops->name, each, done, arg};
    entry->provider->ops->list_volumes(entry->provider, tenant, on_volume, on_listed, l);
}

void atoll_volumes_remove(struct atoll_engine *engine, const char *tenant, const char *provider,
                          const char *name, atoll_done_fn *done, void *arg)
{
    struct atoll_error err;
    struct atoll_provider_entry *entry =
        atoll_provider_entry_for(engine, provider, has_volumes, "keep volumes", &err);

    if (entry)
        entry->provider->ops->drop_volume(entry->provider, tenant, name, done, arg);
    else
        done(arg, &err);
}
