/*
 * The floor: what one create, /usr/bin/true and destroy costs with nothing but the kernel. The same
 * namespaces, id map, cgroups, mounts and exec as a sandbox of the `host` template, no daemon, no
 * protocol, no agent, no seccomp. Needs root. `floor --dir DIR [--v2]` serves rounds (rounds.h);
 * DIR is an empty directory, left empty. All mounts live in a namespace of this process.
 */
#include "floor_cgroup.h"
#include "floor_root.h"
#include "rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ID_COUNT 65536u
#define ID_FIRST (1u << 30) /* far from the ranges in /etc/subuid */
#define ID_RANGES 1000u

struct floor {
    const char *dir;
    struct atoll_floor_cgroup cgroup;
    unsigned round;
    bool verified; /* the first round is looked at from outside while it runs */
};

/* What the child says when /usr/bin/true is done, or could not be run. */
struct report {
    int result; /* 0 or -errno */
    struct atoll_error err;
};

static pid_t clone_process(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    struct clone_args args = {
        .flags = flags | (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
        .exit_signal = SIGCHLD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .cgroup = cgroup_fd >= 0 ? (uint64_t)cgroup_fd : 0,
    };
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int wait_for(pid_t pid, int *ret_status)
{
    while (waitpid(pid, ret_status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

static int write_map(pid_t pid, const char *file, unsigned id_base)
{
    char path[64], text[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    int n = snprintf(text, sizeof(text), "0 %u %u", id_base, ID_COUNT);
    ATOLL_AUTOCLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, (size_t)n) != n ? -errno : 0;
}

/* A user namespace needs a process while it is being mapped; the descriptor keeps it afterwards. */
static int make_userns(unsigned id_base, int *ret_fd, struct atoll_error *err)
{
    char path[64];
    int pidfd = ATOLL_NO_FD, status;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    pid_t pid = clone_process(CLONE_NEWUSER | CLONE_PIDFD, -1, &pidfd);
    if (pid < 0)
        return atoll_fail_errno(err, errno, "clone3 for the user namespace");
    if (pid == 0) {
        for (;;)
            (void)pause();
    }
    int r = write_map(pid, "uid_map", id_base);
    if (r >= 0)
        r = write_map(pid, "gid_map", id_base);
    if (r >= 0) {
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : 0;
    }
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    (void)close(pidfd);
    int waited = wait_for(pid, &status);
    if (r < 0 || waited < 0)
        return atoll_fail_errno(err, r < 0 ? -r : -waited, "map the user namespace");
    *ret_fd = ATOLL_TAKE_FD(fd);
    return 0;
}

static int run_true(struct atoll_error *err)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        (void)execl("/usr/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || wait_for(pid, &status) < 0)
        return atoll_fail_errno(err, errno, "run /usr/bin/true");
    if (status != 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "/usr/bin/true: wait status %#x",
                          status);
    return 0;
}

static int child_setup(const struct floor *f, int userns_fd, unsigned id_base,
                       struct atoll_error *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return atoll_fail_errno(err, errno, "PR_SET_PDEATHSIG");
    int r = atoll_floor_cgroup_enter(&f->cgroup);
    if (r < 0)
        return atoll_fail_errno(err, -r, "enter the cgroup");
    r = atoll_floor_root_enter(f->dir, userns_fd, id_base, err);
    if (r < 0)
        return r;
    /* The mount namespace stays with the parent user namespace: the sandbox cannot mount. */
    if (unshare(CLONE_NEWCGROUP) < 0 || setns(userns_fd, CLONE_NEWUSER) < 0)
        return atoll_fail_errno(err, errno, "enter the cgroup and user namespaces");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "become root inside");
    return run_true(err);
}

static void child_main(const struct floor *f, int userns_fd, unsigned id_base, int report_fd)
{
    struct report report = {0};
    report.result = child_setup(f, userns_fd, id_base, &report.err);
    if (write(report_fd, &report, sizeof(report)) != sizeof(report))
        _exit(EXIT_FAILURE);
    for (;;)
        (void)pause(); /* PID 1 of the sandbox stays until it is destroyed */
}

static int verify_child(const struct floor *f, pid_t pid, unsigned id_base, struct atoll_error *err)
{
    static const char *const spaces[] = {"mnt", "pid", "net", "ipc", "uts", "cgroup", "user"};
    char path[64], ours[64], theirs[64], map[128];
    int r = atoll_floor_cgroup_verify(&f->cgroup, pid, err);
    if (r >= 0)
        r = atoll_floor_root_verify(pid, err);
    for (size_t i = 0; r >= 0 && i < ATOLL_ARRAY_LEN(spaces); i++) {
        (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
        ssize_t a = readlink(path, ours, sizeof(ours));
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, spaces[i]);
        ssize_t b = readlink(path, theirs, sizeof(theirs));
        if (a <= 0 || b <= 0 || (a == b && memcmp(ours, theirs, (size_t)a) == 0))
            r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO, "%s is not private",
                           spaces[i]);
    }
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
    FILE *file = fopen(path, "re");
    unsigned inside = 1, outside = 0, count = 0;
    bool ok = file && fgets(map, sizeof(map), file) &&
              sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
              outside == id_base && count == ID_COUNT;
    if (file)
        (void)fclose(file);
    return ok ? 0 : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO, "wrong id map");
}

static int read_report(int fd, struct atoll_error *err)
{
    struct report report;
    ssize_t n;
    do
        n = read(fd, &report, sizeof(report));
    while (n < 0 && errno == EINTR);
    if (n != sizeof(report))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "the child died before it was done");
    if (report.result < 0)
        *err = report.err;
    return report.result;
}

/* Runs the sandbox to its end: born, true, killed, reaped. */
static int run_sandbox(struct floor *f, int userns_fd, unsigned id_base, struct atoll_error *err)
{
    const uint64_t flags =
        CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD;
    int pipe_fds[2], pidfd = ATOLL_NO_FD, status;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return atoll_fail_errno(err, errno, "pipe");
    ATOLL_AUTOCLOSE int report_fd = pipe_fds[0];
    pid_t pid = clone_process(flags, f->cgroup.v2 ? f->cgroup.dir_fd : -1, &pidfd);
    if (pid == 0)
        child_main(f, userns_fd, id_base, pipe_fds[1]);
    (void)close(pipe_fds[1]);
    if (pid < 0)
        return atoll_fail_errno(err, errno, "clone3 of the sandbox");

    int r = read_report(report_fd, err);
    if (r >= 0 && !f->verified) {
        r = verify_child(f, pid, id_base, err);
        f->verified = r >= 0;
    }
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    (void)close(pidfd);
    if (wait_for(pid, &status) < 0 && r >= 0)
        r = atoll_fail_errno(err, errno, "reap the sandbox");
    return r;
}

static int run_round(void *ctx, double *ret_ms, struct atoll_error *err)
{
    struct floor *f = ctx;
    struct atoll_error ignored;
    unsigned id_base = ID_FIRST + ID_COUNT * (f->round % ID_RANGES);
    double start = atoll_rounds_now_ms();

    ATOLL_AUTOCLOSE int userns_fd = ATOLL_NO_FD;
    int r = make_userns(id_base, &userns_fd, err);
    if (r < 0)
        return r;
    r = atoll_floor_cgroup_create(&f->cgroup, f->round++, err);
    if (r >= 0)
        r = run_sandbox(f, userns_fd, id_base, err);
    int removed = atoll_floor_cgroup_destroy(&f->cgroup, r < 0 ? &ignored : err);
    *ret_ms = atoll_rounds_now_ms() - start;
    return r < 0 ? r : removed;
}

static int serve(struct floor *f, bool force_v2, struct atoll_error *err)
{
    char hello[128];
    double ms;
    /* Private first: none of our mounts may be seen by, or stay with, the host. */
    if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return atoll_fail_errno(err, errno, "unshare the mount namespace (this needs root)");
    int r = atoll_floor_root_prepare(f->dir, err);
    if (r >= 0)
        r = atoll_floor_cgroup_open(&f->cgroup, force_v2, err);
    if (r >= 0)
        r = run_round(f, &ms, err);
    if (r < 0)
        return r;
    atoll_floor_cgroup_describe(&f->cgroup, hello, sizeof(hello));
    /* It prints its own failure, which is why *err stays empty. */
    return atoll_rounds_serve(hello, run_round, f);
}

int main(int argc, char **argv)
{
    struct atoll_error err = {0}, left = {0};
    bool force_v2 = argc == 4 && strcmp(argv[3], "--v2") == 0;

    if (argc < 3 || strcmp(argv[1], "--dir") != 0 || (argc > 3 && !force_v2)) {
        fprintf(stderr, "usage: floor --dir EMPTY_DIRECTORY [--v2]\n");
        return 2;
    }
    struct floor f = {.dir = argv[2]};
    atoll_rounds_catch_signals();
    int r = serve(&f, force_v2, &err);
    if (r < 0 && err.text[0])
        (void)atoll_rounds_report(&err);
    int cgroups = atoll_floor_cgroup_remove(&f.cgroup, &left);
    int files = atoll_floor_root_remove(f.dir, &left);
    if (cgroups < 0 || files < 0) {
        fprintf(stderr, "floor: left behind: %s\n", left.text);
        r = -EBUSY;
    }
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
