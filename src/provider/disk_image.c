#include "provider/disk_image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/switches.h"
#include "base/text.h"
#include "sys/ns.h"

#define EXT4_MIN_BYTES (UINT64_C(2) * 1024 * 1024)
#define JOURNAL_MIB "4" /* smallest journal that mkfs.ext4 makes with blocks of 4 KiB */

struct making {
    char *path, *temporary; /* owned */
    pid_t pid;
    int pidfd;
    struct atoll_watch watch;
    void (*done)(void *arg, const struct atoll_error *error);
    void *arg;
};

static void finish(struct making *m, const struct atoll_error *error)
{
    if (error && m->temporary)
        (void)unlink(m->temporary);
    m->done(m->arg, error);
    atoll_watch_close(&m->watch);
    if (m->pidfd >= 0)
        (void)close(m->pidfd);
    free(m->path);
    free(m->temporary);
    free(m);
}

static int keep(struct making *m, struct atoll_error *err)
{
    int status = 0;

    while (waitpid(m->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO,
                          "mkfs.ext4 could not format a disk of this size");
    status = atoll_fault("image.keep");
    if (status != 0)
        return atoll_fail_errno(err, status, "keep disk image");
    return rename(m->temporary, m->path) < 0 ? atoll_fail_errno(err, errno, "keep disk image") : 0;
}

static void mkfs_gone(void *arg, uint32_t events)
{
    struct making *m = arg;
    struct atoll_error err;

    (void)events;
    finish(m, keep(m, &err) < 0 ? &err : NULL);
}

static int make_file(struct making *m, uint64_t size_bytes, struct atoll_error *err)
{
    char *slash = strrchr(m->path, '/');
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    int r = atoll_fault("image.make");

    if (r != 0)
        return atoll_fail_errno(err, r, "make disk image");
    *slash = '\0';
    if (mkdir(m->path, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make directory of images");
    *slash = '/';
    fd = open(m->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, (off_t)ATOLL_MAX(size_bytes, EXT4_MIN_BYTES)) == 0)
        return 0;
    if (errno == EFBIG)
        return atoll_fail(err, ATOLL_ERR_OUT_OF_RANGE, EFBIG,
                          "diskMB is %llu: no file of this host's file system can be that large",
                          (unsigned long long)(size_bytes >> 20));
    return atoll_fail_errno(err, errno, "make disk image");
}

/* A journal only for a disk that must survive a crash of the host. No blocks reserved for root. */
static int spawn_mkfs(struct making *m, uint64_t inodes, bool journal, struct atoll_error *err)
{
    char count[24];
    char *argv[] = {"mkfs.ext4",
                    "-q",
                    "-F",
                    "-b",
                    "4096",
                    "-m",
                    "0",
                    "-N",
                    count,
                    "-E",
                    "lazy_itable_init=1,nodiscard,root_owner=0:0",
                    "-O",
                    journal ? "has_journal,^resize_inode" : "^has_journal,^resize_inode",
                    m->temporary,
                    journal ? "-J" : NULL, /* NULL ends the list here */
                    "size=" JOURNAL_MIB,
                    NULL};
    char *envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    int r;

    (void)snprintf(count, sizeof(count), "%llu", (unsigned long long)inodes);
    r = posix_spawn(&m->pid, "/usr/sbin/mkfs.ext4", NULL, NULL, argv, envp);
    if (r != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, r,
                          "a disk larger than half the memory needs mkfs.ext4: install e2fsprogs");
    return 0;
}

static int start_mkfs(struct making *m, struct atoll_loop *loop, uint64_t inodes, bool journal,
                      struct atoll_error *err)
{
    int r = spawn_mkfs(m, inodes, journal, err);

    if (r < 0)
        return r;
    m->pidfd = atoll_sys_pidfd_open(m->pid);
    r = m->pidfd < 0 ? m->pidfd
                     : atoll_watch_open(&m->watch, loop, m->pidfd, EPOLLIN, mkfs_gone, m);
    return r < 0 ? atoll_fail_errno(err, -r, "watch mkfs.ext4") : 0;
}

/* Two creates may need the same new size at the same time: each formats its own file, and the
 * last rename wins. */
static int begin(struct making *m, uint64_t size_bytes, bool journal, struct atoll_error *err)
{
    static _Atomic unsigned counter;

    if (asprintf(&m->temporary, "%s.%u", m->path, ++counter) < 0) {
        m->temporary = NULL;
        return atoll_fail_errno(err, ENOMEM, "disk image");
    }
    return make_file(m, size_bytes + (journal ? ATOLL_DISK_IMAGE_JOURNAL_BYTES : 0), err);
}

void atoll_disk_image_make(struct atoll_loop *loop, const char *state_dir, const char *name,
                           uint64_t size_bytes, uint64_t inodes, bool journal,
                           void (*done)(void *arg, const struct atoll_error *error), void *arg)
{
    struct making *m = calloc(1, sizeof(*m));
    struct atoll_error err;
    int r;

    if (!m || asprintf(&m->path, "%s/%s", state_dir, name) < 0) {
        (void)atoll_fail_errno(&err, ENOMEM, "disk image");
        free(m);
        done(arg, &err);
        return;
    }
    m->pidfd = ATOLL_NO_FD;
    m->done = done;
    m->arg = arg;
    if (access(m->path, F_OK) == 0) {
        finish(m, NULL);
        return;
    }
    r = begin(m, size_bytes, journal, &err);
    if (r >= 0)
        r = start_mkfs(m, loop, inodes, journal, &err);
    if (r < 0)
        finish(m, &err);
}

int atoll_disk_image_make_now(const char *state_dir, const char *name, uint64_t size_bytes,
                              uint64_t inodes, bool journal, struct atoll_error *err)
{
    struct making m = {.pidfd = ATOLL_NO_FD};
    int r = 0;

    if (asprintf(&m.path, "%s/%s", state_dir, name) < 0)
        return atoll_fail_errno(err, ENOMEM, "disk image");
    if (access(m.path, F_OK) < 0) {
        r = begin(&m, size_bytes, journal, err);
        if (r == 0)
            r = spawn_mkfs(&m, inodes, journal, err);
        if (r == 0)
            r = keep(&m, err);
        if (r < 0 && m.temporary)
            (void)unlink(m.temporary);
    }
    free(m.path);
    free(m.temporary);
    return r;
}

void atoll_disk_image_each_kept(const char *state_dir, void (*each)(void *arg, const char *id),
                                void *arg)
{
    char path[4096];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%s/disks", state_dir);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL) {
        char *dot = strchr(entry->d_name, '.');
        if (!dot || (strcmp(dot, ".img") != 0 && strcmp(dot, ".cow") != 0))
            continue;
        *dot = '\0';
        if (atoll_text_is_id(entry->d_name))
            each(arg, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
}

void atoll_disk_image_drop_kept(const char *state_dir, const char *id)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/disks/%s.img", state_dir, id);
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/disks/%s.cow", state_dir, id);
    (void)unlink(path); /* the next atoll-spawn finds its disk unused */
}

bool atoll_disk_image_is_cow(const char *state_dir, const char *id)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/disks/%s.cow", state_dir, id);
    return access(path, F_OK) == 0;
}
