#include <jansson.h>
#include <string.h>
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"

/*
 * Encodes the mounts of a sandbox as text for its row in the store.
 */

char *atoll_mounts_write(const struct atoll_mount *mounts, size_t count)
{
    json_t *array = count > 0 ? json_array() : NULL;
    char *text;

    if (count == 0)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:b, s:b}", "volume",
                                                   mounts[i].volume, "source", mounts[i].source,
                                                   "path", mounts[i].path, "read_only",
                                                   mounts[i].read_only, "cow", mounts[i].cow)) < 0)
            abort();
    text = atoll_json_dump(array, JSON_COMPACT);
    if (!text)
        abort();
    json_decref(array);
    return text;
}

static bool read_one(const json_t *o, struct atoll_mount *ret)
{
    const char *volume, *source, *path;
    int read_only, cow = 0; /* which earlier versions did not write */

    if (json_unpack((json_t *)(uintptr_t)o, "{s:s, s:s, s:s, s:b, s?b}", "volume", &volume,
                    "source", &source, "path", &path, "read_only", &read_only, "cow", &cow) < 0)
        return false;
    ret->read_only = read_only;
    ret->cow = cow;
    return atoll_text_copy(ret->volume, sizeof(ret->volume), volume) == 0 &&
           atoll_text_copy(ret->source, sizeof(ret->source), source) == 0 &&
           atoll_text_copy(ret->path, sizeof(ret->path), path) == 0;
}

struct atoll_mount *atoll_mounts_read(const char *text, size_t *ret_count)
{
    json_t *array = atoll_json_load_own(text);
    struct atoll_mount *mounts = calloc(ATOLL_MOUNTS_MAX, sizeof(*mounts));
    size_t n = 0;

    if (!mounts)
        abort(); /* a few small objects: the daemon is crash-only */
    while (n < json_array_size(array) && n < ATOLL_MOUNTS_MAX &&
           read_one(json_array_get(array, n), &mounts[n]))
        n++;
    json_decref(array);
    *ret_count = n;
    if (n > 0)
        return mounts;
    free(mounts);
    return NULL;
}
