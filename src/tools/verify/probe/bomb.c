/*
 * "atoll-probe --bomb NAME CAP" allocates one resource until it is stopped, then prints by what:
 *
 *     {"bomb":"fork","reached":31,"stopped_by":"EAGAIN"}
 *
 * CAP bounds the bomb itself, so that it is harmless where no limit holds; reaching it is reported as
 * "cap". The bombs "spin", "flood" and "stubborn" run until they are killed.
 * "--hold" instead of "--bomb" keeps the resource until the process is killed; the report is then written
 * to FILE instead of standard output.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/verify/probe/bomb.h"
#include "tools/verify/probe/probe.h"

#define MIB (1L << 20)
#define STACK_BYTES (64 * 1024)
#define OOM_CHILD_MIB 192 /* more than the sandboxes of bombs have */

static const char *error_name(int err)
{
    static const struct {
        int err;
        const char *name;
    } names[] = {{EAGAIN, "EAGAIN"},  {ENOSPC, "ENOSPC"}, {EDQUOT, "EDQUOT"}, {ENOMEM, "ENOMEM"},
                 {EMFILE, "EMFILE"},  {ENFILE, "ENFILE"}, {EFBIG, "EFBIG"},   {EPERM, "EPERM"},
                 {EACCES, "EACCES"},  {ENOSYS, "ENOSYS"}, {EIO, "EIO"},       {EINVAL, "EINVAL"},
                 {ENOBUFS, "ENOBUFS"}};

    if (err == 0)
        return "cap";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].err == err)
            return names[i].name;
    return strerror(err);
}

static int step_fork(long n)
{
    pid_t parent = getpid(), pid = fork();

    (void)n;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent) /* false if the parent died before prctl() */
            pause();
        _exit(0);
    }
    return pid < 0 ? errno : 0;
}

static void *sleep_forever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int step_thread(long n)
{
    pthread_attr_t attr;
    pthread_t thread;

    (void)n;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    return pthread_create(&thread, &attr, sleep_forever, NULL);
}

static int step_memory(long n)
{
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return errno;
    memset(p, (int)(n | 1), MIB);
    return 0;
}

/* A child is killed for lack of memory while the parent continues; the step fails if it was not killed. */
static int step_oom_child(long n)
{
    int status;
    pid_t pid = fork();

    (void)n;
    if (pid < 0)
        return errno;
    if (pid == 0) {
        for (long i = 0; i < OOM_CHILD_MIB; i++)
            if (step_memory(i) != 0)
                break;
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        return errno;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : EINVAL;
}

static int write_mib(const char *path, long n)
{
    static char block[MIB];
    static int fd = -1;

    if (n == 0)
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    memset(block, (int)(n | 1), sizeof(block));
    for (long done = 0; done < MIB;) {
        ssize_t w = write(fd, block + done, (size_t)(MIB - done));

        if (w < 0)
            return errno;
        done += w;
    }
    return 0;
}

static int step_shm(long n)
{
    char path[64];
    int err;

    snprintf(path, sizeof(path), "/dev/shm/bomb-%ld", (long)getpid());
    err = write_mib(path, n);
    if (n == 0)
        unlink(path); /* the data stays allocated while the file is open */
    return err;
}

static int step_disk(long n)
{
    return write_mib("bomb.disk", n);
}

static int step_sysvshm(long n)
{
    int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
    char *p;

    if (id < 0)
        return errno;
    p = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL); /* removed when the last process detaches */
    if (p == (char *)-1)
        return errno;
    memset(p, (int)(n | 1), MIB);
    return 0;
}

int probe_fill(int fd)
{
    static char block[65536];

    while (write(fd, block, sizeof(block)) > 0)
        continue;
    return errno == EAGAIN ? 0 : errno;
}

static int step_pipe(long n)
{
    int fds[2];

    (void)n;
    if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0)
        return errno;
    if (fcntl(fds[1], F_SETPIPE_SZ, MIB) < 0 && errno != EPERM)
        return errno;
    return probe_fill(fds[1]);
}

static int step_sockbuf(long n)
{
    int fds[2];

    (void)n;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return errno;
    return probe_fill(fds[0]);
}

static int step_inode(long n)
{
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "bomb.%ld", n);
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int step_sparse(long n)
{
    int fd = open("bomb.sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int err = 0;

    (void)n;
    if (fd < 0)
        return errno;
    if (ftruncate(fd, 8L << 40) != 0)
        err = errno;
    unlink("bomb.sparse");
    return err;
}

static int step_fd(long n)
{
    (void)n;
    return dup(0) < 0 ? errno : 0;
}

static int step_pty(long n)
{
    (void)n;
    return posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) < 0 ? errno : 0;
}

static int step_key(long n)
{
    char name[32];

    snprintf(name, sizeof(name), "bomb-%ld", n);
    return syscall(SYS_add_key, "user", name, "x", 1, -2) < 0 ? errno : 0;
}

