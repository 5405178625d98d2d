#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint.h"
#include "engine/state/state.h"
#include "engine/template/start.h"
#include "sandbox/spec_layers.h"
#include "sandbox/stack.h"

/*
 * Restores. The row gets the new stack and the state "restoring" before any process is ended: before
 * that write the sandbox is as it was, after it the next daemon completes the restore (recovery.c).
 * Then it is as for a lost sandbox that is made again (recreate.c).
 */

struct restoring {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    atoll_done_fn *done;
    void *arg;
};

static int check_version(const struct atoll_sandbox *s, const struct atoll_version *v,
                         struct atoll_error *err)
{
    const char *provider = s->provider->ops->name;

    if (v->kind == ATOLL_TEMPLATE_IMAGE ? strcmp(v->provider, provider) == 0
                                        : s->provider->ops->caps(s->provider)->stacks)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                      "sandbox %s is at provider %s, which cannot run template %.64s", s->spec.id,
                      provider, v->tmpl->name);
}

static int check(struct atoll_sandbox *s, const char *reference, struct atoll_version **ret_version,
                 struct atoll_error *err)
{
    struct atoll_engine *engine = s->engine;
    struct atoll_sandbox *running;
    int r = atoll_engine_running(engine, s->spec.id, &running, err);

    if (r < 0)
        return r;
    *ret_version = atoll_version_resolve(engine, s->spec.tenant, reference, err);
    if (!*ret_version)
        return -ENOENT;
    r = check_version(s, *ret_version, err);
    return r < 0 ? r : atoll_room_admit(engine, err);
}

/* What decides about the root of a sandbox. */
struct root {
    struct atoll_version *version;
    enum atoll_template_kind kind;
    char layer[sizeof(((struct atoll_spec *)0)->layer)];
    char image[sizeof(((struct atoll_spec *)0)->image)];
    uint32_t layer_base;
    const char *layers;
};

static struct root get_root(const struct atoll_sandbox *s)
{
    struct root r = {.version = s->version,
                     .kind = s->spec.template_kind,
                     .layer_base = s->spec.layer_base,
                     .layers = s->spec.layers};

    memcpy(r.layer, s->spec.layer, sizeof(r.layer));
    memcpy(r.image, s->spec.image, sizeof(r.image));
    return r;
}

static void set_root(struct atoll_sandbox *s, const struct root *r)
{
    s->version = r->version;
    s->spec.template_kind = r->kind;
    s->spec.layer_base = r->layer_base;
    s->spec.layers = r->layers;
    memcpy(s->spec.layer, r->layer, sizeof(r->layer));
    memcpy(s->spec.image, r->image, sizeof(r->image));
}

static const char *stack_of(const struct root *r)
{
    return r->layers && *r->layers ? r->layers : r->layer;
}

static struct root root_of(struct atoll_version *v)
{
    bool is_image = v->kind == ATOLL_TEMPLATE_IMAGE;
    struct root r = {.version = v, .kind = v->kind, .layer_base = v->layer_base};

    r.layers = strdup(is_image ? "" : v->layers);
    if (!r.layers)
        abort(); /* the daemon is crash-only */
    if (is_image)
        memcpy(r.image, v->image, sizeof(v->image));
    return r;
}

/* Another stack on the same version. */
static struct root root_of_stack(const struct atoll_sandbox *s, const char *stack)
{
    bool is_host = strcmp(stack, ATOLL_STACK_HOST) == 0;
    struct root r = {.version = s->version,
                     .kind = is_host ? ATOLL_TEMPLATE_HOST : ATOLL_TEMPLATE_ROOTFS,
                     .layer_base = is_host ? s->version->layer_base : ATOLL_LAYER_BASE};

    r.layers = strdup(is_host ? "" : stack);
    if (!r.layers)
        abort();
    return r;
}

/* The sandbox gets the new root, and its row says so. */
static int begin(struct atoll_sandbox *s, struct root is, struct atoll_error *err)
{
    struct atoll_engine *engine = s->engine;
    struct root was = get_root(s);
    int r = atoll_layers_hold(engine, stack_of(&is), err);

    if (r == 0) {
        set_root(s, &is);
        r = atoll_sandbox_apply_stored(s, ATOLL_ON_RESTORE, err);
        if (r < 0) {
            set_root(s, &was);
            atoll_sandbox_apply(s, ATOLL_ON_NOT_RESTORED, NULL);
            atoll_layers_release(engine, stack_of(&is));
        }
    }
    if (r < 0) {
        free((void *)(uintptr_t)is.layers);
        return r;
    }
    /* Overlayfs of the old root loses layers that only it had; its processes are ended anyway. */
    atoll_layers_release(engine, stack_of(&was));
    free((void *)(uintptr_t)was.layers);
    return 0;
}

