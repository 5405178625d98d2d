/*
 * Runs the checks one after the other, each in a process of its own with a time limit, and prints
 * {"row":N,"id":"…","status":"PASS|FAIL|SKIP","detail":"…"} per line.
 *
 *     atoll-probe [only=id,id] key=value...
 *     atoll-probe --canary key=value...
 *     atoll-probe --bomb|--hold NAME CAP [FILE]
 *     atoll-probe --idle MARKER      does nothing; inspected from outside
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define CHECK_SECONDS 8
#define DETAIL_MAX 400

struct verdict {
    char status[8];
    char detail[DETAIL_MAX];
};

static int arg_count;
static char **arg_values;
static int verdict_fd = -1;
static char findings[DETAIL_MAX];

static const struct probe_table *const tables[] = {
    &probe_fs,  &probe_mounts, &probe_proc,     &probe_dev, &probe_id,
    &probe_abi, &probe_ns,     &probe_syscalls, &probe_net, &probe_misc,
};

static _Noreturn void report(const char *status, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static _Noreturn void report(const char *status, const char *fmt, va_list ap)
{
    struct verdict v = {0};

    snprintf(v.status, sizeof(v.status), "%s", status);
    vsnprintf(v.detail, sizeof(v.detail), fmt, ap);
    if (write(verdict_fd, &v, sizeof(v)) != (ssize_t)sizeof(v))
        _exit(1);
    _exit(0);
}

void probe_pass(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report("PASS", fmt, ap);
}

void probe_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report("FAIL", fmt, ap);
}

void probe_skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report("SKIP", fmt, ap);
}

void probe_found(const char *fmt, ...)
{
    size_t used = strlen(findings);
    va_list ap;

    if (used > 0 && used + 3 < sizeof(findings))
        used += (size_t)snprintf(findings + used, sizeof(findings) - used, ", ");
    va_start(ap, fmt);
    vsnprintf(findings + used, sizeof(findings) - used, fmt, ap);
    va_end(ap);
}

void probe_conclude(const char *if_none)
{
    if (findings[0] != '\0')
        probe_fail("%s", findings);
    probe_pass("%s", if_none);
}

const char *probe_arg(const char *key)
{
    size_t len = strlen(key);

    for (int i = 1; i < arg_count; i++)
        if (strncmp(arg_values[i], key, len) == 0 && arg_values[i][len] == '=')
            return arg_values[i] + len + 1;
    return NULL;
}

const char *probe_need(const char *key)
{
    const char *value = probe_arg(key);

    if (value == NULL || *value == '\0')
        probe_skip("no %s was laid out to be looked for; with --start there is one", key);
    return value;
}

long probe_need_long(const char *key)
{
    return strtol(probe_need(key), NULL, 0);
}

bool probe_refused(int errnum)
{
    static const int said_no[] = {EPERM,           EACCES,       ENOSYS,         EROFS,
                                  EPROTONOSUPPORT, EAFNOSUPPORT, ESOCKTNOSUPPORT};

    for (size_t i = 0; i < PROBE_COUNT(said_no); i++)
        if (errnum == said_no[i])
            return true;
    return false;
}

int probe_in_child(int (*fn)(void *), void *arg)
{
    int status;
    pid_t pid = fork();

    if (pid < 0)
        probe_skip("fork: %s", strerror(errno));
    if (pid == 0)
        _exit(fn(arg));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            probe_skip("waitpid: %s", strerror(errno));
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int make_call(void *arg)
{
    const struct probe_call *c = arg;
    long rc = syscall(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4], c->arg[5]);

    return rc == -1 ? errno : 0;
}

void probe_all_refused(const struct probe_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int err = probe_in_child(make_call, (void *)&calls[i]);

        if (err < 0)
            probe_found("%s: signal %d", calls[i].name, -err);
        else if (!probe_refused(err))
            probe_found("%s: %s", calls[i].name, err == 0 ? "allowed" : strerror(err));
    }
    probe_conclude("all refused");
}

bool probe_is_null(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

bool probe_readable(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    bool readable;

    if (fd < 0)
        return false;
    readable = !probe_is_null(fd) && read(fd, &byte, 1) == 1;
    close(fd);
    return readable;
}

bool probe_writable(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    bool writable;

    if (fd < 0)
        return false;
    writable = !probe_is_null(fd);
    close(fd);
    return writable;
}

long probe_read(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    size_t used = 0;
    ssize_t n = 0;

    if (fd < 0)
        return -1;
    while (used < size - 1 && (n = read(fd, buf + used, size - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    buf[used] = '\0';
    return n < 0 ? -1 : (long)used;
}

void probe_each_process(void (*fn)(long pid))
{
    const char *scan = probe_need("scan");
    struct dirent *entry;
    DIR *dir;

    if (strcmp(scan, "all") != 0) {
        fn(strtol(scan, NULL, 10));
        return;
    }
    dir = opendir("/proc");
    if (dir == NULL)
        probe_skip("/proc: %s", strerror(errno));
    while ((entry = readdir(dir)) != NULL) {
        long pid = strtol(entry->d_name, NULL, 10);

        if (pid > 0 && pid != getpid() && pid != getppid())
            fn(pid);
    }
    closedir(dir);
}

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void run_check(const struct probe_check *check)
{
    struct verdict v = {"FAIL", "ended without a verdict"};
    int fds[2], status = 0;
    pid_t pid;

    if (pipe(fds) != 0) {
        perror("pipe");
        exit(2);
    }
    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        close(fds[0]);
        verdict_fd = fds[1];
        alarm(CHECK_SECONDS);
        check->run();
        _exit(3);
    }
    close(fds[1]);
    if (read(fds[0], &v, sizeof(v)) != (ssize_t)sizeof(v)) {
        waitpid(pid, &status, 0);
        snprintf(v.status, sizeof(v.status), "FAIL");
        snprintf(v.detail, sizeof(v.detail), "the check ended with wait status 0x%x", status);
    } else {
        waitpid(pid, &status, 0);
    }
    close(fds[0]);
    printf("{\"row\":%d,\"id\":\"%s\",\"status\":\"%s\",\"detail\":", check->row, check->id,
           v.status);
    print_json_string(v.detail);
    printf("}\n");
}

static bool selected(const char *id)
{
    const char *only = probe_arg("only");
    size_t len = strlen(id);

    while (only != NULL) {
        if (strncmp(only, id, len) == 0 && (only[len] == ',' || only[len] == '\0'))
            return true;
        only = strchr(only, ',');
        if (only == NULL)
            return false;
        only++;
    }
    return true;
}

int main(int argc, char **argv)
{
    arg_count = argc;
    arg_values = argv;
    if (argc == 2 && strcmp(argv[1], "--euid") == 0) /* started by fs.setuid_effective */
        return geteuid() == getuid() ? 0 : 1;
    if (argc > 1 && strcmp(argv[1], "--canary") == 0)
        return probe_canary();
    if (argc > 1 && strcmp(argv[1], "--idle") == 0)
        for (;;)
            pause();
    if (argc > 3 && (strcmp(argv[1], "--bomb") == 0 || strcmp(argv[1], "--hold") == 0))
        return probe_bomb(argv[2], strtol(argv[3], NULL, 10), strcmp(argv[1], "--hold") == 0,
                          argv[4]);
    if (argc > 1 && (strcmp(argv[1], "--dial") == 0 || strcmp(argv[1], "--walls") == 0))
        return probe_network(argc, argv);
    if (argc > 1 && (strcmp(argv[1], "--swap") == 0 || strcmp(argv[1], "--serve") == 0 ||
                     strcmp(argv[1], "--hammer") == 0))
        return probe_helper(argc, argv);
    probe_note_descriptors();
    for (size_t t = 0; t < PROBE_COUNT(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (selected(tables[t]->checks[i].id))
                run_check(&tables[t]->checks[i]);
    return 0;
}