/* An orphan that ends: PID 1 must reap it, or the process table fills up. */
static int step_orphan(long n)
{
    pid_t pid = fork();

    (void)n;
    if (pid < 0)
        return errno;
    if (pid == 0) {
        pid_t orphan = fork();

        _exit(orphan < 0 ? errno : 0);
    }
    if (waitpid(pid, &(int){0}, 0) != pid)
        return errno;
    usleep(1000);
    return 0;
}

/* A tree deeper than PATH_MAX: it can only be removed with descriptors. */
static int step_deepdir(long n)
{
    (void)n;
    if (mkdir("bomb.deep", 0700) != 0 && errno != EEXIST)
        return errno;
    return chdir("bomb.deep") == 0 ? 0 : errno;
}

/* Names with every byte that a name may contain, such as newlines, escapes and invalid UTF-8. */
static int step_name(long n)
{
    char name[] = {'-', (char)(n + 1), (char)(n + 1), '\0'};
    int fd;

    if (name[1] == '/' || name[1] == '\0')
        return 0;
    fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* The kernel caches names that do not exist (negative dentries); that memory must be charged to us. */
static int step_dentry(long n)
{
    char name[256];

    snprintf(name, sizeof(name), "%0200ld", n);
    return access(name, F_OK) == 0 ? EEXIST : 0;
}

static const struct probe_bomb_kind kinds[] = {
    {"fork", step_fork},         {"threads", step_thread},  {"memory", step_memory},
    {"oomloop", step_oom_child}, {"shm", step_shm},         {"sysvshm", step_sysvshm},
    {"pipes", step_pipe},        {"sockbuf", step_sockbuf}, {"disk", step_disk},
    {"inodes", step_inode},      {"sparse", step_sparse},   {"fds", step_fd},
    {"ptys", step_pty},          {"keys", step_key},        {"zombies", step_orphan},
    {"deepdir", step_deepdir},   {"names", step_name},      {"dentries", step_dentry},
};
static const struct probe_bomb_table general = {kinds, PROBE_COUNT(kinds)};
static const struct probe_bomb_table *const tables[] = {&general, &probe_bombs_quota,
                                                        &probe_bombs_kernel};

static const struct probe_bomb_kind *find(const char *name)
{
    for (size_t t = 0; t < PROBE_COUNT(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (strcmp(name, tables[t]->kinds[i].name) == 0)
                return &tables[t]->kinds[i];
    return NULL;
}

static int count_zombies(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    char path[300], state;
    int count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        f = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (f != NULL && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'Z')
            count++;
        if (f != NULL)
            fclose(f);
    }
    if (dir != NULL)
        closedir(dir);
    return count;
}

static void spin(void)
{
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            break;
    for (;;)
        __asm__ volatile("");
}

static void flood(void)
{
    static char block[65536];

    memset(block, 'x', sizeof(block));
    block[sizeof(block) - 1] = '\n';
    while (write(1, block, sizeof(block)) > 0)
        continue;
}

/* A process, its child, and a daemon in its own session; all ignore catchable signals. */
static void stubborn(void)
{
    for (int sig = 1; sig < 32; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            sigaction(sig, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
    } else if (fork() != 0) {
        puts("ready");
        fflush(stdout);
    }
    for (;;)
        pause();
}

/* The report is renamed to FILE when it is complete. */
static FILE *open_report(const char *file, char *temporary, size_t size)
{
    snprintf(temporary, size, "%s.new", file != NULL ? file : "");
    return file != NULL ? fopen(temporary, "we") : stdout;
}

static void run(const struct probe_bomb_kind *b, long cap, const char *file)
{
    char temporary[256];
    FILE *out = open_report(file, temporary, sizeof(temporary));
    long n = 0;
    int err = 0;

    while (n < cap && (err = b->step(n)) == 0)
        n++;
    if (b->step == step_orphan)
        usleep(200000);
    if (out == NULL)
        return;
    fprintf(out,
            "{\"bomb\":\"%s\",\"reached\":%ld,\"stopped_by\":\"%s\",\"zombies\":%d,"
            "\"bytes\":%ld}\n",
            b->name, n, error_name(err), b->step == step_orphan ? count_zombies() : 0,
            probe_socket_bytes);
    fflush(out);
    if (file != NULL)
        rename(temporary, file);
}

int probe_bomb(const char *name, long cap, bool hold, const char *file)
{
    const struct probe_bomb_kind *kind = find(name);
    struct rlimit limit;

    /* Take every descriptor we are entitled to, and errors instead of SIGXFSZ. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (strcmp(name, "spin") == 0)
        spin();
    if (strcmp(name, "flood") == 0)
        flood();
    if (strcmp(name, "stubborn") == 0)
        stubborn();
    if (kind == NULL)
        return 2;
    run(kind, cap, file);
    while (hold)
        pause();
    return 0;
}
