#include "spawn/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

int atoll_paths_open(int state_fd, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long fd = syscall(SYS_openat2, state_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}
