#include "engine/state/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "engine/state/capture.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint_thin.h"
#include "store/checkpoints.h"

#define ROOM_MS 1000 /* until the blocks of removed layers are free */

/* A command that waits for its checkpoint. */
struct mark {
    struct atoll_list node;
    uint64_t number;
    /* Before a command: what is to be started. */
    struct atoll_exec_start start;
    char **argv, **env, *user, *cwd; /* owned, or NULL */
    atoll_exec_fn *done;
    void *arg;
    /* After it. */
    struct atoll_exec *exec; /* referenced, or NULL */
    struct atoll_exec_result result;
};

static void mark_free(struct mark *m)
{
    atoll_list_remove(&m->node);
    if (m->exec)
        atoll_exec_unref(m->exec);
    atoll_strings_free(m->argv);
    atoll_strings_free(m->env);
    free(m->user);
    free(m->cwd);
    free(m);
}

static char *copy(const char *text)
{
    char *made = text ? strdup(text) : NULL;

    if (text && !made)
        abort(); /* the daemon is crash-only */
    return made;
}

static void kept_release(struct atoll_engine *engine, struct atoll_checkpoints *c,
                         struct atoll_kept *kept)
{
    if (!kept->stack)
        return;
    atoll_layers_release(engine, kept->stack);
    free(kept->stack);
    c->bytes -= kept->bytes;
    *kept = (struct atoll_kept){0};
}

static void kept_set(struct atoll_engine *engine, struct atoll_checkpoints *c,
                     struct atoll_kept *kept, const char *stack, uint64_t bytes)
{
    struct atoll_error err;

    if (atoll_layers_hold(engine, stack, &err) < 0)
        return;
    /* A daemon that died before it stored the end of a command makes its checkpoint again. */
    kept_release(engine, c, kept);
    kept->stack = copy(stack);
    kept->bytes = bytes;
    c->bytes += bytes;
}

static void set_last(struct atoll_checkpoints *c, const char *stack, uint64_t bytes)
{
    free(c->last);
    c->last = copy(stack);
    c->last_bytes = bytes;
}

static void set_live(struct atoll_checkpoints *c, bool is_known, uint64_t bytes)
{
    c->live_is_known = is_known;
    c->live_bytes = bytes;
}

static bool has_layer(const struct atoll_checkpoint *p)
{
    return p->before.stack || p->after.stack;
}

void atoll_checkpoint_release(struct atoll_sandbox *s, struct atoll_checkpoint *p)
{
    struct atoll_checkpoints *c = s->checkpoints;

    c->kept -= has_layer(p);
    kept_release(s->engine, c, &p->before);
    kept_release(s->engine, c, &p->after);
}

void atoll_checkpoint_release_before(struct atoll_sandbox *s, struct atoll_checkpoint *p)
{
    kept_release(s->engine, s->checkpoints, &p->before);
    s->checkpoints->kept -= !has_layer(p);
    atoll_checkpoint_store(s, p);
}

static void remove_command(struct atoll_sandbox *s, struct atoll_checkpoint *p)
{
    atoll_checkpoint_release(s, p);
    atoll_list_remove(&p->node);
    s->checkpoints->count--;
    free(p);
}

void atoll_checkpoints_open(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c;

    if (!s->options.checkpoints || s->checkpoints)
        return;
    c = s->checkpoints = atoll_alloc(sizeof(*c));
    c->next = 1;
    atoll_list_init(&c->commands);
    atoll_list_init(&c->waiting);
    atoll_list_init(&c->capturing);
}

struct atoll_checkpoint *atoll_checkpoint_find(struct atoll_sandbox *s, uint64_t number)
{
    if (!s->checkpoints)
        return NULL;
    ATOLL_LIST_FOREACH (&s->checkpoints->commands, node) {
        struct atoll_checkpoint *p = ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
        if (p->number == number)
            return p;
    }
    return NULL;
}

const char *atoll_checkpoint_stack(struct atoll_sandbox *s, uint64_t number)
{
    const struct atoll_checkpoint *p = atoll_checkpoint_find(s, number);
    const struct atoll_checkpoint *next = atoll_checkpoint_find(s, number + 1);

    return p && p->after.stack ? p->after.stack : next ? next->before.stack : NULL;
}

