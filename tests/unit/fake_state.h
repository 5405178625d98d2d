#pragma once
#include "engine/state/diff.h"
#include "engine/state/history.h"
#include "engine/state/merge.h"

/*
 * Part of fake_engine.h: comparisons, histories and merges.
 */

static inline void call_diff(struct fake_later *l)
{
    static const char lines[] =
        "{\"path\":\"/f\",\"kind\":\"added\"}\n{\"summary\":{\"added\":1}}\n";

    ((atoll_diff_fn *)l->fn)(l->arg, l->failed ? NULL : (const uint8_t *)lines,
                             l->failed ? 0 : sizeof(lines) - 1, fake_error(l));
}

void atoll_engine_diff(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_diff_request *request, atoll_diff_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)request;
    fake_answer(call_diff, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

static inline void call_history(struct fake_later *l)
{
    const struct atoll_command_view view = {.number = 1, .exec_id = "", .command = "true"};

    ((atoll_history_fn *)l->fn)(l->arg, &view, l->failed ? 0 : 1, fake_error(l));
}

void atoll_commands_history(struct atoll_engine *engine, const char *sandbox_id, size_t limit,
                            atoll_history_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)limit;
    fake_answer(call_history, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

static inline void call_blame(struct fake_later *l)
{
    const struct atoll_command_view view = {.number = 1, .exec_id = "", .command = "true"};

    ((atoll_blame_fn *)l->fn)(l->arg, l->failed ? NULL : &view, "added", fake_error(l));
}

void atoll_engine_blame(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                        atoll_blame_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)path;
    fake_answer(call_blame, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

static inline void call_undo(struct fake_later *l)
{
    ((atoll_undo_fn *)l->fn)(l->arg, 0, fake_error(l));
}

void atoll_engine_undo(struct atoll_engine *engine, const char *sandbox_id, uint32_t count,
                       bool force, atoll_undo_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)count;
    (void)force;
    fake_answer(call_undo, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

static inline void call_merge(struct fake_later *l)
{
    ((atoll_merge_fn *)l->fn)(l->arg, l->failed ? NULL : "{\"merged\":true}", fake_error(l));
}

void atoll_engine_merge(struct atoll_engine *engine, const char *sandbox_id,
                        const struct atoll_merge_request *request, atoll_merge_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)request;
    fake_answer(call_merge, (void (*)(void))done, arg, NULL, fake_failure(engine));
}

void atoll_engine_try(struct atoll_engine *engine, const char *sandbox_id,
                      const struct atoll_try_request *request, atoll_merge_fn *done, void *arg)
{
    (void)sandbox_id;
    (void)request;
    fake_answer(call_merge, (void (*)(void))done, arg, NULL, fake_failure(engine));
}
