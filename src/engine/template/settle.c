#include "engine/template/settle.h"

#include <stdio.h>
#include "engine/engine_internal.h"
#include "sandbox/stack.h"

/* Whether a layer above the lowest has directories that its archive only implies. */
static bool is_needed(struct atoll_engine *engine, const char *stack)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    const char *rest = stack;
    struct atoll_layer_facts facts;
    bool lowest = true, found = false;

    while (!found && atoll_stack_next(&rest, name)) {
        found = !lowest && atoll_layer_find(engine, name, &facts) && facts.implied > 0;
        lowest = false;
    }
    return found && atoll_stack_count(stack) < ATOLL_LAYERS_MAX;
}

void atoll_settle_stack(struct atoll_engine *engine, const char *stack, atoll_unpacked_fn *done,
                        void *arg)
{
    struct atoll_unpacked made = {.layer = "", .digest = "", .diff_id = "", .note = ""};
    struct atoll_error err;
    char digest[65], layer[34];
    int r;

    if (!is_needed(engine, stack)) {
        done(arg, &made, NULL);
        return;
    }
    atoll_layers_digest("directories", stack, digest);
    (void)snprintf(layer, sizeof(layer), "x%.32s", digest); /* as layers that are made here */
    if (!atoll_layer_find(engine, layer, NULL)) {
        atoll_unpack_settle(engine, stack, layer, done, arg);
        return;
    }
    made.layer = layer;
    r = atoll_layer_hold(engine, layer, &err);
    done(arg, r < 0 ? NULL : &made, r < 0 ? &err : NULL);
}
