#include "engine/sandbox/ordered.h"

#include <stdlib.h>
#include <string.h>
#include "engine/engine_internal.h"

static int compare(const struct atoll_sandbox *s, int64_t created_unix_ms, const char *id)
{
    if (s->created_unix_ms != created_unix_ms)
        return s->created_unix_ms < created_unix_ms ? -1 : 1;
    return strcmp(s->spec.id, id);
}

/* The index of the first item that compares greater than `than`. */
static size_t search(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id,
                     int than)
{
    size_t low = 0, high = o->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(o->items[middle], created_unix_ms, id) > than)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

size_t atoll_ordered_after(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id)
{
    return search(o, created_unix_ms, id, 0);
}

size_t atoll_ordered_from(const struct atoll_ordered *o, int64_t created_unix_ms, const char *id)
{
    return search(o, created_unix_ms, id, -1);
}

void atoll_ordered_done(struct atoll_ordered *o)
{
    free(o->items);
    *o = (struct atoll_ordered){0};
}

void atoll_ordered_add(struct atoll_ordered *o, struct atoll_sandbox *s)
{
    size_t at = atoll_ordered_after(o, s->created_unix_ms, s->spec.id);

    if (o->count == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 16;
        o->items = reallocarray(o->items, o->cap, sizeof(*o->items));
        if (!o->items)
            abort(); /* pointers, eight bytes a sandbox: the daemon is crash-only */
    }
    memmove(&o->items[at + 1], &o->items[at], (o->count - at) * sizeof(*o->items));
    o->items[at] = s;
    o->count++;
}

void atoll_ordered_remove(struct atoll_ordered *o, const struct atoll_sandbox *s)
{
    size_t at = atoll_ordered_from(o, s->created_unix_ms, s->spec.id);

    if (at == o->count || o->items[at] != s)
        return;
    o->count--;
    memmove(&o->items[at], &o->items[at + 1], (o->count - at) * sizeof(*o->items));
}
