#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/state/capture.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint.h"
#include "engine/template/start.h"
#include "engine/template/unpack.h"
#include "sandbox/stack.h"

/*
 * Undo: a restore to a checkpoint. A checkpoint that was made after an undo has one layer more than the one
 * before it, so a sandbox could use up the layers that a stack may have. If the sandbox would have more of
 * its own than OWN_MAX, they become one layer first (unpack/squash.h), of at most ATOLL_CHECKPOINT_BYTES.
 * Until the restore begins the sandbox goes on as it is, and if the daemon dies it stays so: the next one
 * removes a layer without users.
 */

/* Few enough that a comparison of three stacks finds room (ATOLL_TREES_MAX) that have only the template in
 * common: a fork as it began, the fork, and a sandbox that has become one layer. */
#define OWN_MAX 8

struct undoing {
    struct atoll_list node; /* in engine->undos while its layers become one */
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    uint32_t count; /* of commands */
    uint64_t from;  /* number of the first command that is undone */
    uint64_t next;  /* number of the next command, when its turn came */
    uint64_t bytes; /* of the checkpoint that it goes back to */
    char *stack;    /* that of the checkpoint, held; owned; NULL: it is restored as it is */
    size_t below;   /* bytes of `stack` that are the template */
    char *made;     /* with one layer in place of its own; owned, or NULL */
    char layer[ATOLL_LAYER_NAME_MAX + 1]; /* that layer, held; "": none */
    bool force;
    atoll_undo_fn *done;
    void *arg;
};

static void undoing_free(struct undoing *u)
{
    atoll_list_remove(&u->node);
    free(u->stack);
    free(u->made);
    free(u);
}

static void end(struct undoing *u, const struct atoll_error *error)
{
    atoll_metric_add(ATOLL_METRIC_UNDOS, ATOLL_LABELS(error ? "failed" : "done"), 1);
    u->done(u->arg, u->from - 1, error);
    undoing_free(u);
}

static void on_restored(void *arg, const struct atoll_error *error)
{
    struct undoing *u = arg;
    struct atoll_sandbox *s = atoll_engine_find(u->engine, u->sandbox_id);
    struct atoll_error err;

    if (!error && s && s->checkpoints && atoll_checkpoints_drop(s, u->from, &err) < 0)
        error = &err;
    if (!error && s && s->checkpoints)
        atoll_checkpoints_restored(s, u->bytes);
    end(u, error);
}

/* Interpreters that run no code, shells that wait for a command and the start command of the template do not hinder an undo. */
static bool is_busy(const struct atoll_exec *x)
{
    return !x->ended && (x->checkpoint != 0 || !(x->resting || atoll_start_made(x)));
}

static int check_idle(const struct atoll_sandbox *s, bool force, struct atoll_error *err)
{
    size_t running = 0;

    if (s->snapping || s->checkpoints->is_capturing || s->checkpoints->is_queued)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "a command of sandbox %s was started or has ended meanwhile; try again",
                          s->spec.id);
    ATOLL_LIST_FOREACH (&s->exec_list, node)
        running += is_busy(ATOLL_CONTAINER_OF(node, struct atoll_exec, node));
    if (running == 0 || force)
        return 0;
    return atoll_fail(
        err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
        "%zu command%s in sandbox %s; with \"force\": true (--force) what runs is ended", running,
        running == 1 ? " runs" : "s run", s->spec.id);
}

/* The sandbox can be restored now. */
static int check(struct atoll_engine *engine, const char *id, bool force,
                 struct atoll_sandbox **ret, struct atoll_error *err)
{
    struct atoll_sandbox *running;
    int r = atoll_history_find(engine, id, ret, err);

    if (r == 0)
        r = atoll_engine_running(engine, id, &running, err);
    return r < 0 ? r : check_idle(*ret, force, err);
}

/* The count-th command from the end, and the files before it. */
static int find_target(struct atoll_sandbox *s, uint32_t count, struct atoll_checkpoint **ret,
                       const struct atoll_kept **ret_files, struct atoll_error *err)
{
    struct atoll_list *node = &s->checkpoints->commands;
    const struct atoll_checkpoint *earlier;
    struct atoll_checkpoint *p;

    if (count > s->checkpoints->count)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ERANGE,
                          "sandbox %s has a history of %zu command%s", s->spec.id,
                          s->checkpoints->count, s->checkpoints->count == 1 ? "" : "s");
    while (count-- > 0)
        node = node->prev;
    p = *ret = ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
    earlier = atoll_checkpoint_find(s, p->number - 1);
    *ret_files = p->before.stack || !earlier ? &p->before : &earlier->after;
    if ((*ret_files)->stack)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                      "the files before command %llu are not kept any more; see the history",
                      (unsigned long long)p->number);
}

/* The layers above the template of the sandbox: the rest of the stack, or "" if it is on something else. */
static const char *own_layers(const struct atoll_sandbox *s, const char *stack)
{
    const char *below =
        s->version->kind == ATOLL_TEMPLATE_HOST ? ATOLL_STACK_HOST : s->version->layers;
    size_t n = below ? strlen(below) : 0;

    return n > 0 && strncmp(stack, below, n) == 0 && stack[n] == ' ' ? stack + n + 1 : "";
}

