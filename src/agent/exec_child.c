/*
 * Starts a program. The child shares the agent's memory, as with vfork, so that the cost does not
 * depend on the agent's size; it only makes system calls and stores errors in the shared `struct
 * child`.
 *
 * Unlike vfork, the kernel does not suspend the agent: once the child has the tenant's user id, a
 * process of that user may stop it, and a suspended agent would hang. Instead the agent waits, with
 * a timeout, on the word that the kernel clears when the child executes or exits.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "agent/agent_internal.h"
#include "base/switches.h"

#define STACK_BYTES (64 * 1024)
#define LOOK_AGAIN_NS (10 * 1000 * 1000)
/* A child that the tenant keeps stopping is continued this many times, then killed. */
#define STOPS_MAX 50

enum step {
    STEP_NONE,
    STEP_SESSION,
    STEP_STDIO,
    STEP_LIMITS,
    STEP_IDENTITY,
    STEP_CWD,
    STEP_EXEC,
};

/* Shared with the child. */
struct child {
    const struct atoll_agent *agent;
    const struct atoll_agent_launch *launch;
    bool has_cpus;
    cpu_set_t cpus;
    const char *candidates; /* paths to try, NUL-terminated; an empty one ends the list */
    enum step failed;
    int errnum;
    bool no_interpreter; /* the file exists, but its interpreter does not */
    uint32_t alive;      /* cleared by the kernel */
};

/* One launch at a time, so one stack is enough. */
static _Alignas(16) uint8_t child_stack[STACK_BYTES];

static int stdio(const struct atoll_agent_launch *l)
{
    for (int i = 0; i < 3; i++)
        if (dup2(l->stdio[i], i) < 0)
            return -1;
    if (l->terminal >= 0 && ioctl(l->terminal, TIOCSCTTY, 0) < 0)
        return -1;
    if (!l->cwd && fchdir(l->cwd_fd) < 0)
        return -1;
    /* An extra safety: all others are close-on-exec. Kernels before 5.9 have no close_range. */
    (void)syscall(SYS_close_range, 3, ~0u, 0);
    if (atoll_weakened("descriptors"))
        (void)open("/", O_RDONLY | O_DIRECTORY);
    return 0;
}

