#include <stdio.h>
#include <string.h>
#include "provider/checked_internal.h"

/*
 * Images and volumes, as checked_ops.c does the rest.
 */

static void keep_image(struct atoll_checked_call *c, const char *image)
{
    (void)snprintf(c->image, sizeof(c->image), "%s", image); /* the engine's own names are short */
}

static void build(struct atoll_provider *p, const struct atoll_provider_build *what,
                  atoll_provider_said_fn *said, atoll_provider_image_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_BUILD, NULL, arg);

    keep_image(c, what->image);
    (void)snprintf(c->dockerfile, sizeof(c->dockerfile), "%s", what->dockerfile);
    c->build = *what;
    c->build.image = c->image;
    c->build.dockerfile = c->dockerfile;
    c->said = said;
    c->done.image = done;
    atoll_checked_begin(c);
}

static void cancel_build(struct atoll_provider *p, const char *image)
{
    struct atoll_provider *inner = atoll_checked_of(p)->inner;

    if (inner->ops->cancel_build)
        inner->ops->cancel_build(inner, image);
}

static void snapshot(struct atoll_provider *p, const struct atoll_spec *spec, const char *image,
                     atoll_provider_image_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_SNAPSHOT, spec, arg);

    keep_image(c, image);
    c->done.image = done;
    atoll_checked_begin(c);
}

static void drop_image(struct atoll_provider *p, const char *image, atoll_provider_done_fn *done,
                       void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_DROP_IMAGE, NULL, arg);

    keep_image(c, image);
    c->done.plain = done;
    atoll_checked_begin(c);
}

static void list_volumes(struct atoll_provider *p, const char *tenant,
                         atoll_provider_volume_fn *each, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_LIST_VOLUMES, NULL, arg);

    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
    c->each_volume = each;
    c->done.plain = done;
    atoll_checked_begin(c);
}

static void drop_volume(struct atoll_provider *p, const char *tenant, const char *name,
                        atoll_provider_done_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_DROP_VOLUME, NULL, arg);

    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
    (void)snprintf(c->volume, sizeof(c->volume), "%s", name);
    c->done.plain = done;
    atoll_checked_begin(c);
}

void atoll_checked_add_images(struct atoll_provider_ops *ops)
{
    ops->build = build;
    ops->cancel_build = cancel_build;
    ops->snapshot = snapshot;
    ops->drop_image = drop_image;
    ops->list_volumes = list_volumes;
    ops->drop_volume = drop_volume;
}
