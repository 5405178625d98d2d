#include "spawn/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "spawn/confine.h"
#include "spawn/folders.h"
#include "sys/ns.h"

/* The keeper gives up after QUICK_DEATHS_MAX deaths in a row, each within QUICK_MS of the start, if
 * no atoll-spawn has ever listened. Otherwise it restarts atoll-spawn forever, with growing
 * pauses. */
#define QUICK_MS 1000
#define QUICK_DEATHS_MAX 20
#define RETRY_MS 100
#define SLOWDOWN_MAX 20

/* In memory shared by both keepers. */
struct shared {
    pid_t spawn, watcher; /* as of the last start */
};

struct keeper {
    struct shared *shared;
    int exe, state_fd;
    int list_fd, folder_fd[ATOLL_HOST_FOLDERS_MAX]; /* folders of the host; -1: none */
    int over_fd;                   /* eventfd, never read: written when the end is intended */
    int spawn;                     /* pidfd; ATOLL_NO_FD: must be started */
    pid_t child;                   /* pid of atoll-spawn, or 0: another keeper is its parent */
    int other;                     /* pidfd of the other keeper; ATOLL_NO_FD: must be started */
    bool killed;                   /* an atoll-spawn or a keeper was killed */
    int quick;                     /* consecutive deaths soon after the start */
    struct timespec socket_before; /* see has_listened() */
    int64_t begun_ms;
};

/* Copies our executable to a sealed memory file, which has no name and cannot be changed. */
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

static void set_over(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
}

void atoll_keeper_release(void)
{
    set_over(ATOLL_KEEPER_OVER_FD);
}

static void end(const struct keeper *k, int status) __attribute__((noreturn));

static void end(const struct keeper *k, int status)
{
    set_over(k->over_fd);
    _exit(status);
}

