#include "unpack/names.h"

#include <errno.h>
#include <string.h>

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define INTERNAL ".wh..wh."
#define COMPONENT_MAX 255

int atoll_names_clean(struct atoll_buf *out, const char *path)
{
    bool first = true;

    while (*path) {
        size_t n = strcspn(path, "/");

        if (n == 2 && memcmp(path, "..", 2) == 0)
            return -EINVAL;
        if (n > COMPONENT_MAX)
            return -ENAMETOOLONG;
        if (n > 0 && !(n == 1 && *path == '.')) {
            if ((!first && atoll_buf_append(out, "/", 1) < 0) || atoll_buf_append(out, path, n) < 0)
                return -ENAMETOOLONG;
            first = false;
        }
        path += n;
        path += *path == '/';
    }
    return 0;
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum atoll_names_kind atoll_names_kind(const char *path, const char **ret_name)
{
    const char *name = path, *slash;

    while ((slash = strchr(name, '/'))) {
        if (begins(name, WHITEOUT))
            return ATOLL_NAMES_BAD;
        name = slash + 1;
    }
    *ret_name = name;
    if (!begins(name, WHITEOUT))
        return ATOLL_NAMES_PLAIN;
    if (strcmp(name, OPAQUE) == 0)
        return ATOLL_NAMES_OPAQUE;
    if (begins(name, INTERNAL))
        return ATOLL_NAMES_INTERNAL;
    *ret_name = name + strlen(WHITEOUT);
    if (!**ret_name || strcmp(*ret_name, ".") == 0 || strcmp(*ret_name, "..") == 0)
        return ATOLL_NAMES_BAD;
    return ATOLL_NAMES_WHITEOUT;
}
