#pragma once
#include "base/list.h"
#include "engine/engine.h"

/*
 * Compares two stacks of layers: atoll-diff (diff/diff.h) in a builder sandbox whose root is what both have in
 * common. The daemon does not read the layers: they are hostile.
 *
 * Thread: the loop's.
 */
#define ATOLL_COMPARE_PATCH_MAX (UINT64_C(16) << 20)

struct atoll_comparison {
    const char *tenant;
    const char *from, *to; /* stacks; on the disk, and held until the call returns */
    bool patch;            /* else lines of JSON */
    const char *below;     /* only this directory, absolute; NULL or "": all */
    uint32_t lines;        /* of JSON */
    /* A merge of what leads from `from` to `to` into this stack; NULL: a comparison. */
    const char *ours;
    const char *since;  /* the stack that `ours` was made from: conflicts of two forks; or NULL */
    const char *prefer; /* "ours", "theirs", or NULL */
    bool stream;        /* what is to be written, instead of lines of JSON */
};
/* bytes: borrowed; what atoll-diff printed. RESOURCE_EXHAUSTED: the result is too large, or the stacks differ in too
 * many layers. */
typedef void atoll_compare_fn(void *arg, const uint8_t *bytes, size_t n,
                              const struct atoll_error *error);
void atoll_compare(struct atoll_engine *engine, const struct atoll_comparison *comparison,
                   atoll_compare_fn *done, void *arg);
/* Frees those in progress without calling done. */
void atoll_compares_done(struct atoll_engine *engine);
