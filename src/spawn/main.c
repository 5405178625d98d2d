/*
 * atoll-spawn: the only code with privilege. Started by the daemon as `atoll-spawn STATE_DIR`, it
 * runs itself once more from a sealed memory file with no arguments and no environment, so that
 * every sandbox forked off it shows nothing of the host in /proc/1/{exe,cmdline,environ}. That
 * second one serves plans until it is told to end; its sandboxes end with it. The first stays only
 * to start it again should it be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "spawn/confine.h"
#include "spawn/hidden.h"
#include "spawn/id_block.h"
#include "spawn/leftovers.h"
#include "spawn/own_root.h"
#include "spawn/server.h"
#include "spawn/spare.h"
#include "sys/ns.h"

#define STATE_FD 3 /* where the second life finds the state directory */

/* Deaths this soon after a start, this many in a row, are not worth another try. */
#define QUICK_MS 1000
#define QUICK_DEATHS_MAX 20
#define RETRY_US 100000

static void die(const struct atoll_error *err) __attribute__((noreturn));

static void die(const struct atoll_error *err)
{
    atoll_log(ATOLL_LOG_ERROR, "atoll-spawn cannot start", "error", err->text, NULL);
    _exit(1);
}

/* A copy of our own executable that nobody can change or find by name. */
static int sealed_self(struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int copy = memfd_create("atoll", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;
    off_t at = 0;

    if (self < 0 || copy < 0 || fstat(self, &st) < 0)
        return atoll_fail_errno(err, errno, "open own executable");
    while (at < st.st_size) {
        char chunk[65536];
        ssize_t n = pread(self, chunk, sizeof(chunk), at);
        if (n <= 0 || atoll_fd_write_all(copy, chunk, (size_t)n) < 0)
            return atoll_fail_errno(err, n < 0 ? errno : EIO, "copy own executable");
        at += n;
    }
    if (!atoll_weakened("sealed_program") &&
        fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return atoll_fail_errno(err, errno, "seal own executable");
    return ATOLL_TAKE_FD(copy);
}

/* One run of the real spawn. Returns how it ended, as waitpid() tells. */
static int run_once(int exe, int state_fd, int *ret_status, struct atoll_error *err)
{
    char *argv[] = {"atoll", NULL};
    pid_t pid = atoll_sys_clone(0, -1, NULL);

    if (pid == 0) {
        /* state_fd goes to STATE_FD without close-on-exec; exe is out of its way already. */
        if (dup2(state_fd, STATE_FD) == STATE_FD && fcntl(STATE_FD, F_SETFD, 0) == 0)
            (void)syscall(SYS_execveat, exe, "", argv,
                          atoll_weakened("environment") ? environ : atoll_switches_env(),
                          AT_EMPTY_PATH);
        _exit(127);
    }
    if (pid < 0)
        return atoll_fail_errno(err, -pid, "fork");
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return atoll_fail_errno(err, errno, "wait");
    return 0;
}

/* The keeper: starts spawn, and starts it again when it was killed. The daemon cannot do that: it
 * has given its privileges away by then. */
static int first_life(const char *state, struct atoll_error *err)
{
    int state_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int exe = state_fd < 0 ? -1 : sealed_self(err);

    if (state_fd < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    if (exe >= 0)
        exe = fcntl(exe, F_DUPFD_CLOEXEC, STATE_FD + 2);
    if (exe < 0)
        return atoll_fail_errno(err, errno, "copy own executable");
    if (atoll_confine(err) < 0)
        return -EPERM;
    (void)setsid();
    (void)prctl(PR_SET_NAME, "atoll-keeper", 0, 0, 0);
    for (int quick = 0, killed = false; quick < QUICK_DEATHS_MAX;) {
        int64_t begun = atoll_clock_ms();
        int status, r = run_once(exe, state_fd, &status, err);

        if (r < 0)
            return r;
        /* It ended by itself and has said why. Once it has been killed, only success is an end: what
         * the dead one left may be in the way of the next for a moment. */
        if (WIFEXITED(status) && (!killed || WEXITSTATUS(status) == 0))
            _exit(WEXITSTATUS(status));
        killed = true;
        quick = atoll_clock_ms() - begun < QUICK_MS ? quick + 1 : 0;
        if (quick > 1)
            (void)usleep(RETRY_US);
        atoll_log(ATOLL_LOG_ERROR, "atoll-spawn died; starting it again", NULL);
    }
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECHILD, "atoll-spawn dies as soon as it starts");
}

static int open_below(int dirfd, const char *name, struct atoll_error *err)
{
    int fd;

    if (mkdirat(dirfd, name, 0711) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make %s", name);
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? atoll_fail_errno(err, errno, "open %s", name) : fd;
}

/* One spawn per state directory, for as long as this process lives. */
static int take_lock(int state_fd, struct atoll_error *err)
{
    int fd = openat(state_fd, "spawn.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return atoll_fail_errno(err, errno, "open spawn.lock");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, errno,
                          "another atoll-spawn serves this state directory");
    return fd; /* never closed: the lock is the process */
}

static int listen_for_daemon(int state_fd, struct atoll_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ATOLL_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/spawn.sock",
                   state_fd);
    (void)unlinkat(state_fd, "spawn.sock", 0); /* of a dead one: we hold the lock */
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        fchmodat(state_fd, "spawn.sock", 0600, 0) < 0 || listen(fd, 4) < 0)
        return atoll_fail_errno(err, errno, "listen on spawn.sock");
    return ATOLL_TAKE_FD(fd);
}

/* A name for this instance that is the same after every restart. */
static int name_instance(struct atoll_spawn_host *host, struct atoll_error *err)
{
    struct stat st;

    if (fstat(host->state_fd, &st) < 0)
        return atoll_fail_errno(err, errno, "stat the state directory");
    (void)snprintf(host->instance, sizeof(host->instance), "%llx",
                   (unsigned long long)st.st_ino ^ ((unsigned long long)st.st_dev << 40));
    return 0;
}

static int open_host(struct atoll_spawn_host *host, struct atoll_error *err)
{
    int r;

    *host = (struct atoll_spawn_host){
        .root = geteuid() == 0, .uid = geteuid(), .gid = getegid(), .state_fd = STATE_FD};
    if (fcntl(STATE_FD, F_SETFD, FD_CLOEXEC) < 0 || fchdir(STATE_FD) < 0)
        return atoll_fail_errno(err, errno, "no state directory was passed on");
    r = atoll_fault("spawn.boot");
    if (r != 0)
        return atoll_fail_errno(err, r, "fault");
    r = take_lock(host->state_fd, err);
    if (r >= 0)
        r = name_instance(host, err);
    if (r >= 0 && host->root)
        r = atoll_id_blocks_open(host, &host->ids, err);
    if (r < 0)
        return r;
    r = atoll_cgroups_make(&host->cgroups, host->instance);
    if (r == 0)
        r = atoll_cgroups_join_common(&host->cgroups);
    if (r < 0)
        return atoll_fail_errno(err, -r, "cgroups");
    atoll_hidden_prepare(host);
    if (host->root) {
        r = atoll_own_root(host, err);
        if (r < 0)
            return r;
    }
    r = atoll_fault("spawn.sweep");
    r = r != 0 ? atoll_fail_errno(err, r, "fault") : 0;
    if (r >= 0)
        r = host->layers_fd = open_below(host->state_fd, "layers", err);
    if (r >= 0)
        r = atoll_leftovers_put_aside(host, err);
    if (r >= 0)
        r = host->sandboxes_fd = open_below(host->state_fd, "sandboxes", err);
    if (r >= 0)
        r = host->disks_fd = open_below(host->state_fd, "disks", err);
    if (r >= 0) {
        r = open_below(host->state_fd, "mnt", err);
        if (r >= 0)
            (void)close(r);
    }
    if (r >= 0 && host->root)
        r = atoll_spare_new(&host->spare, err);
    return r < 0 ? r : 0;
}

static void on_signal(void *arg, int signo)
{
    (void)signo;
    atoll_loop_stop(arg);
}

static int second_life(struct atoll_error *err)
{
    static struct atoll_spawn_host host;
    struct atoll_signals signals;
    struct atoll_hidden *hidden;
    struct atoll_server *server;
    struct atoll_loop *loop;
    sigset_t set;
    int fd, r = open_host(&host, err);

    if (r < 0)
        return r;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)signal(SIGPIPE, SIG_IGN);
    umask(022);
    r = atoll_loop_new(&loop, err);
    if (r == 0)
        r = atoll_signals_open(&signals, loop, &set, on_signal, loop, err);
    if (r == 0)
        r = atoll_hidden_start(loop, &host, &hidden, err);
    if (r < 0)
        return r;
    r = atoll_fault("spawn.listen");
    fd = r != 0 ? atoll_fail_errno(err, r, "fault") : listen_for_daemon(host.state_fd, err);
    if (fd < 0)
        return fd;
    r = atoll_server_new(loop, &host, fd, &server, err);
    if (r == 0)
        r = atoll_loop_run(loop, err);
    atoll_fault_die("spawn.end");
    /* Our children die with us; the daemon has removed what it knew, this is for the rest. */
    (void)unlinkat(host.state_fd, "spawn.sock", 0);
    (void)!atoll_cgroups_remove_parents(&host.cgroups, host.instance);
    return r;
}

int main(int argc, char **argv)
{
    struct atoll_error err;
    int r;

    if (argc == 1 && strcmp(argv[0], "atoll") == 0) {
        r = second_life(&err);
    } else if (argc == 2) {
        r = first_life(argv[1], &err);
    } else {
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "usage: atoll-spawn STATE_DIR");
    }
    if (r < 0)
        die(&err);
    return 0;
}