static int limits(const struct atoll_agent *a)
{
    sigset_t none;

    (void)umask(022);
    if (a->files.rlim_cur != a->files.rlim_max && setrlimit(RLIMIT_NOFILE, &a->files) < 0)
        return -1;
    (void)sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

static int enter_cwd(const struct atoll_agent_launch *l)
{
    if (!l->cwd || chdir(l->cwd) == 0)
        return 0;
    return l->cwd_optional ? chdir("/") : -1;
}

/* Tries to execute one path; returns the errno. */
static int try_program(struct child *c, const char *path)
{
    const struct atoll_agent_launch *l = c->launch;

    (void)execve(path, (char *const *)(uintptr_t)l->argv, l->envp);
    if (errno == ENOEXEC) {
        l->argv[-1] = "/bin/sh";
        l->argv[0] = path;
        (void)execve("/bin/sh", (char *const *)(uintptr_t)(l->argv - 1), l->envp);
        return ENOEXEC;
    }
    if (errno == ENOENT && faccessat(AT_FDCWD, path, F_OK, 0) == 0) {
        c->no_interpreter = true;
        return ENOEXEC;
    }
    return errno;
}

/* Follows execvp(3): continues after a directory that lacks the program or is not accessible. */
static int run_program(struct child *c)
{
    int errnum = ENOENT;

    for (const char *path = c->candidates; *path; path += strlen(path) + 1) {
        int one = try_program(c, path);
        if (one == EACCES)
            errnum = EACCES;
        else if (one != ENOENT && one != ENOTDIR)
            return one;
    }
    return errnum;
}

static int child_main(void *arg)
{
    struct child *c = arg;
    const struct atoll_agent_launch *l = c->launch;
    int r;

    /* The effect of CLONE_CHILD_CLEARTID, which clone() of newer C libraries (musl 1.2.5)
     * refuses. */
    if (!c->agent->in_gvisor)
        (void)syscall(SYS_set_tid_address, &c->alive);
    c->failed = STEP_SESSION;
    if (!atoll_weakened("session") && setsid() < 0)
        goto failed;
    c->failed = STEP_STDIO;
    if (stdio(l) < 0)
        goto failed;
    c->failed = STEP_LIMITS;
    if (limits(c->agent) < 0)
        goto failed;
    if (c->has_cpus) /* may fail if a CPU went offline: then all are allowed */
        (void)sched_setaffinity(0, sizeof(c->cpus), &c->cpus);
    c->failed = STEP_IDENTITY;
    r = atoll_agent_child_identity(c->agent, l->user);
    if (r < 0) {
        errno = -r;
        goto failed;
    }
    c->failed = STEP_CWD;
    if (enter_cwd(l) < 0)
        goto failed;
    c->failed = STEP_EXEC;
    errno = run_program(c);
failed:
    c->errnum = errno;
    (void)syscall(SYS_exit_group, 127);
    return 127;
}

/* Continues a child that was stopped before its program ran; kills it after STOPS_MAX times. Clears
 * `alive` for a child that was killed before it registered the word with the kernel. */
static void continue_stopped(struct atoll_agent *a, struct child *c, pid_t pid, int *stops)
{
    struct atoll_agent_process p;

    if (atoll_agent_process_read(a, pid, &p) < 0)
        return;
    if (p.state == 'Z')
        __atomic_store_n(&c->alive, 0, __ATOMIC_RELEASE);
    else if (p.state == 'T' || p.state == 't')
        (void)kill(pid, ++*stops < STOPS_MAX ? SIGCONT : SIGKILL);
}

/* Returns -errno. Does not use syscall(), which would write errno on a timeout: the child shares
 * our memory, including errno, and may be reading its own error there. */
static long wait_on(const uint32_t *word, const struct timespec *timeout)
{
#if defined(__x86_64__)
    register const struct timespec *fourth __asm__("r10") = timeout;
    long r = SYS_futex;

    __asm__ volatile("syscall"
                     : "+a"(r)
                     : "D"(word), "S"(FUTEX_WAIT), "d"(1L), "r"(fourth)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long r __asm__("x0") = (long)word;
    register long op __asm__("x1") = FUTEX_WAIT, value __asm__("x2") = 1;
    register const struct timespec *fourth __asm__("x3") = timeout;
    register long number __asm__("x8") = SYS_futex;

    __asm__ volatile("svc 0" : "+r"(r) : "r"(op), "r"(value), "r"(fourth), "r"(number) : "memory");
    return r;
#else
#error "no system call sequence for this architecture"
#endif
}

static void wait_for_exec(struct atoll_agent *a, struct child *c, pid_t pid)
{
    int stops = 0;

    while (__atomic_load_n(&c->alive, __ATOMIC_ACQUIRE) != 0) {
        struct timespec wait = {.tv_nsec = LOOK_AGAIN_NS};
        if (wait_on(&c->alive, &wait) == -ETIMEDOUT)
            continue_stopped(a, c, pid, &stops);
    }
}

/* Lists each directory of PATH joined with the name; a name with a slash is used as it is. */
static int find_candidates(const char *path, const char *name, struct atoll_buf *out)
{
    int r = 0;

    if (*name == '\0')
        return atoll_buf_append(out, "\0", 2);
    if (strchr(name, '/'))
        r = atoll_buf_append(out, name, strlen(name) + 1);
    else
        for (const char *end = path; r == 0 && end; path = end + 1) {
            end = strchr(path, ':');
            int n = (int)(end ? end - path : (ptrdiff_t)strlen(path));
            r = atoll_buf_appendf(out, "%.*s/%s%c", n > 0 ? n : 1, n > 0 ? path : ".", name, '\0');
            if (!end)
                break;
        }
    return r < 0 ? r : atoll_buf_append(out, "", 1);
}

static int explain_cwd(struct atoll_error *err, int errnum, const char *cwd)
{
    if (errnum == ENOENT)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errnum, "cwd %.300s does not exist",
                          cwd);
    if (errnum == ENOTDIR)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errnum, "cwd %.300s is not a directory",
                          cwd);
    if (errnum == EACCES)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, errnum, "cwd %.300s: permission denied",
                          cwd);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errnum, "cwd %.300s: %s", cwd,
                      strerror(errnum));
}

