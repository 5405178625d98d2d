#include "api/kit/keyed_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"

#define CURSOR_MAX 512

int atoll_keyed_take_cursor(struct atoll_keyed_list *list, const char *text)
{
    char plain[CURSOR_MAX];
    const char *tab;
    ssize_t n;

    if (!text || !*text)
        return 0;
    n = atoll_base64_bytes(plain, sizeof(plain) - 1, text, strlen(text));
    if (n < 0)
        return -EINVAL;
    plain[n] = '\0';
    tab = strrchr(plain, '\t');
    if (!tab || tab - plain >= ATOLL_KEYED_KEY_MAX || strlen(tab + 1) >= ATOLL_KEYED_ID_MAX)
        return -EINVAL;
    (void)snprintf(list->after_key, sizeof(list->after_key), "%.*s", (int)(tab - plain), plain);
    (void)snprintf(list->after_id, sizeof(list->after_id), "%.64s", tab + 1);
    return 0;
}

int atoll_keyed_take_order(struct atoll_keyed_list *list, const char *order)
{
    list->ascending = order && strcmp(order, "asc") == 0;
    return order && !list->ascending && strcmp(order, "desc") != 0 ? -EINVAL : 0;
}

void atoll_keyed_set_text(struct atoll_keyed *entry, const char *key)
{
    (void)snprintf(entry->key, sizeof(entry->key), "%.*s", ATOLL_KEYED_KEY_MAX - 1, key);
}

void atoll_keyed_set_time(struct atoll_keyed *entry, int64_t unix_ms)
{
    (void)snprintf(entry->key, sizeof(entry->key), "%020lld", (long long)unix_ms);
}

static int compare(const void *a, const void *b)
{
    const struct atoll_keyed *x = a, *y = b;
    int order = strcmp(x->key, y->key);

    return order ? order : strcmp(x->id, y->id);
}

static bool is_after(const struct atoll_keyed_list *list, const struct atoll_keyed *e)
{
    int order = strcmp(e->key, list->after_key);

    order = order ? order : strcmp(e->id, list->after_id);
    return !list->after_id[0] || (list->ascending ? order > 0 : order < 0);
}

void atoll_keyed_add(struct atoll_keyed_list *list, const struct atoll_keyed *entry)
{
    size_t room = list->room ? list->room * 2 : 32;
    struct atoll_keyed *more;

    if (!is_after(list, entry))
        return;
    if (list->count == list->room) {
        more = realloc(list->entries, room * sizeof(*more));
        if (!more)
            abort(); /* small objects: the daemon is crash-only */
        list->entries = more;
        list->room = room;
    }
    list->entries[list->count++] = *entry;
}

void atoll_keyed_sort(struct atoll_keyed_list *list)
{
    if (list->count > 0)
        qsort(list->entries, list->count, sizeof(*list->entries), compare);
}

const struct atoll_keyed *atoll_keyed_at(const struct atoll_keyed_list *list, size_t i)
{
    return &list->entries[list->ascending ? i : list->count - 1 - i];
}

void atoll_keyed_write_cursor(struct atoll_json_out *out, const char *name,
                              const struct atoll_keyed *last)
{
    char plain[CURSOR_MAX / 2], text[CURSOR_MAX];
    int n;

    if (!last) {
        atoll_json_null(out, name);
        return;
    }
    n = snprintf(plain, sizeof(plain), "%s\t%s", last->key, last->id);
    atoll_base64_text(text, plain, (size_t)n);
    atoll_json_text(out, name, text);
}

void atoll_keyed_done(struct atoll_keyed_list *list)
{
    free(list->entries);
    *list = (struct atoll_keyed_list){0};
}
