#include "engine/engine.h"

#include <errno.h>
#include <string.h>
#include "base/text.h"

/* An absolute path without empty, "." or ".." segments. */
static bool is_plain_path(const char *path)
{
    if (path[0] != '/' || !path[1])
        return false;
    for (const char *at = path; *at;) {
        size_t n = strcspn(++at, "/");
        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at += n;
    }
    return true;
}

/* Paths used by the kernel's file systems and by Atoll. */
static bool is_taken(const char *path)
{
    static const char *const tops[] = {"/proc", "/sys", "/dev", "/.atoll"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tops); i++)
        if (atoll_text_is_below(path, tops[i]))
            return true;
    return false;
}

int atoll_mount_set_mode(struct atoll_mount *m, const char *mode, struct atoll_error *err)
{
    if (strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0 && strcmp(mode, "cow") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: mode is ro, rw or cow (got \"%.16s\")", mode);
    m->read_only = strcmp(mode, "ro") == 0;
    m->cow = strcmp(mode, "cow") == 0;
    return 0;
}

int atoll_mount_check(const struct atoll_mount *m, const struct atoll_mount *before, size_t count,
                      struct atoll_error *err)
{
    if (!*m->volume == !*m->source)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: each needs a name or a hostPath, and not both");
    if (*m->volume && !atoll_text_is_name(m->volume))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: \"%.64s\" is not a volume name: letters, digits, . _ - only",
                          m->volume);
    if (m->cow && !*m->source)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: the mode cow is for a hostPath; a volume is ro or rw");
    if (*m->source && !is_plain_path(m->source))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: hostPath must be an absolute path without . and .. (got "
                          "\"%.100s\")",
                          m->source);
    if (!is_plain_path(m->path) || is_taken(m->path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "volumes: path must be an absolute path in the sandbox without . and .., "
                          "and not in /proc, /sys or /dev (got \"%.100s\")",
                          m->path);
    for (size_t i = 0; i < count; i++)
        if (atoll_text_is_below(m->path, before[i].path) ||
            atoll_text_is_below(before[i].path, m->path))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "volumes: %.100s and %.100s overlap", before[i].path, m->path);
    return 0;
}