static int explain_exec(struct atoll_error *err, const struct child *c, const char *command)
{
    switch (c->errnum) {
    case ENOENT:
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "command not found: %.300s", command);
    case EACCES:
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EACCES,
                          "%.300s: permission denied, or not an executable file", command);
    case ENOEXEC:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOEXEC,
                          c->no_interpreter ? "%.300s: its interpreter or loader does not exist"
                                            : "%.300s is not a program that can run here",
                          command);
    case E2BIG:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "%.300s: arguments and environment are too long", command);
    case ENOMEM:
    case EAGAIN:
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, c->errnum,
                          "%.300s: not enough memory to start", command);
    default:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, c->errnum, "cannot run %.300s: %s",
                          command, strerror(c->errnum));
    }
}

static int explain(struct atoll_error *err, const struct child *c, const char *command)
{
    const struct atoll_agent_user *user = c->launch->user;

    switch (c->failed) {
    case STEP_EXEC:
        return explain_exec(err, c, command);
    case STEP_CWD:
        return explain_cwd(err, c->errnum, c->launch->cwd);
    case STEP_IDENTITY:
        if (c->errnum == EINVAL)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                              "the ids of user %s (%u:%u) are not mapped into this sandbox",
                              user->name, user->uid, user->gid);
        return atoll_fail_errno(err, c->errnum, "become user %s", user->name);
    default:
        return atoll_fail_errno(err, c->errnum, "prepare the process (step %d)", c->failed);
    }
}

static int start(struct atoll_agent *a, struct child *c, const char *command,
                 struct atoll_error *err)
{
    /* CLONE_VFORK only in gVisor, where the word is not cleared: a tenant who stops the child also
     * stops the agent. */
    int flags = CLONE_VM | SIGCHLD | (a->in_gvisor ? CLONE_VFORK : 0);
    pid_t pid = clone(child_main, child_stack + sizeof(child_stack), flags, c);

    if (pid < 0 && errno == EAGAIN)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "the sandbox has reached its limit of processes");
    if (pid < 0)
        return atoll_fail_errno(err, errno, "clone");
    if (!a->in_gvisor)
        wait_for_exec(a, c, pid);
    if (c->errnum != 0) {
        (void)waitpid(pid, NULL, 0);
        return explain(err, c, command);
    }
    atoll_agent_oom_score_later(a, pid);
    return pid;
}

int atoll_agent_launch(struct atoll_agent *a, const struct atoll_agent_launch *launch,
                       struct atoll_error *err)
{
    struct child c = {.agent = a, .launch = launch, .alive = 1};
    /* The child changes argv if the shell has to run a script. */
    const char *command = launch->argv[0];
    struct atoll_buf paths;
    int r;

    c.has_cpus = atoll_agent_views_pick_cpus(a, &c.cpus);
    atoll_buf_init(&paths, 16 * ATOLL_AGENT_PATH_MAX);
    r = find_candidates(launch->path, command, &paths);
    if (r == -ENOMEM) {
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory for the command");
    } else if (r < 0) {
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "PATH and the command are too long");
    } else {
        c.candidates = (const char *)atoll_buf_head(&paths);
        r = start(a, &c, command, err);
    }
    atoll_buf_done(&paths);
    return r;
}
