/*
 * API keys as OIDC tokens of Vercel: a JWT whose signature is the key. Clients read the team and the project
 * from the token, check no signature, and send all of it as the bearer.
 */
#include <string.h>
#include "access/access.h"
#include "api/vercel/vercel.h"

static bool read_key(const char *shown, char *out)
{
    const char *first = strchr(shown, '.'), *last = strrchr(shown, '.');

    if (!first || first == last || strchr(first + 1, '.') != last ||
        strlen(last + 1) != ATOLL_KEY_LEN)
        return false;
    memcpy(out, last + 1, ATOLL_KEY_LEN + 1);
    return true;
}

const struct atoll_key_spelling atoll_vercel_key = {.prefix = ATOLL_KEY_PREFIX, .read = read_key};
