/*
 * Per-user quotas of the kernel: inotify instances and watches, queued signals, bytes of message queues,
 * locked memory, pages of pipes. Keys and namespaces have quotas too, but the filter refuses their calls
 * (bomb "keys", rows 43 and 44).
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/verify/probe/bomb.h"
#include "tools/verify/probe/probe.h"

#define WATCHED_FILES 2000
#define LOCKED_BYTES 65536L
#define PIPE_BYTES 65536 /* size of a pipe for a user within the quota */

static int step_inotify(long n)
{
    (void)n;
    return inotify_init1(IN_CLOEXEC) < 0 ? errno : 0;
}

/* An instance has one watch for each file, so every WATCHED_FILES watches take a new instance. */
static int step_watch(long n)
{
    static int instance = -1;
    char name[32];
    int fd;

    if (n % WATCHED_FILES == 0)
        instance = inotify_init1(IN_CLOEXEC);
    if (instance < 0)
        return errno;
    snprintf(name, sizeof(name), "watched.%ld", n % WATCHED_FILES);
    if (n < WATCHED_FILES) {
        fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return errno;
        close(fd);
    }
    return inotify_add_watch(instance, name, IN_DELETE_SELF) < 0 ? errno : 0;
}

static int step_signal(long n)
{
    sigset_t set;

    if (n == 0) {
        sigemptyset(&set);
        sigaddset(&set, SIGRTMIN);
        sigprocmask(SIG_BLOCK, &set, NULL);
    }
    return sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 0}) < 0 ? errno : 0;
}

static int step_mqueue(long n)
{
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
    char name[48];

    snprintf(name, sizeof(name), "/bomb-%ld-%ld", (long)getpid(), n);
    if (mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &attr) == (mqd_t)-1)
        return errno;
    mq_unlink(name); /* its bytes count while it is open */
    return 0;
}

static int step_memlock(long n)
{
    int id = shmget(IPC_PRIVATE, LOCKED_BYTES, IPC_CREAT | 0600);
    int err = 0;

    (void)n;
    if (id < 0)
        return errno;
    if (shmat(id, NULL, 0) == (void *)-1 || shmctl(id, SHM_LOCK, NULL) < 0)
        err = errno;
    shmctl(id, IPC_RMID, NULL); /* removed when the last process detaches */
    return err;
}

/* Beyond the quota a pipe can still be made, but it is smaller. */
static int step_pipe_pages(long n)
{
    int fds[2];

    (void)n;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return errno;
    return fcntl(fds[0], F_GETPIPE_SZ) < PIPE_BYTES ? EDQUOT : 0;
}

static const struct probe_bomb_kind kinds[] = {
    {"inotify", step_inotify}, {"watches", step_watch},   {"signals", step_signal},
    {"mqueue", step_mqueue},   {"memlock", step_memlock}, {"pipepages", step_pipe_pages},
};
const struct probe_bomb_table probe_bombs_quota = {kinds, PROBE_COUNT(kinds)};
