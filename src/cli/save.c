#include "cli/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/rand.h"

#define TEMP_NAME_LEN 16

int atoll_cli_save_directory(int dir_fd, const char *name, bool *ret_made, struct atoll_error *err)
{
    int fd;

    *ret_made = mkdirat(dir_fd, name, 0700) == 0;
    if (!*ret_made && errno != EEXIST)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", name,
                          strerror(errno));
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, errno,
                          "%.200s exists and is not a directory", name);
    return fd;
}

int atoll_cli_save_file(int dir_fd, const char *name, mode_t mode,
                        int (*fill)(void *arg, int fd, struct atoll_error *err), void *arg,
                        struct atoll_error *err)
{
    char temp[8 + TEMP_NAME_LEN + 1] = ".atoll-";
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    atoll_rand_id(temp + strlen(temp), TEMP_NAME_LEN);
    fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "making a file for %.200s", name);
    r = fill(arg, fd, err);
    if (r == 0 && (fchmod(fd, mode) < 0 || renameat(dir_fd, temp, dir_fd, name) < 0))
        r = atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", name,
                       strerror(errno));
    if (r < 0)
        (void)unlinkat(dir_fd, temp, 0);
    return r;
}
