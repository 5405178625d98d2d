/* Rows 76-78 and 89: inherited descriptors, environment and limits of this process. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define MEMLOCK_MAX (8UL << 20)
#define MSGQUEUE_MAX 819200UL
#define NOFILE_MAX 4096UL

#ifndef RLIMIT_MSGQUEUE
#define RLIMIT_MSGQUEUE 12
#endif

extern char **environ;

static char inherited[256];

void probe_note_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t used = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        long fd = strtol(entry->d_name, NULL, 10);
        char target[128];
        ssize_t n;

        if (fd <= 2 || fd == dirfd(dir) || used + 1 >= sizeof(inherited))
            continue;
        n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));
        used += (size_t)snprintf(inherited + used, sizeof(inherited) - used, "%ld -> %.*s ", fd,
                                 n < 0 ? 0 : (int)n, target);
    }
    if (dir != NULL)
        closedir(dir);
}

static void fd_inherited(void)
{
    if (inherited[0] != '\0')
        probe_fail("%s", inherited);
    probe_pass("0 1 2 only");
}

static void fd_stdio(void)
{
    struct stat st;

    for (int fd = 0; fd <= 2; fd++) {
        if (fstat(fd, &st) != 0 || S_ISFIFO(st.st_mode) || probe_is_null(fd))
            continue;
        probe_found("%d has file type 0%o", fd, (unsigned)(st.st_mode & S_IFMT));
    }
    probe_conclude("pipes or /dev/null");
}

static void env_canary(void)
{
    const char *name = probe_need("env");

    if (getenv(name) != NULL)
        probe_fail("%s is inherited", name);
    probe_pass("%s is not inherited", name);
}

/* Names only: a value must not appear in a report. */
static void env_secret_names(void)
{
    static const char *const parts[] = {"TOKEN",   "SECRET",     "PASSWORD",
                                        "API_KEY", "CREDENTIAL", "PRIVATE_KEY"};
    char name[128];

    for (char **e = environ; *e != NULL; e++) {
        size_t n = 0;

        for (; n + 1 < sizeof(name) && (*e)[n] != '\0' && (*e)[n] != '='; n++)
            name[n] = (char)toupper((unsigned char)(*e)[n]);
        name[n] = '\0';
        for (size_t i = 0; i < PROBE_COUNT(parts); i++)
            if (strstr(name, parts[i]) != NULL)
                probe_found("%s", name);
    }
    probe_conclude("no name that promises a secret");
}

static void look_for_canary(long pid)
{
    static char text[131072];
    char path[64];
    const char *name = probe_need("env");
    long n;

    snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
    n = probe_read(path, text, sizeof(text));
    for (long at = 0; at < n; at += (long)strlen(text + at) + 1)
        if (strncmp(text + at, name, strlen(name)) == 0 && text[at + (long)strlen(name)] == '=')
            probe_found("%s", path);
}

static void env_other_processes(void)
{
    probe_each_process(look_for_canary);
    probe_conclude("in no environment we can read");
}

static void limit_at_most(const char *name, int resource, unsigned long max)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0)
        probe_skip("getrlimit %s: %s", name, strerror(errno));
    if (limit.rlim_max == RLIM_INFINITY)
        probe_found("%s is unlimited", name);
    else if (limit.rlim_max > max)
        probe_found("%s is %lu", name, (unsigned long)limit.rlim_max);
}

/* A limit of 1 is accepted too: it also disables dumps to a pipe, which a limit of 0 does not (core(5)). */
static void lim_core(void)
{
    limit_at_most("core", RLIMIT_CORE, 1);
    probe_conclude("no core dumps");
}

static void lim_nofile(void)
{
    limit_at_most("nofile", RLIMIT_NOFILE, NOFILE_MAX);
    probe_conclude("bounded");
}

static void lim_memlock_msgqueue(void)
{
    limit_at_most("memlock", RLIMIT_MEMLOCK, MEMLOCK_MAX);
    limit_at_most("msgqueue", RLIMIT_MSGQUEUE, MSGQUEUE_MAX);
    probe_conclude("bounded");
}

static void size_at_most(const char *path, unsigned long long max)
{
    struct statvfs fs;
    unsigned long long size;

    if (statvfs(path, &fs) != 0)
        probe_skip("%s: %s", path, strerror(errno));
    size = (unsigned long long)fs.f_blocks * fs.f_frsize;
    if (size > max)
        probe_fail("%s holds %llu bytes, may hold %llu", path, size, max);
    probe_pass("%s holds %llu bytes", path, size);
}

static void lim_shm(void)
{
    size_at_most("/dev/shm", (unsigned long long)probe_need_long("memory"));
}

static void lim_disk(void)
{
    const char *home = getenv("HOME");
    unsigned long long disk = (unsigned long long)probe_need_long("disk");

    size_at_most(home != NULL ? home : "/", disk + disk / 8); /* file systems round */
}

static const struct probe_check checks[] = {
    {76, "fd.inherited", fd_inherited},
    {76, "fd.stdio", fd_stdio},
    {77, "env.canary", env_canary},
    {77, "env.secret_names", env_secret_names},
    {78, "env.other_processes", env_other_processes},
    {89, "lim.core", lim_core},
    {89, "lim.nofile", lim_nofile},
    {89, "lim.memlock_msgqueue", lim_memlock_msgqueue},
    {89, "lim.shm", lim_shm},
    {89, "lim.disk", lim_disk},
};

const struct probe_table probe_misc = {checks, PROBE_COUNT(checks)};
