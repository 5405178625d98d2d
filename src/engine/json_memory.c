#include "engine/json_memory.h"
#include <jansson.h>
#include <stdlib.h>
#include "base/switches.h"

static _Thread_local bool failed;

static void *json_alloc(size_t n)
{
    void *p = atoll_fault("base.json_alloc") ? NULL : malloc(n);

    failed |= !p;
    return p;
}

void atoll_json_memory_watch(void)
{
    json_set_alloc_funcs(json_alloc, free);
}

void atoll_json_memory_begin(void)
{
    failed = false;
}

bool atoll_json_memory_failed(void)
{
    return failed;
}
