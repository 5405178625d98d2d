#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/volume/opened.h"

/*
 * Volumes, which providers keep beside sandboxes. A request that names no provider is about those of all
 * providers that are up and need not be named, in the order of preference.
 */

struct volumes {
    struct atoll_engine *engine;
    char tenant[65], name[65]; /* name: of the volume to remove */
    char one[65];              /* only this provider; "": all */
    uint32_t serial;           /* the provider that is being asked */
    void (*each)(void *arg, const struct atoll_volume_view *view);
    atoll_done_fn *done;
    void *arg;
};

static bool has_volumes(const struct atoll_provider_caps *caps)
{
    return caps->volumes;
}

static struct volumes *volumes_new(struct atoll_engine *engine, const char *tenant,
                                   const char *provider, atoll_done_fn *done, void *arg)
{
    struct volumes *v = atoll_alloc(sizeof(*v));

    *v = (struct volumes){.engine = engine, .done = done, .arg = arg};
    (void)snprintf(v->tenant, sizeof(v->tenant), "%s", tenant);
    (void)snprintf(v->one, sizeof(v->one), "%s", provider ? provider : "");
    return v;
}

/* The provider after the one with that serial; 0: the first. */
static struct atoll_provider_entry *next_of(const struct volumes *v)
{
    const struct atoll_engine *engine = v->engine;
    bool found = v->serial == 0;

    for (size_t i = 0; i < engine->entry_count; i++) {
        struct atoll_provider_entry *entry = engine->entries[i];

        if (found && !entry->retired && !entry->config.named_only &&
            !atoll_provider_entry_is_down(entry) &&
            has_volumes(entry->provider->ops->caps(entry->provider)))
            return entry;
        found |= entry->serial == v->serial;
    }
    return NULL;
}

static void end(struct volumes *v, const struct atoll_error *error)
{
    v->done(v->arg, error);
    free(v);
}

/* List. */

static void list_next(struct volumes *v);

static void on_volume(void *arg, const struct atoll_provider_volume *volume)
{
    const struct volumes *v = arg;
    const struct atoll_provider_entry *entry = atoll_provider_entry_by_serial(v->engine, v->serial);

    v->each(v->arg, &(struct atoll_volume_view){.name = volume->name,
                                                .provider = entry ? entry->provider->ops->name : "",
                                                .created_unix_ms = volume->created_unix_ms,
                                                .size_bytes = volume->size_bytes,
                                                .used_bytes = volume->used_bytes});
}

static void on_listed(void *arg, const struct atoll_error *error)
{
    struct volumes *v = arg;

    if (error || *v->one)
        end(v, error);
    else
        list_next(v);
}

static void list_at(struct volumes *v, struct atoll_provider_entry *entry)
{
    v->serial = entry->serial;
    entry->provider->ops->list_volumes(entry->provider, v->tenant, on_volume, on_listed, v);
}

static void list_next(struct volumes *v)
{
    struct atoll_provider_entry *entry = next_of(v);

    if (entry)
        list_at(v, entry);
    else
        end(v, NULL);
}

void atoll_volumes_list(struct atoll_engine *engine, const char *tenant, const char *provider,
                        void (*each)(void *arg, const struct atoll_volume_view *view),
                        atoll_done_fn *done, void *arg)
{
    struct atoll_error err;
    struct atoll_provider_entry *entry =
        atoll_provider_entry_for(engine, provider, has_volumes, "keep volumes", &err);
    struct volumes *v;

    if (!entry) {
        done(arg, &err);
        return;
    }
    v = volumes_new(engine, tenant, provider, done, arg);
    v->each = each;
    if (provider)
        list_at(v, entry);
    else
        list_next(v);
}

/* Copy. */

static bool has_copies(const struct atoll_provider_caps *caps)
{
    return caps->volume_copies;
}

