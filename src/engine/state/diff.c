#include "engine/state/diff.h"

#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/state/capture.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint.h"
#include "engine/state/compare.h"
#include "sandbox/stack.h"

/*
 * What has changed between two moments of a sandbox. Each moment is a stack of layers; that of now is made for the
 * request and removed after it.
 */

struct diff {
    struct atoll_engine *engine;
    struct atoll_list node; /* in engine->diffs */
    char sandbox_id[ATOLL_ID_LEN + 1];
    char tenant[65];
    char *from, *to; /* stacks, held; owned, or NULL */
    char *below;     /* owned, or NULL */
    bool patch;
    uint32_t lines;
    atoll_diff_fn *done;
    void *arg;
};

static void diff_free(struct diff *d)
{
    atoll_list_remove(&d->node);
    if (d->from)
        atoll_layers_release(d->engine, d->from);
    if (d->to)
        atoll_layers_release(d->engine, d->to);
    free(d->from);
    free(d->to);
    free(d->below);
    free(d);
}

static void end(struct diff *d, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    d->done(d->arg, bytes, n, error);
    diff_free(d);
}

static void fail(struct diff *d, const struct atoll_error *error)
{
    end(d, NULL, 0, error);
}

static int hold(struct diff *d, const char *stack, char **ret, struct atoll_error *err)
{
    int r = atoll_layers_hold(d->engine, stack, err);

    if (r < 0)
        return r;
    *ret = strdup(stack);
    if (!*ret)
        abort(); /* the daemon is crash-only */
    return 0;
}

static int version_stack(const struct atoll_version *v, const char **ret, struct atoll_error *err)
{
    if (v->kind == ATOLL_TEMPLATE_IMAGE)
        return atoll_fail(
            err, ATOLL_ERR_UNIMPLEMENTED, ENOTSUP,
            "template %.64s is an image of provider %s, whose files cannot be compared",
            v->tmpl->name, v->provider);
    *ret = *v->layers ? v->layers : ATOLL_STACK_HOST;
    return 0;
}

static bool is_now(const char *moment)
{
    return moment && strcmp(moment, ATOLL_MOMENT_NOW) == 0;
}

static int find_checkpoint(struct atoll_sandbox *s, const char *text, const char **ret_stack,
                           struct atoll_error *err)
{
    uint64_t number;
    const char *stack = NULL;

    if (atoll_text_u64(text, 0, INT64_MAX, &number) == 0)
        stack = atoll_checkpoint_stack(s, number);
    if (!stack)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "sandbox %s has no checkpoint %.20s (any more); see its history",
                          s->spec.id, text);
    *ret_stack = stack;
    return 0;
}

int atoll_moment_find(struct atoll_sandbox *s, const char *moment, const char **ret_stack,
                      struct atoll_error *err)
{
    struct atoll_version *v = s->version;

    if (moment && *moment && moment[strspn(moment, "0123456789")] == '\0' && s->checkpoints)
        return find_checkpoint(s, moment, ret_stack, err);
    if (moment && strcmp(moment, ATOLL_MOMENT_START) != 0)
        v = atoll_version_resolve(s->engine, s->spec.tenant, moment, err);
    return v ? version_stack(v, ret_stack, err) : -ENOENT;
}

/* Not now: that is captured last, since it costs most. */
static int hold_moment(struct diff *d, struct atoll_sandbox *s, const char *moment, char **ret,
                       struct atoll_error *err)
{
    const char *stack;
    int r = is_now(moment) ? 0 : atoll_moment_find(s, moment, &stack, err);

    return r < 0 || is_now(moment) ? r : hold(d, stack, ret, err);
}

static void on_compared(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    end(arg, bytes, n, error);
}

static void compare(struct diff *d)
{
    const struct atoll_comparison comparison = {.tenant = d->tenant,
                                                .from = d->from,
                                                .to = d->to,
                                                .patch = d->patch,
                                                .below = d->below,
                                                .lines = d->lines};

    atoll_compare(d->engine, &comparison, on_compared, d);
}

static void on_captured(void *arg, const char *stack,
                        const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct diff *d = arg;
    struct atoll_error err;
    int r = 0;

    if (!error && !d->from)
        r = hold(d, stack, &d->from, &err);
    if (!error && r == 0 && !d->to)
        r = hold(d, stack, &d->to, &err);
    if (error || r < 0)
        fail(d, error ? error : &err);
    else
        compare(d);
}

static void on_turn(void *arg, const struct atoll_error *error)
{
    struct diff *d = arg;
    struct atoll_sandbox *s = atoll_map_get(&d->engine->sandboxes, d->sandbox_id);
    struct atoll_error err;

    if (!error && atoll_capture_check(s, &err) < 0)
        error = &err;
    if (error)
        fail(d, error);
    else
        atoll_capture_layer(s, "diff", on_captured, d);
}

static int check(struct atoll_engine *engine, const char *sandbox_id, struct atoll_sandbox **ret,
                 struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s",
                          sandbox_id);
    if (!s->provider->ops->caps(s->provider)->snapshot_layers)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOTSUP,
                          "provider %s has no layers that could be compared",
                          s->provider->ops->name);
    *ret = s;
    return 0;
}

static struct diff *diff_new(struct atoll_sandbox *s, const struct atoll_diff_request *q)
{
    struct diff *d = atoll_alloc(sizeof(*d));

    *d = (struct diff){.engine = s->engine,
                       .patch = q->patch,
                       .lines = q->lines,
                       .below = q->below ? strdup(q->below) : NULL};
    memcpy(d->sandbox_id, s->spec.id, sizeof(d->sandbox_id));
    memcpy(d->tenant, s->spec.tenant, sizeof(d->tenant));
    atoll_list_push_back(&s->engine->diffs, &d->node);
    return d;
}

void atoll_engine_diff(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_diff_request *request, atoll_diff_fn *done, void *arg)
{
    struct atoll_diff_request q = *request;
    struct atoll_sandbox *s = NULL;
    struct atoll_error err;
    struct diff *d;

    q.to = q.to ? q.to : ATOLL_MOMENT_NOW;
    if (check(engine, sandbox_id, &s, &err) < 0) {
        done(arg, NULL, 0, &err);
        return;
    }
    d = diff_new(s, &q);
    d->done = done;
    d->arg = arg;
    if (hold_moment(d, s, q.from, &d->from, &err) < 0 || hold_moment(d, s, q.to, &d->to, &err) < 0)
        fail(d, &err);
    else if (d->from && d->to)
        compare(d);
    else
        atoll_capture_await(s, arg, on_turn, d);
}

void atoll_diffs_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->diffs, node)
        diff_free(ATOLL_CONTAINER_OF(node, struct diff, node));
}
