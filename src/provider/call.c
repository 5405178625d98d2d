#include "provider/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The long deadline of create includes pulling an image. */
const struct atoll_op_facts atoll_op_facts[] = {
    [ATOLL_OP_CREATE] = {"create", "create sandboxes", 120000, 600000},
    [ATOLL_OP_DIAL] = {"dial", "be dialed", 10000, 20000},
    [ATOLL_OP_INSPECT] = {"look", "inspect sandboxes", 10000, 10000},
    [ATOLL_OP_LIST] = {"list", "list its sandboxes", 10000, 30000},
    [ATOLL_OP_ADOPT] = {"adopt", "adopt sandboxes", 10000, 20000},
    [ATOLL_OP_DESTROY] = {"destroy", "destroy sandboxes", 60000, 60000},
    [ATOLL_OP_STOP] = {"stop", "keep the disk of a sandbox", 30000, 0},
    [ATOLL_OP_PAUSE] = {"pause", "pause sandboxes", 30000, 60000},
    [ATOLL_OP_RESUME] = {"resume", "resume sandboxes", 30000, 60000},
    [ATOLL_OP_SET_LIMITS] = {"set_limits", "change limits of running sandboxes", 20000, 20000},
    [ATOLL_OP_STATS] = {"stats", "measure sandboxes", 0, 10000},
    [ATOLL_OP_KEEP_LAYER] = {"keep_layer", "build templates", 0, 0},
    [ATOLL_OP_DROP_LAYER] = {"drop_layer", "build templates", 10000, 0},
    [ATOLL_OP_BUILD] = {"build", "build images from a Dockerfile", 0, 3600000},
    [ATOLL_OP_SNAPSHOT] = {"snapshot", "make snapshots of sandboxes", 0, 600000},
    [ATOLL_OP_DROP_IMAGE] = {"drop_image", "remove images", 10000, 60000},
    [ATOLL_OP_LIST_VOLUMES] = {"list_volumes", "keep volumes", 0, 20000},
    [ATOLL_OP_DROP_VOLUME] = {"drop_volume", "keep volumes", 10000, 30000},
    [ATOLL_OP_HEALTH] = {"health", "be checked", 0, 10000},
};

static struct atoll_call *call_new(struct atoll_provider *p, enum atoll_op op,
                                   const struct atoll_spec *spec, void *arg)
{
    struct atoll_callee *callee = atoll_callee_of(p);
    struct atoll_call *c = calloc(1, callee->call_size);

    if (!c)
        abort(); /* a small fixed object: the daemon is crash-only */
    c->callee = callee;
    c->op = op;
    if (spec)
        c->spec = *spec;
    c->spec.metadata_json = NULL;
    c->spec.env = NULL;
    c->spec.mounts = NULL;
    c->spec.mount_count = 0;
    c->spec.login = NULL;
    c->build.context_fd = ATOLL_NO_FD;
    c->arg = arg;
    atoll_list_push_back(&callee->calls, &c->node);
    return c;
}

void atoll_call_free(struct atoll_call *c)
{
    atoll_list_remove(&c->node);
    if (c->build.context_fd >= 0)
        (void)close(c->build.context_fd);
    free(c);
}

static void begin(struct atoll_call *c)
{
    c->callee->begin(c);
}

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_CREATE, spec, arg);

    c->ret_spec = spec;
    c->done.created = done;
    begin(c);
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_ADOPT, spec, arg);

    c->done.created = done;
    begin(c);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_DIAL, spec, arg);

    c->done.dialed = done;
    begin(c);
}

static void inspect(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_inspected_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_INSPECT, spec, arg);

    c->done.inspected = done;
    begin(c);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_LIST, NULL, arg);

    c->each = each;
    c->done.plain = done;
    begin(c);
}

static void begin_plain(struct atoll_provider *p, enum atoll_op op, const struct atoll_spec *spec,
                        atoll_provider_done_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, op, spec, arg);

    c->done.plain = done;
    begin(c);
}

static void destroy(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    begin_plain(p, ATOLL_OP_DESTROY, spec, done, arg);
}

static void stop(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_done_fn *done, void *arg)
{
    begin_plain(p, ATOLL_OP_STOP, spec, done, arg);
}

static void pause_it(struct atoll_provider *p, const struct atoll_spec *spec,
                     atoll_provider_done_fn *done, void *arg)
{
    begin_plain(p, ATOLL_OP_PAUSE, spec, done, arg);
}

static void resume(struct atoll_provider *p, const struct atoll_spec *spec,
                   atoll_provider_done_fn *done, void *arg)
{
    begin_plain(p, ATOLL_OP_RESUME, spec, done, arg);
}

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_SET_LIMITS, spec, arg);

    c->limits = *limits;
    c->done.plain = done;
    begin(c);
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_STATS, spec, arg);

    c->done.stats = done;
    begin(c);
}

