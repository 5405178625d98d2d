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

char **atoll_strings_free(char **strings)
{
    for (size_t i = 0; strings && strings[i]; i++)
        free(strings[i]);
    free(strings);
    return NULL;
}

int atoll_strings_join(struct atoll_buf *out, char **strings)
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
