#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "provider/sync_internal.h"

/*
 * The provider that others see: every operation becomes work for sync.c.
 */

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    return &atoll_sync_of(p)->inner->ops->caps;
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    const struct atoll_sync *s = atoll_sync_of(p);
    return s->inner->ops->missing_limits(s->inner, spec);
}

/* What is only lent may change while the worker runs. */
static void keep_lent(struct atoll_sync_work *c, const struct atoll_spec *lent)
{
    size_t n = 0;

    while (c->spec.env && c->spec.env[n])
        n++;
    c->env = calloc(n + 1, sizeof(*c->env));
    for (size_t i = 0; c->env && i < n; i++)
        if (!(c->env[i] = strdup(c->spec.env[i])))
            abort();
    if (c->spec.metadata_json)
        c->metadata_json = strdup(c->spec.metadata_json);
    if (!c->env || (c->spec.metadata_json && !c->metadata_json))
        abort(); /* small objects: the daemon is crash-only */
    if (lent->mount_count > 0) {
        c->mounts = calloc(lent->mount_count, sizeof(*c->mounts));
        if (!c->mounts)
            abort();
        memcpy(c->mounts, lent->mounts, lent->mount_count * sizeof(*c->mounts));
    }
    if (lent->login) {
        c->login = malloc(sizeof(*c->login));
        if (!c->login)
            abort();
        *c->login = *lent->login;
    }
    c->spec.mounts = c->mounts;
    c->spec.mount_count = lent->mount_count;
    c->spec.login = c->login;
    c->spec.env = (const char *const *)c->env;
    c->spec.metadata_json = c->metadata_json;
}

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_CREATE, spec, arg);

    keep_lent(c, spec);
    c->ret_spec = spec;
    c->done.created = done;
    atoll_sync_submit(c);
}

static void cancel(struct atoll_provider *p, const struct atoll_spec *spec)
{
    ATOLL_LIST_FOREACH (&atoll_sync_of(p)->calls, node) {
        const struct atoll_sync_work *c = ATOLL_CONTAINER_OF(node, struct atoll_sync_work, node);
        if (c->op == OP_CREATE && strcmp(c->spec.id, spec->id) == 0)
            atoll_sync_cancel(c);
    }
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_ADOPT, spec, arg);

    c->done.created = done;
    atoll_sync_submit(c);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_DIAL, spec, arg);

    c->done.dialed = done;
    atoll_sync_submit(c);
}

static void look(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_looked_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_LOOK, spec, arg);

    c->done.looked = done;
    atoll_sync_submit(c);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_LIST, NULL, arg);

    c->each = each;
    c->done.plain = done;
    atoll_sync_submit(c);
}

static void plain(struct atoll_provider *p, enum atoll_sync_op op, const struct atoll_spec *spec,
                  atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, op, spec, arg);

    c->done.plain = done;
    atoll_sync_submit(c);
}

static void destroy(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    plain(p, OP_DESTROY, spec, done, arg);
}

static void pause_it(struct atoll_provider *p, const struct atoll_spec *spec,
                     atoll_provider_done_fn *done, void *arg)
{
    plain(p, OP_PAUSE, spec, done, arg);
}

static void resume(struct atoll_provider *p, const struct atoll_spec *spec,
                   atoll_provider_done_fn *done, void *arg)
{
    plain(p, OP_RESUME, spec, done, arg);
}

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_SET_LIMITS, spec, arg);

    c->limits = *limits;
    c->done.plain = done;
    atoll_sync_submit(c);
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_STATS, spec, arg);

    c->done.stats = done;
    atoll_sync_submit(c);
}

static void keep_image(struct atoll_sync_work *c, const char *image)
{
    (void)snprintf(c->image, sizeof(c->image), "%s", image); /* the engine's own names are short */
}

static void build(struct atoll_provider *p, const struct atoll_provider_build *what,
                  atoll_provider_said_fn *said, atoll_provider_image_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_BUILD, NULL, arg);

    keep_image(c, what->image);
    (void)snprintf(c->dockerfile, sizeof(c->dockerfile), "%s", what->dockerfile);
    c->build = *what;
    c->build.image = c->image;
    c->build.dockerfile = c->dockerfile;
    c->hear = said;
    c->done.image = done;
    atoll_sync_submit(c);
}