static void keep_layer(struct atoll_provider *p, const struct atoll_spec *spec, const char *path,
                       const char *layer, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_KEEP_LAYER, spec, arg);

    (void)snprintf(c->path, sizeof(c->path), "%s", path);
    (void)snprintf(c->layer, sizeof(c->layer), "%s", layer);
    c->done.plain = done;
    begin(c);
}

static void drop_layer(struct atoll_provider *p, const char *layer, atoll_provider_done_fn *done,
                       void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_DROP_LAYER, NULL, arg);

    (void)snprintf(c->layer, sizeof(c->layer), "%s", layer);
    c->done.plain = done;
    begin(c);
}

static struct atoll_call *image_call(struct atoll_provider *p, enum atoll_op op,
                                     const struct atoll_spec *spec, const char *image, void *arg)
{
    struct atoll_call *c = call_new(p, op, spec, arg);

    (void)snprintf(c->image, sizeof(c->image), "%s", image);
    return c;
}

static void build(struct atoll_provider *p, const struct atoll_provider_build *what,
                  atoll_provider_said_fn *said, atoll_provider_image_fn *done, void *arg)
{
    struct atoll_call *c = image_call(p, ATOLL_OP_BUILD, NULL, what->image, arg);

    (void)snprintf(c->dockerfile, sizeof(c->dockerfile), "%s", what->dockerfile);
    c->build = *what;
    c->build.image = c->image;
    c->build.dockerfile = c->dockerfile;
    c->said = said;
    c->done.image = done;
    begin(c);
}

static void snapshot(struct atoll_provider *p, const struct atoll_spec *spec, const char *image,
                     atoll_provider_image_fn *done, void *arg)
{
    struct atoll_call *c = image_call(p, ATOLL_OP_SNAPSHOT, spec, image, arg);

    c->done.image = done;
    begin(c);
}

static void drop_image(struct atoll_provider *p, const char *image, atoll_provider_done_fn *done,
                       void *arg)
{
    struct atoll_call *c = image_call(p, ATOLL_OP_DROP_IMAGE, NULL, image, arg);

    c->done.plain = done;
    begin(c);
}

static void list_volumes(struct atoll_provider *p, const char *tenant,
                         atoll_provider_volume_fn *each, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_LIST_VOLUMES, NULL, arg);

    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
    c->each_volume = each;
    c->done.plain = done;
    begin(c);
}

static void drop_volume(struct atoll_provider *p, const char *tenant, const char *name,
                        atoll_provider_done_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_DROP_VOLUME, NULL, arg);

    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
    (void)snprintf(c->volume, sizeof(c->volume), "%s", name);
    c->done.plain = done;
    begin(c);
}

static void health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct atoll_call *c = call_new(p, ATOLL_OP_HEALTH, NULL, arg);

    c->done.health = done;
    begin(c);
}

static const struct atoll_provider_ops call_ops = {
    .create = create,
    .dial = dial,
    .inspect = inspect,
    .list = list,
    .adopt = adopt,
    .destroy = destroy,
    .stop = stop,
    .pause = pause_it,
    .resume = resume,
    .set_limits = set_limits,
    .stats = stats,
    .keep_layer = keep_layer,
    .drop_layer = drop_layer,
    .build = build,
    .snapshot = snapshot,
    .drop_image = drop_image,
    .list_volumes = list_volumes,
    .drop_volume = drop_volume,
    .health = health,
};

void atoll_callee_init(struct atoll_callee *callee, const char *name, size_t call_size,
                       void (*begin_call)(struct atoll_call *call))
{
    callee->ops = call_ops;
    callee->ops.name = name;
    callee->base.ops = &callee->ops;
    callee->call_size = call_size;
    callee->begin = begin_call;
    atoll_list_init(&callee->calls);
}

void atoll_call_tell(const struct atoll_call *c, const struct atoll_call_outcome *o,
                     const struct atoll_error *error)
{
    static const struct atoll_call_outcome nothing = {.fd = ATOLL_NO_FD, .detail = ""};

    if (error)
        o = &nothing;
    switch (c->op) {
    case ATOLL_OP_CREATE:
    case ATOLL_OP_ADOPT:
        c->done.created(c->arg, o->fd, o->boot_us, error);
        break;
    case ATOLL_OP_DIAL:
        c->done.dialed(c->arg, o->fd, error);
        break;
    case ATOLL_OP_INSPECT:
        c->done.inspected(c->arg, o->inspect, error);
        break;
    case ATOLL_OP_STATS:
        c->done.stats(c->arg, o->stats, error);
        break;
    case ATOLL_OP_HEALTH:
        c->done.health(c->arg, o->detail, error);
        break;
    case ATOLL_OP_BUILD:
    case ATOLL_OP_SNAPSHOT:
        c->done.image(c->arg, o->image, error);
        break;
    default:
        c->done.plain(c->arg, error);
    }
}
