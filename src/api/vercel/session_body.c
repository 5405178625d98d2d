#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/vercel/session_internal.h"

bool atoll_vercel_decode(struct atoll_api_call *call, struct atoll_body *body, const uint8_t *bytes,
                         size_t n, const struct atoll_field *table, void *into)
{
    struct atoll_error error;

    if (atoll_body_decode(body, bytes, n, table, into, &error) == 0)
        return true;
    atoll_body_done(body);
    atoll_api_fail(call, &error);
    return false;
}

/* Appends "/" and the text; false: it does not fit. */
static bool join(char *out, const char *text)
{
    size_t at = strlen(out);
    int n = snprintf(out + at, ATOLL_VERCEL_PATH_MAX + 1 - at, "%s%s",
                     at > 0 && out[at - 1] == '/' ? "" : "/", text);

    return n >= 0 && at + (size_t)n <= ATOLL_VERCEL_PATH_MAX;
}

bool atoll_vercel_path(struct atoll_api_call *call, const char *path, const char *cwd, char *out)
{
    const char *parts[] = {ATOLL_VERCEL_CWD, cwd && *cwd ? cwd : NULL, path};
    bool fits = true;

    if (!path || !*path) {
        atoll_vercel_refuse(call, 400, NULL, "path must be given");
        return false;
    }
    out[0] = '\0';
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(parts) && fits; i++) {
        if (!parts[i])
            continue;
        if (*parts[i] == '/')
            (void)snprintf(out, ATOLL_VERCEL_PATH_MAX + 1, "%s", parts[i]);
        else
            fits = join(out, parts[i]);
    }
    if (!fits)
        atoll_vercel_refuse(call, 400, NULL, "path must have at most %d bytes",
                            ATOLL_VERCEL_PATH_MAX);
    return fits;
}
