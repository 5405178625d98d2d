#include "cli/zstd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cli/child.h"

bool atoll_cli_is_zstd(int fd)
{
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned char begin[sizeof(magic)];

    return pread(fd, begin, sizeof(begin), 0) == (ssize_t)sizeof(begin) &&
           memcmp(begin, magic, sizeof(magic)) == 0;
}

int atoll_cli_nameless_file(int *ret_fd, struct atoll_error *err)
{
    const char *dir = getenv("TMPDIR");

    dir = dir && *dir ? dir : "/tmp";
    *ret_fd = open(dir, O_TMPFILE | O_RDWR, 0600);
    return *ret_fd < 0 ? atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s",
                                    dir, strerror(errno))
                       : 0;
}

static int run(char *const *argv, int out_fd, struct atoll_error *err)
{
    pid_t pid;
    int status = 0, r = atoll_cli_spawn(argv, out_fd, false, &pid);

    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "zstd is not installed; it is needed for a file of this kind");
    if (r < 0)
        return atoll_fail_errno(err, -r, "zstd");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                      "zstd failed: see its message above");
}

int atoll_cli_compress(int fd, int out_fd, struct atoll_error *err)
{
    static char program[] = "zstd", quiet[] = "-q", links[] = "-f", to_output[] = "-c";
    char path[32], *argv[] = {program, quiet, links, to_output, path, NULL};

    (void)snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    return run(argv, out_fd, err);
}

int atoll_cli_decompress(char *path, int out_fd, struct atoll_error *err)
{
    static char program[] = "zstd", quiet[] = "-q", links[] = "-f", mode[] = "-dc", end[] = "--";
    char *const argv[] = {program, quiet, links, mode, end, path, NULL};
    int r = run(argv, out_fd, err);

    return r == 0 && lseek(out_fd, 0, SEEK_SET) < 0 ? atoll_fail_errno(err, errno, "archive") : r;
}