void atoll_checkpoint_store(struct atoll_sandbox *s, struct atoll_checkpoint *p)
{
    const struct atoll_store_checkpoint row = {.sandbox_id = s->spec.id,
                                               .number = p->number,
                                               .exec_id = p->exec_id,
                                               .command = p->command,
                                               .started_unix_ms = p->started_unix_ms,
                                               .before = p->before.stack ?: "",
                                               .after = p->after.stack ?: "",
                                               .before_bytes = p->before.bytes,
                                               .after_bytes = p->after.bytes,
                                               .shared = p->shared,
                                               .counted = p->counted,
                                               .added = p->added,
                                               .changed = p->changed,
                                               .removed = p->removed,
                                               .bytes = p->bytes};
    struct atoll_error err;

    if (atoll_store_put_checkpoint(s->engine->config.store, &row, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "checkpoint", "id", s->spec.id,
                  "error", err.text, NULL);
}

int atoll_checkpoints_drop(struct atoll_sandbox *s, uint64_t from, struct atoll_error *err)
{
    int r = atoll_store_drop_checkpoints(s->engine->config.store, s->spec.id, from, INT64_MAX, err);

    if (r < 0)
        return r;
    ATOLL_LIST_FOREACH (&s->checkpoints->commands, node) {
        struct atoll_checkpoint *p = ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
        if (p->number >= from)
            remove_command(s, p);
    }
    s->checkpoints->next = from;
    return 0;
}

/* Removes the oldest commands of a long history. */
static void shorten(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c = s->checkpoints;
    struct atoll_error err;

    while (c->count > ATOLL_HISTORY_MAX) {
        struct atoll_checkpoint *p =
            ATOLL_CONTAINER_OF(c->commands.next, struct atoll_checkpoint, node);

        if (atoll_store_drop_checkpoints(s->engine->config.store, s->spec.id, 0, p->number, &err) <
            0)
            return; /* tried again with the next command */
        remove_command(s, p);
    }
}

/* Marks. */

static bool others_run(const struct atoll_sandbox *s, const struct atoll_exec *except)
{
    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        const struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        if (!x->ended && x != except)
            return true;
    }
    return false;
}

static void start_command(struct atoll_sandbox *s, struct mark *m)
{
    atoll_fault_die("checkpoint.start");
    m->start.number = m->number;
    atoll_engine_exec_now(s->engine, s->spec.id, &m->start, m->done, m->arg);
    mark_free(m);
}

static void end_command(struct mark *m)
{
    struct atoll_exec *x = m->exec;
    struct atoll_am_exec_ref ref = {x->number};
    struct atoll_sandbox *s;

    atoll_exec_finish(x, &m->result);
    s = x->sandbox; /* a client that was told may have destroyed it */
    if (s && s->agent && !x->unsaved)
        (void)!atoll_rpc_tell(s->agent, ATOLL_AGENT_EXEC_FORGET, &atoll_am_exec_ref_desc, &ref);
    mark_free(m);
}

void atoll_checkpoint_failed(struct atoll_sandbox *s, uint64_t number)
{
    struct atoll_checkpoint *p = atoll_checkpoint_find(s, number);
    struct atoll_error err;

    if (!p)
        return;
    if (atoll_store_drop_checkpoints(s->engine->config.store, s->spec.id, number, number, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "end of a checkpoint", "error",
                  err.text, NULL);
    remove_command(s, p);
}

static void refuse(struct mark *m, const struct atoll_error *error)
{
    struct atoll_error err = *error;

    (void)atoll_wrap(&err, "the checkpoint before the command");
    m->done(m->arg, NULL, &err);
    mark_free(m);
}

/* The files are kept, or cannot be: the command starts, or its end is told. */
static void settle(struct atoll_sandbox *s, struct mark *m, const char *stack, uint64_t bytes,
                   const struct atoll_error *error)
{
    struct atoll_checkpoints *c = s->checkpoints;
    struct atoll_checkpoint *p = atoll_checkpoint_find(s, m->number);
    bool had = p && has_layer(p);

    /* What is told below may end the sandbox, which frees the marks of its lists. */
    atoll_list_remove(&m->node);
    if (p && !error) {
        kept_set(s->engine, c, m->exec ? &p->after : &p->before, stack, bytes);
        c->kept += !had && has_layer(p);
        atoll_checkpoint_store(s, p);
    }
    if (m->exec)
        end_command(m);
    else if (error) {
        atoll_checkpoint_failed(s, m->number);
        refuse(m, error);
    } else
        start_command(s, m);
}

static void settle_all(struct atoll_sandbox *s, struct atoll_list *list, const char *stack,
                       uint64_t bytes, const struct atoll_error *error)
{
    char id[ATOLL_ID_LEN + 1];
    struct atoll_engine *engine = s->engine;

    memcpy(id, s->spec.id, sizeof(id));
    while (!atoll_list_empty(list)) {
        settle(s, ATOLL_CONTAINER_OF(list->next, struct mark, node), stack, bytes, error);
        if (atoll_map_get(&engine->sandboxes, id) != s) /* a client that was told destroyed it */
            return;
    }
}

/* Room. */

static void capture(struct atoll_sandbox *s);

/* Room was made, and what needed it has begun or ended. */
static void go_on(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);

    if (s)
        atoll_capture_proceed(s);
    s = atoll_map_get(&engine->sandboxes, id);
    if (s)
        atoll_capture_next(s);
}

