#include "engine/template/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "engine/template/export.h"
#include "engine/template/images_internal.h"
#include "engine/waiters.h"

struct load {
    struct atoll_images *images;
    struct atoll_list node; /* in images->loads */
    uint64_t serial;        /* of the provider */
    char version_id[ATOLL_VERSION_ID_LEN + 1];
    char image[ATOLL_LOADED_IMAGE_MAX];
    struct atoll_list waiters;
};

bool atoll_load_is_needed(struct atoll_provider *provider, const struct atoll_spec *spec)
{
    const struct atoll_provider_caps *caps = provider->ops->caps(provider);

    return caps->loads && !caps->stacks && spec->template_kind == ATOLL_TEMPLATE_ROOTFS &&
           !*spec->image;
}

static void load_free(struct load *l)
{
    atoll_list_remove(&l->node);
    atoll_waiters_drop(&l->waiters);
    free(l);
}

static void conclude(struct load *l, const struct atoll_error *error)
{
    atoll_list_remove(&l->node);
    atoll_waiters_tell(&l->waiters, error);
    load_free(l);
}

static struct atoll_provider *provider_of(const struct load *l, struct atoll_error *err)
{
    struct atoll_provider_entry *entry =
        atoll_provider_entry_by_serial(l->images->engine, l->serial);

    if (!entry)
        (void)atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENODEV, "the provider was removed");
    return entry ? entry->provider : NULL;
}

static void on_loaded(void *arg, const struct atoll_error *error)
{
    conclude(arg, error);
}

static void on_exported(void *arg, const struct atoll_exported *made,
                        const struct atoll_error *error)
{
    struct load *l = arg;
    struct atoll_error err;
    struct atoll_provider *provider = error ? NULL : provider_of(l, &err);

    if (provider) {
        (void)lseek(made->fd, 0, SEEK_SET); /* it is at the end */
        provider->ops->load_image(provider, l->image, made->fd, on_loaded, l);
        return;
    }
    if (made)
        (void)close(made->fd);
    conclude(l, error ? error : &err);
}

static void on_looked(void *arg, const struct atoll_error *error)
{
    struct load *l = arg;
    const struct atoll_export_request request = {.version_id = l->version_id, .name = l->image};

    if (error && error->kind == ATOLL_ERR_NOT_FOUND)
        (void)atoll_template_export(l->images->engine, &request, on_exported, l);
    else
        conclude(l, error);
}

static struct load *find(const struct atoll_images *images, uint64_t serial, const char *image)
{
    ATOLL_LIST_FOREACH (&images->loads, node) {
        struct load *l = ATOLL_CONTAINER_OF(node, struct load, node);

        if (l->serial == serial && strcmp(l->image, image) == 0)
            return l;
    }
    return NULL;
}

void atoll_load(struct atoll_engine *engine, const struct atoll_provider_entry *entry,
                const struct atoll_version *version, char image[static ATOLL_LOADED_IMAGE_MAX],
                atoll_done_fn *done, void *arg)
{
    struct atoll_images *images = engine->images;
    struct atoll_error err;
    char digest[65];
    struct load *l;

    if (!images || images->stopping) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
        done(arg, &err);
        return;
    }
    atoll_layers_digest("image", version->layers, digest);
    (void)snprintf(image, ATOLL_LOADED_IMAGE_MAX, "atoll-layer:%s", digest);
    l = find(images, entry->serial, image);
    if (l) {
        atoll_waiters_add(&l->waiters, done, arg);
        return;
    }
    l = atoll_alloc(sizeof(*l));
    l->images = images;
    l->serial = entry->serial;
    (void)snprintf(l->version_id, sizeof(l->version_id), "%s", version->id);
    (void)snprintf(l->image, sizeof(l->image), "%s", image);
    atoll_list_init(&l->waiters);
    atoll_list_push_back(&images->loads, &l->node);
    atoll_waiters_add(&l->waiters, done, arg);
    entry->provider->ops->load_image(entry->provider, l->image, ATOLL_NO_FD, on_looked, l);
}

void atoll_loads_cancel(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->loads, node)
        atoll_waiters_drop(&ATOLL_CONTAINER_OF(node, struct load, node)->waiters);
}

void atoll_loads_done(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->loads, node)
        load_free(ATOLL_CONTAINER_OF(node, struct load, node));
}
