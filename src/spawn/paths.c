#include "spawn/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int atoll_paths_open(int state_fd, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long fd = syscall(SYS_openat2, state_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

bool atoll_paths_is_inside(const char *path)
{
    for (;; path++) {
        size_t n = strcspn(path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && memcmp(path, "..", 2) == 0))
            return false;
        path += n;
        if (*path == '\0')
            return true;
    }
}

bool atoll_paths_holds_entries(int dirfd, const char *path)
{
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool found = false;

    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    while (!found && (entry = readdir(dir)) != NULL)
        found = *entry->d_name != '.';
    (void)closedir(dir);
    return found;
}