static void try_again(void *arg)
{
    struct atoll_sandbox *s = arg;
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];

    memcpy(id, s->spec.id, sizeof(id));
    s->checkpoints->is_capturing = false;
    capture(s);
    go_on(engine, id);
}

/* A disk is full, and old checkpoints may be why: without some of them the capture is tried once more. */
static bool await_room(struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_checkpoints *c = s->checkpoints;
    bool is_full = error && atoll_errno_is_full(error->errnum);

    c->is_second_try = is_full && !c->is_second_try && atoll_checkpoints_halve(s);
    if (!c->is_second_try)
        return false;
    c->is_capturing = true;
    atoll_timer_set(&c->room, s->engine->loop, ROOM_MS, try_again, s);
    return true;
}

static void enqueue(struct atoll_sandbox *s);

struct capturing {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
};

static void on_captured(void *arg, const char *stack, const struct atoll_snapshot_facts *facts,
                        const struct atoll_error *error)
{
    struct capturing *k = arg;
    struct atoll_sandbox *s = atoll_map_get(&k->engine->sandboxes, k->sandbox_id);
    struct atoll_engine *engine = k->engine;
    char id[ATOLL_ID_LEN + 1];

    memcpy(id, k->sandbox_id, sizeof(id));
    free(k);
    atoll_metric_add(ATOLL_METRIC_CHECKPOINTS, ATOLL_LABELS(error ? "failed" : "made"), 1);
    if (!s || !s->checkpoints)
        return;
    s->checkpoints->is_capturing = false;
    if (await_room(s, error))
        return;
    if (!error) {
        set_last(s->checkpoints, stack, facts->bytes);
        set_live(s->checkpoints, true, facts->bytes);
    }
    if (error)
        atoll_log(ATOLL_LOG_WARN, "checkpoint", "sandbox", id, "error", error->text, NULL);
    settle_all(s, &s->checkpoints->capturing, stack, facts->bytes, error);
    s = atoll_map_get(&engine->sandboxes, id);
    if (!s || !s->checkpoints)
        return;
    atoll_checkpoints_thin(s);
    atoll_capture_proceed(s);
    s = atoll_map_get(&engine->sandboxes, id);
    if (s && s->checkpoints)
        enqueue(s);
}

static void capture(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c = s->checkpoints;
    struct capturing *k;
    struct atoll_error err;

    ATOLL_LIST_FOREACH (&c->waiting, node) {
        atoll_list_remove(node);
        atoll_list_push_back(&c->capturing, node);
    }
    if (atoll_capture_check_state(s, &err) < 0 || atoll_room_admit(s->engine, &err) < 0) {
        if (!await_room(s, &err))
            settle_all(s, &c->capturing, NULL, 0, &err);
        return;
    }
    k = atoll_alloc(sizeof(*k));
    k->engine = s->engine;
    memcpy(k->sandbox_id, s->spec.id, sizeof(k->sandbox_id));
    c->is_capturing = true;
    free(ATOLL_TAKE_PTR(c->last));
    atoll_capture_layer(s, "checkpoint", on_captured, k);
}

static bool only_before(const struct atoll_checkpoints *c)
{
    ATOLL_LIST_FOREACH (&c->waiting, node)
        if (ATOLL_CONTAINER_OF(node, struct mark, node)->exec)
            return false;
    return true;
}

static void make_checkpoint(struct atoll_sandbox *s);

static void on_room(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];

    memcpy(id, s->spec.id, sizeof(id));
    s->checkpoints->is_capturing = false;
    s->checkpoints->has_room = true;
    make_checkpoint(s);
    go_on(engine, id);
}

/* Its turn has come. */
static void make_checkpoint(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c = s->checkpoints;
    struct atoll_engine *engine;
    char *stack, id[ATOLL_ID_LEN + 1];

    if (c->is_capturing || atoll_list_empty(&c->waiting))
        return;
    if (!c->has_room && only_before(c) && s->spec.history_bytes > 0 && c->kept > 0 &&
        c->live_is_known) {
        c->is_capturing = true;
        atoll_checkpoints_make_room(s, on_room);
        return;
    }
    c->has_room = false;
    if (!c->last || !only_before(c) || others_run(s, NULL)) {
        capture(s);
        return;
    }
    /* Nothing has changed since the last one. The first command that starts forgets it. */
    engine = s->engine;
    memcpy(id, s->spec.id, sizeof(id));
    stack = copy(c->last);
    settle(s, ATOLL_CONTAINER_OF(c->waiting.next, struct mark, node), stack, c->last_bytes, NULL);
    free(stack);
    s = atoll_map_get(&engine->sandboxes, id);
    if (s && s->checkpoints)
        make_checkpoint(s);
}