static bool is_ready(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static void become_spawn(const struct keeper *k) __attribute__((noreturn));

static bool pass_folders(const struct keeper *k)
{
    bool passed = dup2(k->list_fd, ATOLL_KEEPER_LIST_FD) >= 0;

    for (int i = 0; i < ATOLL_HOST_FOLDERS_MAX; i++)
        if (k->folder_fd[i] >= 0)
            passed = passed && dup2(k->folder_fd[i], ATOLL_KEEPER_FOLDERS_FD + i) >= 0;
    return passed;
}

static void become_spawn(const struct keeper *k)
{
    char *argv[] = {"atoll", NULL};

    k->shared->spawn = getpid(); /* the keeper may die before it can store it */
    if (dup2(k->state_fd, ATOLL_KEEPER_STATE_FD) >= 0 &&
        dup2(k->over_fd, ATOLL_KEEPER_OVER_FD) >= 0 && pass_folders(k))
        (void)syscall(SYS_execveat, k->exe, "", argv,
                      atoll_weakened("environment") ? environ : atoll_switches_env(),
                      AT_EMPTY_PATH);
    _exit(127);
}

static int start_spawn(struct keeper *k, struct atoll_error *err)
{
    pid_t pid = atoll_sys_clone(0, -1, &k->spawn);

    if (pid == 0)
        become_spawn(k);
    if (pid < 0)
        return atoll_fail_errno(err, -pid, "fork");
    k->shared->spawn = k->child = pid;
    k->begun_ms = atoll_clock_ms();
    return 0;
}

/* The two keepers have different names, so that a kill by name leaves one of them. */
static void set_name(const char *name)
{
    (void)prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* In the watcher, after the acting keeper died: becomes the acting keeper. */
static void take_over(struct keeper *k)
{
    set_name("atoll-keeper");
    (void)close(ATOLL_TAKE_FD(k->other));
    /* The pid belongs to another process only if all pids were used since that keeper died. */
    k->spawn = atoll_sys_pidfd_open(k->shared->spawn);
    if (k->spawn < 0)
        k->spawn = ATOLL_NO_FD;
    k->child = 0;
    k->killed = true;
    k->begun_ms = atoll_clock_ms();
    atoll_log(ATOLL_LOG_WARN, "the keeper of atoll-spawn was killed; another took its place", NULL);
}

/* The watcher waits here. Returns as the acting keeper when that was killed. */
static void watch(struct keeper *k)
{
    struct pollfd fds[] = {{.fd = k->other, .events = POLLIN},
                           {.fd = k->over_fd, .events = POLLIN}};

    set_name("atoll-watcher");
    do {
        (void)poll(fds, ATOLL_ARRAY_LEN(fds), -1);
        if (is_ready(k->over_fd))
            _exit(0);
    } while (!is_ready(k->other));
    take_over(k);
}

/* Forks twice: the watcher is not a child of the keeper, whose only child is atoll-spawn. Returns
 * at once in the acting keeper, with k->other unchanged on failure, and in the watcher when it has
 * become the acting keeper. */
static void start_watcher(struct keeper *k)
{
    ATOLL_AUTOCLOSE int self = atoll_sys_pidfd_open(getpid());
    pid_t between;

    k->shared->watcher = 0;
    between = self < 0 ? self : atoll_sys_clone(0, -1, NULL);
    if (between == 0) {
        pid_t pid = atoll_sys_clone(0, -1, NULL);

        if (pid != 0) {
            k->shared->watcher = pid;
            _exit(0);
        }
        if (k->spawn >= 0)
            (void)close(ATOLL_TAKE_FD(k->spawn));
        k->other = ATOLL_TAKE_FD(self);
        watch(k);
        return;
    }
    while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR)
        ;
    if (between > 0 && k->shared->watcher > 0)
        k->other = atoll_sys_pidfd_open(k->shared->watcher);
    if (k->other < 0)
        k->other = ATOLL_NO_FD;
}

/* The wait status of atoll-spawn. If another keeper was its parent: 0 for an intended end,
 * otherwise SIGKILL. */
static int status_of_dead(struct keeper *k)
{
    int status = 0;

    (void)close(ATOLL_TAKE_FD(k->spawn));
    if (k->child == 0)
        return is_ready(k->over_fd) ? 0 : SIGKILL;
    while (waitpid(k->child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* When the socket was created; 0: no socket. */
static struct timespec socket_time(const struct keeper *k)
{
    struct stat st;

    return fstatat(k->state_fd, "spawn.sock", &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ctim
                                                                             : (struct timespec){0};
}

/* Whether an atoll-spawn of this keeper has listened: a killed one leaves its socket. */
static bool has_listened(const struct keeper *k)
{
    struct timespec now = socket_time(k);

    return now.tv_sec != 0 &&
           (now.tv_sec != k->socket_before.tv_sec || now.tv_nsec != k->socket_before.tv_nsec);
}

static void on_spawn_ended(struct keeper *k)
{
    int status = status_of_dead(k);

    /* It exited by itself and logged the reason. After a kill only status 0 ends the keeper: what
     * the killed one left behind can make the next start fail for a moment. */
    if (WIFEXITED(status) && (!k->killed || WEXITSTATUS(status) == 0))
        end(k, WEXITSTATUS(status));
    k->killed = true;
    k->quick = atoll_clock_ms() - k->begun_ms < QUICK_MS ? k->quick + 1 : 0;
    if (k->quick > 1)
        (void)poll(NULL, 0,
                   RETRY_MS * (has_listened(k) ? ATOLL_MIN(k->quick - 1, SLOWDOWN_MAX) : 1));
    atoll_log(ATOLL_LOG_ERROR, "atoll-spawn died; starting it again", NULL);
}

static int keep(struct keeper *k, struct atoll_error *err)
{
    while (k->quick < QUICK_DEATHS_MAX || has_listened(k)) {
        struct pollfd fds[2];

        if (k->spawn < 0 && start_spawn(k, err) < 0)
            return -EAGAIN;
        if (k->other < 0 && !is_ready(k->over_fd))
            start_watcher(k);
        if (k->spawn < 0)
            continue;
        fds[0] = (struct pollfd){.fd = k->spawn, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = k->other, .events = POLLIN};
        (void)poll(fds, ATOLL_ARRAY_LEN(fds),
                   k->other < 0 && !is_ready(k->over_fd) ? RETRY_MS : -1);
        if (k->other >= 0 && is_ready(k->other))
            (void)close(ATOLL_TAKE_FD(k->other));
        if (is_ready(k->spawn))
            on_spawn_ended(k);
    }
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECHILD, "atoll-spawn dies as soon as it starts");
}

/* Moves fd above the numbers that dup2() in become_spawn() overwrites. */
static int move_up(int fd)
{
    int r = fcntl(fd, F_DUPFD_CLOEXEC, ATOLL_KEEPER_FOLDERS_FD + ATOLL_HOST_FOLDERS_MAX);

    (void)close(fd);
    return r;
}

static int keep_folders(struct keeper *k, char *const *folders, int count, struct atoll_error *err)
{
    int list, fds[ATOLL_HOST_FOLDERS_MAX];
    int r = atoll_folders_keep(folders, count, &list, fds, err);

    if (r < 0)
        return r;
    k->list_fd = move_up(list);
    for (int i = 0; i < ATOLL_HOST_FOLDERS_MAX; i++)
        k->folder_fd[i] = i < count && fds[i] >= 0 ? move_up(fds[i]) : ATOLL_NO_FD;
    return k->list_fd < 0 ? atoll_fail_errno(err, errno, "keep the folders of the host") : 0;
}

static int prepare(struct keeper *k, const char *state, struct atoll_error *err)
{
    int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    k->state_fd = move_up(fd);
    fd = sealed_self(err);
    if (fd < 0)
        return fd;
    k->exe = move_up(fd);
    k->socket_before = socket_time(k);
    k->over_fd = move_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    k->shared =
        mmap(NULL, sizeof(*k->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k->state_fd < 0 || k->exe < 0 || k->over_fd < 0 || k->shared == MAP_FAILED)
        return atoll_fail_errno(err, errno, "prepare the keeper");
    return 0;
}

int atoll_keeper_run(const char *state, char *const *folders, int folder_count,
                     struct atoll_error *err)
{
    struct keeper k = {.spawn = ATOLL_NO_FD, .other = ATOLL_NO_FD};
    int r = prepare(&k, state, err);

    if (r == 0)
        r = keep_folders(&k, folders, folder_count, err);
    if (r < 0)
        return r;
    if (atoll_confine(err) < 0)
        return -EPERM;
    (void)setsid();
    set_name("atoll-keeper");
    r = keep(&k, err);
    set_over(k.over_fd);
    return r;
}
