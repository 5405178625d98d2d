#include "engine/state/history.h"

#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/state/changes.h"
#include "engine/state/checkpoint.h"
#include "engine/state/compare.h"

/*
 * Requests about the commands of a sandbox. What a command changed is counted when it is asked for, one command after
 * the other, and stored.
 */

struct asking {
    struct atoll_engine *engine;
    struct atoll_list node; /* in engine->histories */
    char sandbox_id[ATOLL_ID_LEN + 1];
    size_t limit;
    uint64_t next; /* number of the command that is looked at next, downwards */
    char *path;    /* blame; owned */
    atoll_history_fn *listed;
    atoll_blame_fn *blamed;
    void *arg;
};

static void asking_free(struct asking *a)
{
    atoll_list_remove(&a->node);
    free(a->path);
    free(a);
}

static struct atoll_command_view view_of(const struct atoll_checkpoint *p)
{
    return (struct atoll_command_view){.number = p->number,
                                       .exec_id = p->exec_id,
                                       .command = p->command,
                                       .started_unix_ms = p->started_unix_ms,
                                       .shared = p->shared,
                                       .has_before = p->before.stack,
                                       .has_after = p->after.stack,
                                       .counted = p->counted,
                                       .added = p->added,
                                       .changed = p->changed,
                                       .removed = p->removed,
                                       .bytes = p->bytes};
}

int atoll_history_find(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                       struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    if (!s->checkpoints)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "sandbox %s has no checkpoints; create one with \"checkpoints\": "
                          "\"command\" (atoll create --checkpoints command)",
                          id);
    *ret = s;
    return 0;
}

static void fail(struct asking *a, const struct atoll_error *error)
{
    if (a->listed)
        a->listed(a->arg, NULL, 0, error);
    else
        a->blamed(a->arg, NULL, NULL, error);
    asking_free(a);
}

/* The next command, downwards, or NULL. */
static struct atoll_checkpoint *take_next(struct asking *a, struct atoll_sandbox *s)
{
    struct atoll_checkpoint *found = NULL;

    ATOLL_LIST_FOREACH (&s->checkpoints->commands, node) {
        struct atoll_checkpoint *p = ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
        if (p->number <= a->next)
            found = p;
    }
    a->next = found ? found->number - 1 : 0;
    return found;
}

static const char *after_of(struct atoll_sandbox *s, const struct atoll_checkpoint *p)
{
    return atoll_checkpoint_stack(s, p->number);
}

static void compare(struct asking *a, struct atoll_sandbox *s, const struct atoll_checkpoint *p,
                    atoll_compare_fn *done)
{
    const struct atoll_comparison comparison = {.tenant = s->spec.tenant,
                                                .from = p->before.stack,
                                                .to = after_of(s, p),
                                                .below = a->path,
                                                .lines = a->path ? 1 : 0};

    atoll_compare(a->engine, &comparison, done, a);
}

/* Lists. */

static void list(struct asking *a, struct atoll_sandbox *s)
{
    struct atoll_command_view *views = atoll_alloc((a->limit + 1) * sizeof(*views));
    size_t n = 0;

    for (struct atoll_list *node = s->checkpoints->commands.prev;
         node != &s->checkpoints->commands && n < a->limit; node = node->prev)
        views[n++] = view_of(ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node));
    a->listed(a->arg, views, n, NULL);
    free(views);
    asking_free(a);
}

static void take_summary(struct atoll_checkpoint *p, const uint8_t *bytes, size_t n)
{
    struct atoll_changes_summary summary;

    if (!atoll_changes_read_summary(bytes, n, &summary))
        return;
    p->counted = true;
    p->added = summary.added;
    p->changed = summary.changed;
    p->removed = summary.removed;
    p->bytes = summary.bytes;
}

static void count_next(struct asking *a);