static void on_turn(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg; /* not freed before this callback */
    struct atoll_checkpoints *c = s->checkpoints;

    if (!c)
        return; /* the sandbox ends, and its commands with it */
    c->is_queued = false;
    if (error)
        settle_all(s, &c->waiting, NULL, 0, error);
    else
        make_checkpoint(s);
}

static void enqueue(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c = s->checkpoints;

    if (c->is_queued || c->is_capturing || atoll_list_empty(&c->waiting))
        return;
    c->is_queued = true;
    atoll_capture_await_checkpoint(s, on_turn, s);
}

bool atoll_checkpoints_await_end(const struct atoll_sandbox *s)
{
    return s->checkpoints && !only_before(s->checkpoints);
}

void atoll_checkpoints_hurry(struct atoll_sandbox *s)
{
    if (atoll_checkpoints_await_end(s))
        make_checkpoint(s);
}

static struct mark *next_start(const struct atoll_checkpoints *c)
{
    ATOLL_LIST_FOREACH (&c->waiting, node) {
        struct mark *m = ATOLL_CONTAINER_OF(node, struct mark, node);
        if (!m->exec)
            return m;
    }
    return NULL;
}

static struct mark *next_end(const struct atoll_checkpoints *c)
{
    const struct atoll_list *const lists[] = {&c->capturing, &c->waiting};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++)
        ATOLL_LIST_FOREACH (lists[i], node) {
            struct mark *m = ATOLL_CONTAINER_OF(node, struct mark, node);
            if (m->exec)
                return m;
        }
    return NULL;
}

void atoll_checkpoints_tell_ends(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error err;
    struct mark *m;

    memcpy(id, s->spec.id, sizeof(id));
    (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "sandbox %s is ending", id);
    while (atoll_map_get(&engine->sandboxes, id) == s && s->checkpoints &&
           (m = next_end(s->checkpoints)) != NULL)
        settle(s, m, NULL, 0, &err);
}

void atoll_checkpoints_refuse_starts(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error err;
    struct mark *m;

    memcpy(id, s->spec.id, sizeof(id));
    (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "sandbox %s is being stopped", id);
    while (atoll_map_get(&engine->sandboxes, id) == s && s->checkpoints &&
           (m = next_start(s->checkpoints)) != NULL)
        settle(s, m, NULL, 0, &err);
}

void atoll_checkpoints_touch(struct atoll_sandbox *s)
{
    if (s->checkpoints)
        free(ATOLL_TAKE_PTR(s->checkpoints->last));
}

void atoll_checkpoints_empty_disk(struct atoll_sandbox *s)
{
    atoll_checkpoints_touch(s);
    if (s->checkpoints)
        set_live(s->checkpoints, false, 0);
}

void atoll_checkpoints_restored(struct atoll_sandbox *s, uint64_t bytes)
{
    const char *start = s->options.without_start ? NULL : s->version->start_cmd;

    if (!(start && *start) && !others_run(s, NULL))
        set_last(s->checkpoints, atoll_capture_stack(s), bytes);
}

static void describe(struct atoll_checkpoint *p, const struct atoll_exec_start *start)
{
    const char *const *argv = start->argv ? start->argv + start->shown_from : NULL;
    size_t n = 0;

    for (; argv && *argv && n < sizeof(p->command); argv++)
        n += (size_t)snprintf(p->command + n, sizeof(p->command) - n, "%s%s", n ? " " : "", *argv);
}

static struct atoll_checkpoint *add_command(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c = s->checkpoints;
    struct atoll_checkpoint *p = atoll_alloc(sizeof(*p));

    p->number = c->next++;
    p->started_unix_ms = atoll_clock_unix_ms();
    atoll_list_push_back(&c->commands, &p->node);
    c->count++;
    return p;
}

