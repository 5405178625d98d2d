#include "daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/fd.h"

#define LOCK_FILE "atolld.lock"
#define OOM_SCORE_ADJ "-500"

/* mkdir -p: parents with mode 0755, the last one with mode `last`. */
static int make_dirs(const char *path, mode_t last)
{
    ATOLL_AUTOFREE char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    return mkdir(copy, last) < 0 && errno != EEXIST ? -errno : 0;
}

int atoll_process_open_state(const char *path, int *ret_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r = make_dirs(path, 0700);
    struct stat st;

    if (r == 0)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && (fd < 0 || fstat(fd, &st) < 0))
        r = -errno;
    if (r < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r,
                          "cannot open the state directory %.200s: %s", path, strerror(-r));
    if (st.st_uid != geteuid())
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
            "the state directory %.200s belongs to uid %u, not to the user that runs atolld", path,
            (unsigned)st.st_uid);
    if ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0)
        return atoll_fail_errno(err, errno, "chmod of the state directory");
    *ret_fd = ATOLL_TAKE_FD(fd);
    return 0;
}

int atoll_process_lock_state(int state_fd, int *ret_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd =
        openat(state_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char pid[24];
    int n;

    if (fd < 0)
        return atoll_fail_errno(err, errno, "opening the lock file");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return atoll_fail_errno(err, errno, "locking the state directory");
        if (atoll_fd_read_file(state_fd, LOCK_FILE, pid, sizeof(pid)) <= 0)
            (void)snprintf(pid, sizeof(pid), "unknown");
        pid[strcspn(pid, "\n")] = '\0';
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EBUSY,
                          "another atolld (pid %s) uses this state directory; stop it, or choose "
                          "another one with --state",
                          pid);
    }
    n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n)
        return atoll_fail_errno(err, errno, "writing the lock file");
    *ret_fd = ATOLL_TAKE_FD(fd);
    return 0;
}

int atoll_process_make_socket_dir(const char *socket_path, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *dir = strdup(socket_path);
    char *slash = dir ? strrchr(dir, '/') : NULL;
    int r = 0;

    if (!slash || slash == dir)
        return 0;
    *slash = '\0';
    r = make_dirs(dir, 0700);
    return r < 0 ? atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r,
                              "cannot make the directory of the socket, %.200s: %s", dir,
                              strerror(-r))
                 : 0;
}

static bool has_spawn(const char *dir)
{
    char path[4200];

    (void)snprintf(path, sizeof(path), "%.4096s/atoll-spawn", dir);
    return access(path, X_OK) == 0;
}

/* The directory of our own executable, links resolved. */
static int own_directory(char *out, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", out, cap - 1);
    char *slash;

    if (n < 0)
        return -errno;
    out[n] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    return 0;
}

int atoll_process_find_programs(char *out, size_t cap, struct atoll_error *err)
{
    char own[4096];
    int r = own_directory(own, sizeof(own));

    if (r < 0)
        return atoll_fail_errno(err, -r, "finding our own executable");
    if ((size_t)snprintf(out, cap, "%s", own) < cap && has_spawn(out))
        return 0;
    if ((size_t)snprintf(out, cap, "%s/../libexec/atoll", own) < cap && has_spawn(out))
        return 0;
    if ((size_t)snprintf(out, cap, "%s", ATOLL_LIBEXEC_DIR) < cap && has_spawn(out))
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "atoll-spawn is neither beside atolld nor in %s; install it there",
                      ATOLL_LIBEXEC_DIR);
}

void atoll_process_find_data(const char *name, char *out, size_t cap)
{
    static const char *const places[] = {"", "../share/atoll/"};
    char own[4096];

    for (size_t i = 0; own_directory(own, sizeof(own)) == 0 && i < ATOLL_ARRAY_LEN(places); i++)
        if ((size_t)snprintf(out, cap, "%s/%s%s", own, places[i], name) < cap &&
            access(out, R_OK) == 0)
            return;
    if ((size_t)snprintf(out, cap, "%s/%s", ATOLL_DATA_DIR, name) >= cap || access(out, R_OK) < 0)
        out[0] = '\0';
}

void atoll_process_spare(void)
{
    /* Ordinary users may not lower it; the daemon then keeps the default. */
    (void)!atoll_fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE_ADJ);
}
