#include <string.h>
#include "engine/engine_internal.h"

size_t atoll_strings_count(const char *const *strings)
{
    size_t n = 0;

    while (strings && strings[n])
        n++;
    return n;
}

char **atoll_strings_dup(const char *const *strings)
{
    size_t n = atoll_strings_count(strings);
    char **copy = calloc(n + 1, sizeof(*copy));

    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(strings[i]);
        if (!copy[i])
            return atoll_strings_free(copy);
    }
    return copy;
}

/* The last boundary of a UTF-8 character at or before n. */
static size_t cut_at(const char *text, size_t n)
{
    while (n > 0 && ((uint8_t)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* The beginning of the text that fits into `room` bytes together with the mark "…". */
static char *dup_beginning(const char *text, size_t room)
{
    static const char mark[] = "…";
    size_t n = room >= sizeof(mark) ? cut_at(text, room - sizeof(mark)) : 0;
    char *copy = malloc(n + sizeof(mark));

    if (copy) {
        memcpy(copy, text, n);
        memcpy(copy + n, mark, sizeof(mark));
    }
    return copy;
}

char **atoll_strings_dup_some(const char *const *strings, size_t bytes, size_t count,
                              uint64_t *ret_left_out)
{
    size_t n = ATOLL_MIN(atoll_strings_count(strings), count), used = 0, size = 0, i = 0;
    char **copy = calloc(n + 1, sizeof(*copy));

    *ret_left_out = 0;
    for (bool cut = false; copy && strings && strings[i]; i++, used += size) {
        size = strlen(strings[i]) + 1;
        if (cut || i >= count) {
            *ret_left_out += size;
            continue;
        }
        cut = used + size > bytes;
        copy[i] = cut ? dup_beginning(strings[i], bytes - used) : strdup(strings[i]);
        if (!copy[i])
            return atoll_strings_free(copy);
        if (cut)
            *ret_left_out += size - ATOLL_MIN(strlen(copy[i]), size - 1);
    }
    return copy;
}

char **atoll_strings_free(char **strings)
{
    for (size_t i = 0; strings && strings[i]; i++) {
        explicit_bzero(strings[i], strlen(strings[i])); /* variables may be secrets */
        free(strings[i]);
    }
    free(strings);
    return NULL;
}

int atoll_strings_join(struct atoll_buf *out, const char *const *strings)
{
    int r = 0;

    for (size_t i = 0; r == 0 && strings && strings[i]; i++)
        r = atoll_buf_append(out, strings[i], strlen(strings[i]) + 1);
    return r;
}

char **atoll_strings_split(const void *bytes, size_t n)
{
    const char *p = bytes;
    size_t count = 0, at = 0;
    char **strings;

    if (n > 0 && p[n - 1] != '\0')
        return NULL;
    for (size_t i = 0; i < n; i++)
        count += p[i] == '\0';
    strings = calloc(count + 1, sizeof(*strings));
    for (size_t i = 0; strings && i < count; i++) {
        strings[i] = strdup(p + at);
        if (!strings[i])
            return atoll_strings_free(strings);
        at += strlen(p + at) + 1;
    }
    return strings;
}
