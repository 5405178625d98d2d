#include "engine/volume/opened.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/engine_internal.h"

#define WHO "the daemon, because requests no longer use the files of its volume"

/* A volume whose sandbox exists or is being made. It outlives its place in the list while uses refer to it. */
struct opened {
    struct atoll_engine *engine; /* NULL after the engine was freed */
    struct atoll_list node;      /* in engine->volumes; not in it: closed */
    char tenant[65], name[65], provider[65];
    enum atoll_volume_entry entry;
    uint64_t size_bytes;
    bool found; /* a provider has it */
    bool ready;
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_list waiting; /* of struct atoll_volume_use, until it is ready */
    unsigned uses;
    struct atoll_timer idle;
};

struct atoll_volume_use {
    struct opened *volume;
    struct atoll_list node; /* in volume->waiting */
    atoll_volume_fn *done;
    void *arg;
};

static void opened_free_unused(struct opened *v)
{
    if (!v->node.next && v->uses == 0) {
        atoll_timer_cancel(&v->idle);
        free(v);
    }
}

static void measure(const struct atoll_engine *engine)
{
    size_t count = 0;

    ATOLL_LIST_FOREACH (&engine->volumes, node)
        count++;
    atoll_metric_set(ATOLL_METRIC_VOLUMES_OPEN, ATOLL_NO_LABELS, (double)count);
}

static void unlink_volume(struct opened *v)
{
    atoll_list_remove(&v->node);
    atoll_timer_cancel(&v->idle);
    measure(v->engine);
}

static struct atoll_sandbox *sandbox_of(const struct opened *v)
{
    return v->engine && *v->sandbox_id ? atoll_map_get(&v->engine->sandboxes, v->sandbox_id) : NULL;
}

/* Takes it out of the list; its sandbox goes. */
static void shut(struct opened *v, atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = sandbox_of(v);

    unlink_volume(v);
    opened_free_unused(v);
    if (s)
        atoll_sandbox_destroy(s, WHO, done, arg);
    else if (done)
        done(arg, NULL);
}

static void on_idle(void *arg)
{
    shut(arg, NULL, NULL);
}

/* Finds it; one whose sandbox has ended is not open any more. */
static struct opened *find(struct atoll_engine *engine, const char *tenant, const char *name)
{
    ATOLL_LIST_FOREACH (&engine->volumes, node) {
        struct opened *v = ATOLL_CONTAINER_OF(node, struct opened, node);
        const struct atoll_sandbox *s = sandbox_of(v);

        if (strcmp(v->name, name) != 0 || strcmp(v->tenant, tenant) != 0)
            continue;
        if (!v->ready || (s && s->phase == ATOLL_PHASE_RUNNING))
            return v;
        shut(v, NULL, NULL);
        return NULL;
    }
    return NULL;
}

/* Making its sandbox. */

static void conclude(struct opened *v, const struct atoll_error *error)
{
    struct atoll_list *first;

    v->uses++; /* stays valid until the end of this function */
    if (error)
        unlink_volume(v);
    while ((first = v->waiting.next) != &v->waiting) {
        struct atoll_volume_use *use = ATOLL_CONTAINER_OF(first, struct atoll_volume_use, node);

        atoll_list_remove(&use->node);
        if (error) {
            use->done(use->arg, NULL, error);
            v->uses--;
            free(use);
        } else {
            use->done(use->arg, use, NULL);
        }
    }
    v->uses--;
    if (!error && v->uses == 0 && v->node.next)
        atoll_timer_set(&v->idle, v->engine->loop, ATOLL_VOLUME_IDLE_MS, on_idle, v);
    opened_free_unused(v);
}

static void on_made(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct opened *v = arg;

    if (!s)
        v->sandbox_id[0] = '\0';
    v->ready = !error;
    conclude(v, error);
}

static bool has_volumes(const struct atoll_provider_caps *caps)
{
    return caps->volumes;
}

