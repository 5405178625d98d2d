/*
 * The host side of attacks: canaries, processes, and the daemon's own process and files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "base/clock.h"
#include "base/fd.h"
#include "sys/tree.h"
#include "tools/verify/attacks/raid.h"

#define GREP_MAX ((off_t)64 * 1024 * 1024)
#define POLL_NS (20L * 1000 * 1000)

/* Files. */

const char *atoll_raid_path(const struct atoll_raid *raid, const char *name, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s/%s", raid->v->scratch, name);
    return out;
}

int atoll_raid_write_file(const char *path, const void *bytes, size_t n)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    return fd < 0 ? -errno : atoll_fd_write_all(fd, bytes, n);
}

ssize_t atoll_raid_read_file(const char *path, char *out, size_t cap)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t used = 0;
    ssize_t k = 0;

    if (fd < 0)
        return -errno;
    while (used + 1 < cap && (k = read(fd, out + used, cap - 1 - used)) > 0)
        used += (size_t)k;
    if (k < 0)
        return -errno;
    out[used] = '\0';
    return (ssize_t)used;
}

static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool empty = dir != NULL;

    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = false;
    if (dir)
        (void)closedir(dir);
    return empty;
}

bool atoll_raid_canaries_sing(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                              const char *after)
{
    char text[ATOLL_RAID_ID_MAX * 2];
    bool sing = true;

    if (atoll_raid_read_file(raid->canary, text, sizeof(text)) < 0 ||
        strcmp(text, raid->mark) != 0) {
        atoll_outcome_found(o, "%s changed a file of the host", after);
        sing = false;
    }
    if (!is_empty(raid->drop)) {
        atoll_outcome_found(o, "%s made a file on the host", after);
        sing = false;
    }
    return sing;
}

void atoll_raid_reset_canaries(struct atoll_raid *raid)
{
    (void)!atoll_tree_remove(AT_FDCWD, raid->drop);
    (void)mkdir(raid->drop, 0777);
    (void)chmod(raid->drop, 0777);
    (void)unlink(raid->canary);
    (void)!atoll_raid_write_file(raid->canary, raid->mark, strlen(raid->mark));
    (void)chmod(raid->canary, 0666);
}

bool atoll_raid_leaks(const struct atoll_raid *raid, const void *bytes, size_t n)
{
    return n > 0 && memmem(bytes, n, raid->mark, strlen(raid->mark)) != NULL;
}

bool atoll_raid_reply_leaks(const struct atoll_raid *raid, const struct atoll_http_reply *reply)
{
    return atoll_raid_leaks(raid, atoll_buf_head(&reply->body), atoll_buf_size(&reply->body));
}

int atoll_raid_grep(int dirfd, const char *path, const void *needle, size_t n)
{
    ATOLL_AUTOCLOSE int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    static char window[128 * 1024]; /* one thread */
    size_t kept = 0;
    struct stat st;
    ssize_t k;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    if (st.st_size > GREP_MAX && lseek(fd, st.st_size - GREP_MAX, SEEK_SET) < 0)
        return -errno;
    while ((k = read(fd, window + kept, sizeof(window) - kept)) > 0) {
        kept += (size_t)k;
        if (memmem(window, kept, needle, n))
            return 1;
        if (kept >= n) {
            memmove(window, window + kept - (n - 1), n - 1);
            kept = n - 1;
        }
    }
    return k < 0 ? -errno : 0;
}

/* Processes. */

static bool says(int proc, const char *pid, const char *marker)
{
    char path[64], text[4096];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%.20s/cmdline", pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text));
    return n > 0 && memmem(text, (size_t)n, marker, strlen(marker)) != NULL;
}

size_t atoll_raid_processes(const char *marker)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    size_t found = 0;

    while (dir && (entry = readdir(dir))) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid > 0 && pid != getpid() && says(dirfd(dir), entry->d_name, marker))
            found++;
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

size_t atoll_raid_wait_gone(const char *marker, int ms)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    int64_t end = atoll_clock_ms() + ms;
    size_t n;

    while ((n = atoll_raid_processes(marker)) > 0 && atoll_clock_ms() < end)
        (void)nanosleep(&pause, NULL);
    return n;
}

bool atoll_raid_status_field(const char *path, const char *field, char *out, size_t cap)
{
    char text[8192], want[64];
    const char *found;

    (void)snprintf(want, sizeof(want), "\n%s:", field);
    if (atoll_raid_read_file(path, text, sizeof(text)) <= 0 || !(found = strstr(text, want)))
        return false;
    found += strlen(want);
    found += strspn(found, " \t");
    (void)snprintf(out, cap, "%.*s", (int)strcspn(found, "\n"), found);
    return true;
}

/* The daemon's. */

int64_t atoll_raid_daemon_memory(const struct atoll_raid *raid)
{
    char path[64], text[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)raid->daemon);
    if (raid->daemon <= 0 || !atoll_raid_status_field(path, "VmRSS", text, sizeof(text)))
        return -1;
    return strtoll(text, NULL, 10);
}

bool atoll_raid_state_dir(const struct atoll_raid *raid, char *out, size_t cap)
{
    static const char file[] = "/audit.log";
    char path[64], link[512];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)raid->daemon);
    dir = raid->daemon > 0 ? opendir(path) : NULL;
    while (dir && !found && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
        size_t len = n > 0 ? (size_t)n : 0;
        if (len <= sizeof(file) - 1 || len - (sizeof(file) - 1) >= cap)
            continue;
        len -= sizeof(file) - 1;
        found = memcmp(link + len, file, sizeof(file) - 1) == 0;
        if (found) {
            memcpy(out, link, len);
            out[len] = '\0';
        }
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

bool atoll_raid_log_file(const struct atoll_raid *raid, char *out, size_t cap)
{
    char path[64];
    struct stat st;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)raid->daemon);
    n = raid->daemon > 0 ? readlink(path, out, cap - 1) : -1;
    if (n <= 0)
        return false;
    out[n] = '\0';
    return *out == '/' && stat(out, &st) == 0 && S_ISREG(st.st_mode);
}
