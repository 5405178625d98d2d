#pragma once
#include "engine/engine_internal.h"
#include "test.h"

/* Stands in for the engine where only its map of sandboxes is wanted. */
static struct atoll_engine engine;
static struct atoll_sandbox sandbox;

struct atoll_sandbox *atoll_engine_find(struct atoll_engine *e, const char *id)
{
    return atoll_map_get(&e->sandboxes, id);
}

int atoll_engine_look(struct atoll_engine *e, const char *id, struct atoll_sandbox **ret,
                      struct atoll_error *err)
{
    (void)err;
    *ret = atoll_engine_find(e, id);
    return 0;
}
