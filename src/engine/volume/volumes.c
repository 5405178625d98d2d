#include <stdlib.h>
#include "base/memory.h"
#include "engine/engine_internal.h"

/*
 * Volumes, which providers keep beside sandboxes.
 */

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
