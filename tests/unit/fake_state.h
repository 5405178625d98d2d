#pragma once
#include "engine/state/diff.h"

/*
 * Part of fake_engine.h: comparisons.
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