static void cancel_build(struct atoll_provider *p, const char *image)
{
    ATOLL_LIST_FOREACH (&atoll_sync_of(p)->calls, node) {
        const struct atoll_sync_work *c = ATOLL_CONTAINER_OF(node, struct atoll_sync_work, node);
        if (c->op == OP_BUILD && strcmp(c->image, image) == 0)
            atoll_sync_cancel(c);
    }
}

static void snapshot(struct atoll_provider *p, const struct atoll_spec *spec, const char *image,
                     atoll_provider_image_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_SNAPSHOT, spec, arg);

    keep_image(c, image);
    c->done.image = done;
    atoll_sync_submit(c);
}

static void drop_image(struct atoll_provider *p, const char *image, atoll_provider_done_fn *done,
                       void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_DROP_IMAGE, NULL, arg);

    keep_image(c, image);
    c->done.plain = done;
    atoll_sync_submit(c);
}

static struct atoll_sync_work *volume_work(struct atoll_provider *p, enum atoll_sync_op op,
                                           const char *tenant, atoll_provider_done_fn *done,
                                           void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, op, NULL, arg);

    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
    c->done.plain = done;
    return c;
}

static void list_volumes(struct atoll_provider *p, const char *tenant,
                         atoll_provider_volume_fn *each, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sync_work *c = volume_work(p, OP_LIST_VOLUMES, tenant, done, arg);

    c->each_volume = each;
    atoll_sync_submit(c);
}

static void drop_volume(struct atoll_provider *p, const char *tenant, const char *name,
                        atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sync_work *c = volume_work(p, OP_DROP_VOLUME, tenant, done, arg);

    (void)snprintf(c->volume, sizeof(c->volume), "%s", name);
    atoll_sync_submit(c);
}

static void health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct atoll_sync_work *c = atoll_sync_work_new(p, OP_HEALTH, NULL, arg);

    c->done.health = done;
    atoll_sync_submit(c);
}

static bool public_host(struct atoll_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap)
{
    const struct atoll_sync *s = atoll_sync_of(p);
    return s->inner->ops->public_host(s->inner, spec, out, cap);
}

/* Those under way are told to give up, and nobody is told how they ended. */
static struct atoll_provider *sync_free(struct atoll_provider *p)
{
    struct atoll_sync *s = p ? atoll_sync_of(p) : NULL;

    if (!s)
        return NULL;
    atoll_sync_orphan(s);
    return NULL;
}

int atoll_sync_wrap(struct atoll_loop *loop, struct atoll_workers *workers,
                    struct atoll_sync_provider *p, struct atoll_provider **ret,
                    struct atoll_error *err)
{
    struct atoll_sync *s = calloc(1, sizeof(*s));

    int r;

    if (s)
        s->said_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = !s ? -ENOMEM : s->said_fd < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_watch_open(&s->said, loop, s->said_fd, EPOLLIN, atoll_sync_hear, s);
    if (r < 0) {
        if (s && s->said_fd >= 0)
            (void)close(s->said_fd);
        free(s);
        (void)p->ops->free(p);
        return atoll_fail_errno(err, -r, "provider");
    }
    (void)pthread_mutex_init(&s->lock, NULL);
    s->workers = workers;
    s->inner = p;
    atoll_list_init(&s->calls);
    s->ops = (struct atoll_provider_ops){
        .name = p->ops->name,
        .caps = caps,
        .missing_limits = missing_limits,
        .create = create,
        .cancel = cancel,
        .dial = dial,
        .look = look,
        .list = list,
        .adopt = adopt,
        .destroy = destroy,
        .pause = p->ops->pause ? pause_it : NULL,
        .resume = p->ops->resume ? resume : NULL,
        .set_limits = p->ops->set_limits ? set_limits : NULL,
        .stats = p->ops->stats ? stats : NULL,
        .build = p->ops->build ? build : NULL,
        .cancel_build = p->ops->build ? cancel_build : NULL,
        .snapshot = p->ops->snapshot ? snapshot : NULL,
        .drop_image = p->ops->drop_image ? drop_image : NULL,
        .list_volumes = p->ops->list_volumes ? list_volumes : NULL,
        .drop_volume = p->ops->drop_volume ? drop_volume : NULL,
        .health = health,
        .public_host = p->ops->public_host ? public_host : NULL,
        .free = sync_free,
    };
    s->base.ops = &s->ops;
    *ret = &s->base;
    return 0;
}