/* Sandboxes of the host template are made by the builder entry only. */
static int check_provider(struct opened *v, struct atoll_error *err)
{
    const struct atoll_provider_entry *entry = atoll_provider_entry_for(
        v->engine, *v->provider ? v->provider : NULL, has_volumes, "keep volumes", err);

    if (!entry)
        return -EINVAL;
    if (entry == v->engine->builder)
        return 0;
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "the files of volumes of provider %s are reached in a sandbox that mounts "
                      "them",
                      entry->provider->ops->name);
}

static struct atoll_sandbox *prepare(struct opened *v, struct atoll_error *err)
{
    struct atoll_engine *engine = v->engine;
    struct atoll_spec spec = {.limits = atoll_limits_default(),
                              .template_kind = ATOLL_TEMPLATE_HOST,
                              .volume_bytes = v->size_bytes};
    struct atoll_mount mount = {.path = ATOLL_VOLUME_ROOT};
    const struct atoll_options options = {.mounts = &mount, .mount_count = 1};
    struct atoll_sandbox *s;

    if (check_provider(v, err) < 0 || atoll_room_admit(engine, err) < 0)
        return NULL;
    memcpy(mount.volume, v->name, sizeof(mount.volume));
    memcpy(spec.tenant, v->tenant, sizeof(spec.tenant));
    spec.waived = atoll_place_missing_limits(engine->builder->provider, &spec);
    s = atoll_sandbox_prepare(engine, &spec, engine->template_tables.host);
    if (!s) {
        (void)atoll_fail_errno(err, ENOMEM, "sandbox of a volume");
        return NULL;
    }
    s->hidden = true;
    if (atoll_options_dup(&s->options, &options, err) < 0) {
        atoll_sandbox_discard(s);
        return NULL;
    }
    return s;
}

static void on_each(void *arg, const struct atoll_volume_view *view)
{
    struct opened *v = arg;

    if (v->found || strcmp(view->name, v->name) != 0)
        return;
    v->found = true;
    (void)!atoll_text_copy(v->provider, sizeof(v->provider), view->provider);
}

static int check_found(const struct opened *v, struct atoll_error *err)
{
    if (v->entry == ATOLL_VOLUME_NEW && v->found)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "volume %s exists already",
                          v->name);
    if (v->entry == ATOLL_VOLUME_EXISTING && !v->found)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %s", v->name);
    return 0;
}

static void on_listed(void *arg, const struct atoll_error *error)
{
    struct opened *v = arg;
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;

    if (!error && check_found(v, &err) < 0)
        error = &err;
    if (!error && !(s = prepare(v, &err)))
        error = &err;
    if (error) {
        conclude(v, error);
        return;
    }
    memcpy(v->sandbox_id, s->spec.id, sizeof(v->sandbox_id));
    atoll_sandbox_launch(s, on_made, v);
}

/* Entering. */

/* Closes a volume that no request uses, of the tenant if one is given. */
static bool close_idle(struct atoll_engine *engine, const char *tenant)
{
    ATOLL_LIST_FOREACH (&engine->volumes, node) {
        struct opened *v = ATOLL_CONTAINER_OF(node, struct opened, node);

        if (v->ready && v->uses == 0 && (!tenant || strcmp(v->tenant, tenant) == 0)) {
            shut(v, NULL, NULL);
            return true;
        }
    }
    return false;
}

static int make_room(struct atoll_engine *engine, const char *tenant, struct atoll_error *err)
{
    unsigned all = 0, own = 0;

    ATOLL_LIST_FOREACH (&engine->volumes, node) {
        all++;
        own += strcmp(ATOLL_CONTAINER_OF(node, struct opened, node)->tenant, tenant) == 0;
    }
    if ((own < ATOLL_VOLUMES_OPEN_TENANT || close_idle(engine, tenant)) &&
        (all < ATOLL_VOLUMES_OPEN || close_idle(engine, NULL)))
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "requests use the files of %u volumes at the same time; try again when one "
                      "has ended",
                      own < ATOLL_VOLUMES_OPEN_TENANT ? all : own);
}

