#include "unpack/attributes.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include "unpack/tree_write.h"

#define RENAMED "user.overlay.overlay."
#define NAMES_MAX ((size_t)64 * 1024)
#define VALUE_MAX ((size_t)64 * 1024)

static bool is_kept(const char *name)
{
    return atoll_tree_is_kept_xattr(name) || strncmp(name, RENAMED, strlen(RENAMED)) == 0;
}

static int copy_xattrs(int from, int to)
{
    static char names[NAMES_MAX], value[VALUE_MAX];
    ssize_t n = flistxattr(from, names, sizeof(names));
    int r = n < 0 && errno != EOPNOTSUPP ? -errno : 0;

    for (ssize_t i = 0; r == 0 && i < n; i += (ssize_t)strlen(names + i) + 1) {
        const char *name = names + i;
        ssize_t len = is_kept(name) ? fgetxattr(from, name, value, sizeof(value)) : -1;

        if (len >= 0 && fsetxattr(to, name, value, (size_t)len, 0) < 0)
            r = -errno;
    }
    return r;
}

int atoll_attributes_copy(int from, int to)
{
    struct timespec times[2];
    struct stat st;
    int r;

    if (fstat(from, &st) < 0 || fchown(to, st.st_uid, st.st_gid) < 0)
        return -errno;
    times[0] = times[1] = st.st_mtim;
    r = copy_xattrs(from, to);
    if (r == 0 && (fchmod(to, st.st_mode & 07777) < 0 || futimens(to, times) < 0))
        r = -errno;
    return r;
}