static void end(struct restoring *p, const struct atoll_error *error)
{
    atoll_metric_add(ATOLL_METRIC_RESTORES, ATOLL_LABELS(error ? "failed" : "done"), 1);
    p->done(p->arg, error);
    free(p);
}

static void on_started(void *arg, const struct atoll_error *error)
{
    end(arg, error);
}

static void on_running(void *arg, const struct atoll_error *error)
{
    struct restoring *p = arg;
    const struct atoll_sandbox *s = atoll_engine_find(p->engine, p->sandbox_id);
    struct atoll_start_commands commands = {.ready_ms = ATOLL_READY_CREATE_MS};

    if (!error && s && !s->options.without_start) {
        commands.start = s->version->start_cmd;
        commands.ready = s->version->ready_cmd;
    }
    if (error || !commands.start || !*commands.start)
        end(p, error);
    else
        atoll_start_run(p->engine, p->sandbox_id, &commands, on_started, p);
}

/* Takes the root. */
static void restore(struct atoll_sandbox *s, struct root root, const char *who, atoll_done_fn *done,
                    void *arg)
{
    struct restoring *p;
    struct atoll_error err;

    if (begin(s, root, &err) < 0) {
        atoll_env_unkeep(s);
        done(arg, &err);
        return;
    }
    atoll_checkpoints_empty_disk(s);
    p = atoll_alloc(sizeof(*p));
    *p = (struct restoring){.engine = s->engine, .done = done, .arg = arg};
    memcpy(p->sandbox_id, s->spec.id, sizeof(p->sandbox_id));
    atoll_lifetime_settle(s);
    atoll_sandbox_end_reattach(s);
    atoll_waiters_add(&s->resumers, on_running, p);
    s->candidates = (struct atoll_candidates){0}; /* it stays where it is */
    s->removing = true;
    atoll_exec_end_all(s, ATOLL_END_KILLED_BY, who);
    atoll_sandbox_make_again(s, "the sandbox is being restored", true);
}

/* A restore that waits for its turn. */
struct asked {
    struct atoll_sandbox *sandbox;
    char *reference; /* owned */
    const char *who;
    bool has_waited; /* for the checkpoint of a command that had ended */
    atoll_done_fn *done;
    void *arg;
};

static void on_turn(void *arg, const struct atoll_error *error)
{
    struct asked *a = arg;
    struct atoll_sandbox *s = a->sandbox; /* not freed before this callback */
    struct atoll_version *v = NULL;
    struct atoll_error err;

    /* Once: commands that end again and again do not delay it without end. */
    if (!error && !a->has_waited && atoll_checkpoints_await_end(s)) {
        a->has_waited = true;
        atoll_capture_await(s, a->arg, on_turn, a);
        return;
    }
    if (!error && (check(s, a->reference, &v, &err) < 0 || atoll_env_keep(s, &err) < 0))
        error = &err;
    if (error)
        a->done(a->arg, error);
    else
        restore(s, root_of(v), a->who, a->done, a->arg);
    free(a->reference);
    free(a);
}

void atoll_engine_restore(struct atoll_engine *engine, const char *sandbox_id,
                          const char *reference, const char *who, atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s;
    struct atoll_error err;
    struct asked *a;

    if (atoll_engine_running(engine, sandbox_id, &s, &err) < 0) {
        done(arg, &err);
        return;
    }
    a = atoll_alloc(sizeof(*a));
    *a = (struct asked){.sandbox = s, .who = who, .done = done, .arg = arg};
    a->reference = strdup(reference);
    if (!a->reference)
        abort(); /* the daemon is crash-only */
    atoll_capture_await(s, arg, on_turn, a);
}

void atoll_restore_stack(struct atoll_sandbox *s, const char *stack, const char *who,
                         atoll_done_fn *done, void *arg)
{
    struct atoll_error err;

    if (atoll_room_admit(s->engine, &err) < 0 || atoll_env_keep(s, &err) < 0)
        done(arg, &err);
    else
        restore(s, root_of_stack(s, stack), who, done, arg);
}