static int check_unchanged(struct undoing *u, struct atoll_sandbox **ret, struct atoll_error *err)
{
    int r = check(u->engine, u->sandbox_id, u->force, ret, err);

    if (r == 0 && u->engine->ending)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    if (r == 0 && (*ret)->checkpoints->next != u->next)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                       "another command of sandbox %s was started or undone meanwhile; try again",
                       u->sandbox_id);
    return r;
}

/* The sandbox is free again after its layers have become one. */
static void on_free(void *arg, const struct atoll_error *error)
{
    struct undoing *u = arg;
    struct atoll_engine *engine = u->engine;
    ATOLL_AUTOFREE char *was = ATOLL_TAKE_PTR(u->stack);
    ATOLL_AUTOFREE char *made = ATOLL_TAKE_PTR(u->made);
    char layer[sizeof(u->layer)];
    struct atoll_sandbox *s;
    struct atoll_error err;

    memcpy(layer, u->layer, sizeof(layer));
    if (!error && check_unchanged(u, &s, &err) < 0)
        error = &err;
    if (error)
        end(u, error);
    else
        atoll_restore_stack(s, made, "undo", on_restored, u); /* holds its layers */
    if (*layer)
        atoll_layer_release(engine, layer);
    atoll_layers_release(engine, was);
}

/* The stack with the new layer in the place of those that it was made of. */
static void on_squashed(void *arg, const struct atoll_unpacked *made,
                        const struct atoll_error *error)
{
    struct undoing *u = arg;
    struct atoll_sandbox *s;
    struct atoll_error err;
    char stack[ATOLL_STACK_CAP];

    atoll_list_remove(&u->node);
    (void)snprintf(stack, sizeof(stack), "%s", u->stack);
    if (error) {
        atoll_log(ATOLL_LOG_WARN, "layers cannot be made one; the undo keeps them", "sandbox",
                  u->sandbox_id, "error", error->text, NULL);
    } else {
        (void)snprintf(u->layer, sizeof(u->layer), "%s", made->layer);
        (void)snprintf(stack, sizeof(stack), "%.*s%s%s", (int)u->below, u->stack,
                       *u->layer ? " " : "", u->layer);
        u->bytes = made->bytes;
    }
    u->made = strdup(stack);
    if (!u->made)
        abort(); /* the daemon is crash-only */
    if (atoll_history_find(u->engine, u->sandbox_id, &s, &err) < 0)
        on_free(u, &err);
    else
        atoll_capture_await(s, NULL, on_free, u);
}

static void squash(struct undoing *u, const char *stack, const char *own)
{
    struct atoll_error err;

    if (atoll_layers_hold(u->engine, stack, &err) < 0) {
        end(u, &err);
        return;
    }
    u->stack = strdup(stack);
    if (!u->stack)
        abort(); /* the daemon is crash-only */
    u->below = (size_t)(own - stack) - 1;
    atoll_list_push_back(&u->engine->undos, &u->node);
    atoll_unpack_squash(u->engine, u->stack + u->below + 1, ATOLL_CHECKPOINT_BYTES, on_squashed, u);
}

static void on_turn(void *arg, const struct atoll_error *error)
{
    struct undoing *u = arg;
    struct atoll_sandbox *s;
    struct atoll_checkpoint *p = NULL;
    const struct atoll_kept *files = NULL;
    struct atoll_error err;
    const char *own;

    if (!error && (check(u->engine, u->sandbox_id, u->force, &s, &err) < 0 ||
                   find_target(s, u->count, &p, &files, &err) < 0))
        error = &err;
    if (error) {
        u->done(u->arg, 0, error);
        undoing_free(u);
        return;
    }
    u->from = p->number;
    u->next = s->checkpoints->next;
    u->bytes = files->bytes;
    own = own_layers(s, files->stack);
    if (atoll_stack_count(own) > OWN_MAX)
        squash(u, files->stack, own);
    else
        atoll_restore_stack(s, files->stack, "undo", on_restored, u);
}

void atoll_engine_undo(struct atoll_engine *engine, const char *sandbox_id, uint32_t count,
                       bool force, atoll_undo_fn *done, void *arg)
{
    struct atoll_sandbox *s;
    struct undoing *u;
    struct atoll_error err;

    if (atoll_history_find(engine, sandbox_id, &s, &err) < 0) {
        done(arg, 0, &err);
        return;
    }
    u = atoll_alloc(sizeof(*u));
    *u = (struct undoing){
        .engine = engine, .count = count, .force = force, .done = done, .arg = arg};
    memcpy(u->sandbox_id, s->spec.id, sizeof(u->sandbox_id));
    atoll_capture_await(s, arg, on_turn, u);
}

void atoll_undos_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->undos, node)
        undoing_free(ATOLL_CONTAINER_OF(node, struct undoing, node));
}
