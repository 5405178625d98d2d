#include "engine/json_memory.h"
#include <stdlib.h>
#include <string.h>
#include "base/switches.h"

/* Memory that the longest token of a text may need, in multiples of the text's size: the buffer,
 * its copy of twice the size while it grows, and the value. */
#define ROOM_FACTOR 4

static _Thread_local bool failed;
static _Thread_local bool loading;

static void *json_alloc(size_t n)
{
    void *p = !loading && atoll_fault("base.json_alloc") ? NULL : malloc(n);

    if (!p && loading)
        abort(); /* the lexer cannot handle it; the daemon is crash-only */
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

static bool is_room_for(size_t n)
{
    void *room = atoll_fault("base.json_alloc") ? NULL : malloc(ROOM_FACTOR * n);

    free(room);
    return room;
}

static json_t *load(const void *bytes, size_t n, size_t flags, json_error_t *why)
{
    json_t *root;

    loading = true;
    root = json_loadb(bytes, n, flags, why);
    loading = false;
    return root;
}

json_t *atoll_json_load(const void *bytes, size_t n, size_t flags, json_error_t *why)
{
    if (why)
        *why = (json_error_t){0};
    if (is_room_for(n))
        return load(bytes, n, flags, why);
    failed = true;
    return NULL;
}

json_t *atoll_json_load_own(const char *text)
{
    return text && *text ? load(text, strlen(text), 0, NULL) : NULL;
}

char *atoll_json_dump(const json_t *value, size_t flags)
{
    bool before = failed;
    char *text;

    failed = false;
    text = json_dumps(value, flags);
    if (failed) {
        free(text);
        text = NULL;
    }
    failed |= before;
    return text;
}