void atoll_volumes_copy(struct atoll_engine *engine, const char *tenant, const char *provider,
                        const char *from, const char *to, atoll_done_fn *done, void *arg)
{
    struct atoll_error err;
    struct atoll_provider_entry *entry =
        atoll_provider_entry_for(engine, provider, has_copies, "copy volumes", &err);
    int r = entry ? 0 : -ENOTSUP;

    if (entry && !atoll_text_is_name(to))
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "\"%.64s\" is not a volume name: letters, digits, . _ - only", to);
    else if (entry && !atoll_text_is_name(from))
        r = atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %.64s", from);
    if (r < 0)
        done(arg, &err);
    else
        entry->provider->ops->copy_volume(entry->provider, tenant, from, to, done, arg);
}

/* Remove. */

/* A sandbox that mounts it; one that is being destroyed only if there is no other. */
static struct atoll_sandbox *find_user(const struct volumes *v,
                                       const struct atoll_provider_entry *entry)
{
    struct atoll_sandbox *s, *found = NULL;
    size_t pos = 0;

    while ((s = atoll_map_next(&v->engine->sandboxes, &pos)) != NULL)
        for (size_t i = 0; s->entry == entry && i < s->options.mount_count; i++)
            if (strcmp(s->spec.tenant, v->tenant) == 0 &&
                strcmp(s->options.mounts[i].volume, v->name) == 0 &&
                (!found || found->phase == ATOLL_PHASE_DESTROYING))
                found = s;
    return found;
}

static int refuse(const struct volumes *v, const struct atoll_sandbox *user,
                  struct atoll_error *err)
{
    if (user->hidden)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "a request uses the files of volume %s", v->name);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                      "sandbox %s mounts volume %s: destroy it first", user->spec.id, v->name);
}

static void on_removed(void *arg, const struct atoll_error *error);

/* The sandbox that served its files is gone, or one that was being destroyed. */
static void on_closed(void *arg, const struct atoll_error *error)
{
    struct volumes *v = arg;
    struct atoll_provider_entry *entry = atoll_provider_entry_by_serial(v->engine, v->serial);
    struct atoll_sandbox *user = error || !entry ? NULL : find_user(v, entry);
    struct atoll_error err;

    if (user && user->phase == ATOLL_PHASE_DESTROYING) {
        atoll_sandbox_destroy(user, "the removal of its volume", on_closed, v);
        return;
    }
    if (!error && !entry) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the provider was removed");
        error = &err;
    }
    if (user) {
        (void)refuse(v, user, &err);
        error = &err;
    }
    if (error)
        end(v, error);
    else
        entry->provider->ops->drop_volume(entry->provider, v->tenant, v->name, on_removed, v);
}

static void remove_at(struct volumes *v, struct atoll_provider_entry *entry)
{
    v->serial = entry->serial;
    atoll_volume_close(v->engine, v->tenant, v->name, on_closed, v);
}

static void on_removed(void *arg, const struct atoll_error *error)
{
    struct volumes *v = arg;
    struct atoll_provider_entry *entry = *v->one ? NULL : next_of(v);

    if (error && error->kind == ATOLL_ERR_NOT_FOUND && entry)
        remove_at(v, entry);
    else
        end(v, error);
}

void atoll_volumes_remove(struct atoll_engine *engine, const char *tenant, const char *provider,
                          const char *name, atoll_done_fn *done, void *arg)
{
    struct atoll_error err;
    struct atoll_provider_entry *entry =
        atoll_provider_entry_for(engine, provider, has_volumes, "keep volumes", &err);
    struct volumes *v;

    if (entry && !atoll_text_is_name(name)) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %.64s", name);
        entry = NULL;
    }
    if (!entry) {
        done(arg, &err);
        return;
    }
    v = volumes_new(engine, tenant, provider, done, arg);
    (void)snprintf(v->name, sizeof(v->name), "%s", name);
    if (!provider)
        entry = next_of(v);
    if (entry)
        remove_at(v, entry);
    else
        end(v, NULL);
}