static void on_counted(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    struct asking *a = arg;
    struct atoll_sandbox *s = atoll_engine_find(a->engine, a->sandbox_id);
    struct atoll_checkpoint *p = s ? atoll_checkpoint_find(s, a->next + 1) : NULL;

    if (p && !error) {
        take_summary(p, bytes, n);
        atoll_checkpoint_store(s, p);
    }
    count_next(a); /* one that cannot be counted is listed without numbers */
}

static bool can_count(struct atoll_sandbox *s, const struct atoll_checkpoint *p)
{
    return !p->counted && p->before.stack && after_of(s, p);
}

static void count_next(struct asking *a)
{
    struct atoll_sandbox *s;
    struct atoll_checkpoint *p;
    struct atoll_error err;

    if (atoll_history_find(a->engine, a->sandbox_id, &s, &err) < 0) {
        fail(a, &err);
        return;
    }
    while (a->next + a->limit >= s->checkpoints->next && (p = take_next(a, s)) != NULL)
        if (can_count(s, p)) {
            compare(a, s, p, on_counted);
            return;
        }
    list(a, s);
}

static struct asking *asking_new(struct atoll_sandbox *s, void *arg)
{
    struct asking *a = atoll_alloc(sizeof(*a));

    *a = (struct asking){.engine = s->engine, .next = s->checkpoints->next - 1, .arg = arg};
    memcpy(a->sandbox_id, s->spec.id, sizeof(a->sandbox_id));
    atoll_list_push_back(&s->engine->histories, &a->node);
    return a;
}

void atoll_commands_history(struct atoll_engine *engine, const char *sandbox_id, size_t limit,
                            atoll_history_fn *done, void *arg)
{
    struct atoll_sandbox *s;
    struct atoll_error err;
    struct asking *a;

    if (atoll_history_find(engine, sandbox_id, &s, &err) < 0) {
        done(arg, NULL, 0, &err);
        return;
    }
    a = asking_new(s, arg);
    a->listed = done;
    a->limit = ATOLL_MIN(limit, (size_t)ATOLL_HISTORY_LIMIT);
    count_next(a);
}

/* Blame. */

static void blame_next(struct asking *a);

static void on_blamed(void *arg, const uint8_t *bytes, size_t n, const struct atoll_error *error)
{
    struct asking *a = arg;
    struct atoll_sandbox *s = atoll_engine_find(a->engine, a->sandbox_id);
    const struct atoll_checkpoint *p = s ? atoll_checkpoint_find(s, a->next + 1) : NULL;
    struct atoll_command_view view;
    char kind[16];

    if (error) {
        fail(a, error);
        return;
    }
    if (!p || !atoll_changes_read_kind(bytes, n, kind, sizeof(kind))) {
        blame_next(a);
        return;
    }
    view = view_of(p);
    a->blamed(a->arg, &view, kind, NULL);
    asking_free(a);
}

static void blame_next(struct asking *a)
{
    struct atoll_sandbox *s;
    struct atoll_checkpoint *p;
    struct atoll_error err;

    if (atoll_history_find(a->engine, a->sandbox_id, &s, &err) < 0) {
        fail(a, &err);
        return;
    }
    while ((p = take_next(a, s)) != NULL) {
        bool nothing = p->counted && p->added + p->changed + p->removed == 0;

        if (!nothing && p->before.stack && after_of(s, p)) {
            compare(a, s, p, on_blamed);
            return;
        }
    }
    (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT,
                     "no command whose files are kept has changed %.200s", a->path);
    fail(a, &err);
}

void atoll_engine_blame(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                        atoll_blame_fn *done, void *arg)
{
    struct atoll_sandbox *s;
    struct atoll_error err;
    struct asking *a;

    if (atoll_history_find(engine, sandbox_id, &s, &err) < 0) {
        done(arg, NULL, NULL, &err);
        return;
    }
    a = asking_new(s, arg);
    a->blamed = done;
    a->path = strdup(path);
    if (!a->path)
        abort(); /* the daemon is crash-only */
    blame_next(a);
}

void atoll_histories_done(struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->histories, node)
        asking_free(ATOLL_CONTAINER_OF(node, struct asking, node));
}
