/* The text of --network-max. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/provider/providers.h"

/* Cuts the next word, at commas and blanks, off *text; NULL at the end. */
static const char *next_word(const char **text, size_t *ret_len)
{
    const char *word = *text + strspn(*text, ", \t");

    *ret_len = strcspn(word, ", \t");
    *text = word + *ret_len;
    return *ret_len > 0 ? word : NULL;
}

int atoll_network_most(const char *text, const char *tenant, enum atoll_network *ret)
{
    enum atoll_network general = ATOLL_NETWORK_BRIDGE, own = ATOLL_NETWORK_BRIDGE, *into, mode;
    bool has_own = false;
    const char *word;
    size_t n;

    while ((word = next_word(&text, &n))) {
        const char *equals = memchr(word, '=', n);
        const char *name = equals ? equals + 1 : word;
        char value[16];

        if (snprintf(value, sizeof(value), "%.*s", (int)(word + n - name), name) >=
                (int)sizeof(value) ||
            atoll_network_by_name(value, &mode) < 0 || equals == word)
            return -EINVAL;
        into = equals ? &own : &general;
        if (equals && (strlen(tenant) != (size_t)(equals - word) ||
                       memcmp(word, tenant, strlen(tenant)) != 0))
            continue;
        has_own = has_own || equals;
        *into = mode;
    }
    *ret = has_own ? own : general;
    return 0;
}
