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
