#include "tools/verify/seen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"

#define LOOK_MS 20

void atoll_seen_mark(char *out)
{
    char id[25];

    atoll_rand_id(id, sizeof(id) - 1);
    (void)snprintf(out, ATOLL_SEEN_MARK_MAX, "marker-%s", id);
}

/* Calls fn for each process until it returns false. */
static void each_process(bool (*fn)(void *arg, pid_t pid), void *arg)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid > 0 && !fn(arg, (pid_t)pid))
            break;
    }
    if (dir)
        (void)closedir(dir);
}

int atoll_seen_read(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    n = read(fd, out, cap - 1);
    if (n < 0)
        return -errno;
    out[n] = '\0';
    return (int)n;
}

struct count {
    const char *text;
    size_t found;
    pid_t first;
};

static bool count_one(void *arg, pid_t pid)
{
    struct count *count = arg;
    char line[8192];
    int n = pid == getpid() ? 0 : atoll_seen_read(pid, "cmdline", line, sizeof(line));

    if (n > 0 && memmem(line, (size_t)n, count->text, strlen(count->text))) {
        if (count->found++ == 0)
            count->first = pid;
    }
    return true;
}

size_t atoll_seen_count(const char *text, pid_t *ret_pid)
{
    struct count count = {.text = text};

    each_process(count_one, &count);
    if (ret_pid)
        *ret_pid = count.first;
    return count.found;
}

pid_t atoll_seen_wait(const char *text, size_t count, int timeout_ms)
{
    int64_t until = atoll_clock_ms() + timeout_ms;
    pid_t pid = 0;

    while (atoll_seen_count(text, &pid) < count) {
        if (atoll_clock_ms() > until)
            return 0;
        (void)poll(NULL, 0, LOOK_MS);
    }
    return pid;
}

int atoll_seen_status(pid_t pid, const char *field, char *out, size_t cap)
{
    char text[8192], name[32];
    const char *line;
    size_t n;
    int r = atoll_seen_read(pid, "status", text, sizeof(text));

    if (r < 0)
        return r;
    (void)snprintf(name, sizeof(name), "\n%s:", field);
    line = strstr(text, name);
    if (!line)
        return -ENODATA;
    line += strlen(name);
    line += strspn(line, " \t");
    n = strcspn(line, "\n");
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    (void)snprintf(out, cap, "%.*s", (int)n, line);
    return 0;
}

static int ns_of(pid_t pid, const char *kind, char *out, size_t cap)
{
    char path[64];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
    n = readlink(path, out, cap - 1);
    if (n < 0)
        return -errno;
    out[n] = '\0';
    return 0;
}

int atoll_seen_same_ns(pid_t a, pid_t b, const char *kind)
{
    char first[64], second[64];
    int r = ns_of(a, kind, first, sizeof(first));

    if (r == 0)
        r = ns_of(b, kind, second, sizeof(second));
    return r < 0 ? r : strcmp(first, second) == 0;
}

struct search {
    pid_t of, found;
};

static bool is_init(void *arg, pid_t pid)
{
    struct search *search = arg;
    char ids[128];
    const char *last;

    if (atoll_seen_same_ns(pid, search->of, "pid") != 1 ||
        atoll_seen_status(pid, "NSpid", ids, sizeof(ids)) < 0)
        return true;
    last = strrchr(ids, '\t');
    if (strcmp(last ? last + 1 : ids, "1") != 0)
        return true;
    search->found = pid;
    return false;
}

pid_t atoll_seen_init_of(pid_t pid)
{
    struct search search = {.of = pid};

    each_process(is_init, &search);
    return search.found;
}