static struct opened *opened_new(struct atoll_engine *engine,
                                 const struct atoll_volume_request *request)
{
    struct opened *v = atoll_alloc(sizeof(*v));

    *v = (struct opened){
        .engine = engine, .entry = request->entry, .size_bytes = request->size_bytes};
    (void)!atoll_text_copy(v->tenant, sizeof(v->tenant), request->tenant);
    (void)!atoll_text_copy(v->name, sizeof(v->name), request->name);
    (void)!atoll_text_copy(v->provider, sizeof(v->provider),
                           request->provider ? request->provider : "");
    atoll_list_init(&v->waiting);
    atoll_list_push_back(&engine->volumes, &v->node);
    measure(engine);
    return v;
}

static int check_request(struct atoll_engine *engine, const struct atoll_volume_request *request,
                         struct atoll_error *err)
{
    if (engine->ending)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (strlen(request->name) > 64 || !atoll_text_is_name(request->name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"%.64s\" is not a volume name: letters, digits, . _ - only",
                          request->name);
    return 0;
}

void atoll_volume_enter(struct atoll_engine *engine, const struct atoll_volume_request *request,
                        atoll_volume_fn *done, void *arg)
{
    struct atoll_volume_use *use;
    struct opened *v = NULL;
    struct atoll_error err;
    bool is_new = false;
    int r = check_request(engine, request, &err);

    if (r == 0)
        v = find(engine, request->tenant, request->name);
    if (v && request->entry == ATOLL_VOLUME_NEW)
        r = atoll_fail(&err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "volume %s exists already", v->name);
    if (r == 0 && !v && (r = make_room(engine, request->tenant, &err)) == 0) {
        v = opened_new(engine, request);
        is_new = true;
    }
    if (r < 0) {
        done(arg, NULL, &err);
        return;
    }
    use = atoll_alloc(sizeof(*use));
    *use = (struct atoll_volume_use){.volume = v, .done = done, .arg = arg};
    v->uses++;
    atoll_timer_cancel(&v->idle);
    if (v->ready) {
        done(arg, use, NULL);
        return;
    }
    atoll_list_push_back(&v->waiting, &use->node);
    if (is_new)
        atoll_volumes_list(engine, v->tenant, request->provider, on_each, on_listed, v);
}

const char *atoll_volume_sandbox(const struct atoll_volume_use *use)
{
    return use->volume->sandbox_id;
}

int atoll_volume_path(const char *path, char *out, size_t cap, struct atoll_error *err)
{
    for (const char *p = path; *p; p += strcspn(p, "/"), p += strspn(p, "/"))
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "a path in a volume cannot have \"..\"");
    if ((size_t)snprintf(out, cap, ATOLL_VOLUME_ROOT "/%s", path + strspn(path, "/")) >= cap)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    return 0;
}

const char *atoll_volume_shown(const char *path)
{
    static const size_t n = sizeof(ATOLL_VOLUME_ROOT) - 1;

    if (strncmp(path, ATOLL_VOLUME_ROOT, n) != 0 || (path[n] && path[n] != '/'))
        return path;
    return path[n] ? path + n : "/";
}

const char *atoll_volume_name(const struct atoll_volume_use *use)
{
    return use->volume->name;
}

void atoll_volume_leave(struct atoll_volume_use *use)
{
    struct opened *v = use ? use->volume : NULL;

    if (!use)
        return;
    free(use);
    if (--v->uses == 0 && v->node.next && v->ready)
        atoll_timer_set(&v->idle, v->engine->loop, ATOLL_VOLUME_IDLE_MS, on_idle, v);
    opened_free_unused(v);
}

void atoll_volume_close(struct atoll_engine *engine, const char *tenant, const char *name,
                        atoll_done_fn *done, void *arg)
{
    struct opened *v = find(engine, tenant, name);
    struct atoll_error err;

    if (!v) {
        done(arg, NULL);
    } else if (v->uses > 0) {
        (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                         "a request uses the files of volume %s", name);
        done(arg, &err);
    } else {
        shut(v, done, arg);
    }
}

void atoll_volumes_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->volumes, node) {
        struct opened *v = ATOLL_CONTAINER_OF(node, struct opened, node);

        unlink_volume(v);
        v->engine = NULL;
        ATOLL_LIST_FOREACH (&v->waiting, waiting) {
            v->uses--;
            free(ATOLL_CONTAINER_OF(waiting, struct atoll_volume_use, node));
        }
        opened_free_unused(v);
    }
}