void atoll_checkpoint_before(struct atoll_sandbox *s, const struct atoll_exec_start *start,
                             atoll_exec_fn *done, void *arg)
{
    struct atoll_checkpoint *p = add_command(s);
    struct mark *m = atoll_alloc(sizeof(*m));

    describe(p, start);
    *m = (struct mark){.number = p->number, .start = *start, .done = done, .arg = arg};
    m->start.argv =
        (const char *const *)(m->argv = start->argv ? atoll_strings_dup(start->argv) : NULL);
    m->start.env =
        (const char *const *)(m->env = start->env ? atoll_strings_dup(start->env) : NULL);
    m->start.user = m->user = copy(start->user);
    m->start.cwd = m->cwd = copy(start->cwd);
    atoll_list_push_back(&s->checkpoints->waiting, &m->node);
    shorten(s);
    enqueue(s);
}

void atoll_checkpoint_started(struct atoll_sandbox *s, uint64_t number, struct atoll_exec *x)
{
    struct atoll_checkpoint *p = atoll_checkpoint_find(s, number);

    if (!p)
        return;
    memcpy(p->exec_id, x->id, sizeof(p->exec_id));
    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        const struct atoll_exec *other = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        struct atoll_checkpoint *q =
            other == x || other->ended ? NULL : atoll_checkpoint_find(s, other->checkpoint);

        p->shared = p->shared || q;
        if (q && !q->shared) {
            q->shared = true;
            atoll_checkpoint_store(s, q);
        }
    }
    atoll_checkpoint_store(s, p);
}

void atoll_checkpoint_after(struct atoll_exec *x, const struct atoll_exec_result *result)
{
    struct atoll_sandbox *s = x->sandbox;
    struct mark *m;

    if (x->ending)
        return;
    x->ending = true;
    m = atoll_alloc(sizeof(*m));
    *m = (struct mark){.number = x->checkpoint, .exec = x, .result = *result};
    x->refs++;
    atoll_list_push_back(&s->checkpoints->waiting, &m->node);
    enqueue(s);
}

/* Life. */

void atoll_checkpoints_close(struct atoll_sandbox *s)
{
    struct atoll_checkpoints *c = s->checkpoints;
    struct atoll_list *const lists[] = {c ? &c->waiting : NULL, c ? &c->capturing : NULL};
    struct atoll_error err;

    if (!c)
        return;
    (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "sandbox %s is ending",
                     s->spec.id);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++)
        ATOLL_LIST_FOREACH (lists[i], node) {
            struct mark *m = ATOLL_CONTAINER_OF(node, struct mark, node);

            if (m->exec)
                mark_free(m); /* the next daemon is told of its end again */
            else
                refuse(m, &err);
        }
    ATOLL_LIST_FOREACH (&c->commands, node)
        remove_command(s, ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node));
    atoll_timer_cancel(&c->room);
    free(c->last);
    free(c);
    s->checkpoints = NULL;
}

static int load_one(void *arg, const struct atoll_store_checkpoint *row,
                    struct atoll_error *err ATOLL_UNUSED)
{
    struct atoll_engine *engine = arg;
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, row->sandbox_id);
    struct atoll_checkpoint *p;

    if (!s || !s->checkpoints)
        return 0;
    p = add_command(s);
    p->number = row->number;
    s->checkpoints->next = row->number + 1;
    (void)snprintf(p->exec_id, sizeof(p->exec_id), "%s", row->exec_id);
    (void)snprintf(p->command, sizeof(p->command), "%s", row->command);
    p->started_unix_ms = row->started_unix_ms;
    p->shared = row->shared;
    p->counted = row->counted;
    p->added = row->added;
    p->changed = row->changed;
    p->removed = row->removed;
    p->bytes = row->bytes;
    if (*row->before)
        kept_set(engine, s->checkpoints, &p->before, row->before, row->before_bytes);
    if (*row->after)
        kept_set(engine, s->checkpoints, &p->after, row->after, row->after_bytes);
    s->checkpoints->kept += has_layer(p);
    set_live(s->checkpoints, has_layer(p), p->after.stack ? p->after.bytes : p->before.bytes);
    return 0;
}

/* Commands that still run get their bracket when they end. */
static void join_execs(struct atoll_engine *engine)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        if (!s->checkpoints)
            continue;
        ATOLL_LIST_FOREACH (&s->checkpoints->commands, node) {
            const struct atoll_checkpoint *p =
                ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
            struct atoll_exec *x = *p->exec_id ? atoll_map_get(&s->execs, p->exec_id) : NULL;

            if (x && !x->ended)
                x->checkpoint = p->number;
        }
    }
}

int atoll_checkpoints_load(struct atoll_engine *engine, struct atoll_error *err)
{
    struct atoll_sandbox *s;
    size_t pos = 0;
    int r;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL)
        atoll_checkpoints_open(s);
    r = atoll_store_each_checkpoint(engine->config.store, load_one, engine, err);
    join_execs(engine);
    return r;
}
