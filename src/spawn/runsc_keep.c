#include "spawn/runsc_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "spawn/own_root.h"
#include "sys/mnt.h"

#define IMAGE "checkpoint.img" /* runsc calls it so */

struct keeper {
    const struct atoll_runsc_keep *keep;
    sigset_t before; /* signal mask of runsc */
    pid_t runsc;     /* 0: it is saved */
};

int atoll_runsc_socket_directory(int sandboxes_fd, const char *id, uint32_t root, const char *at)
{
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.run", id);
    if (mkdirat(sandboxes_fd, name, 0700) < 0)
        return -errno;
    dir = openat(sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fchown(dir, root, root) < 0 || fchmod(dir, 0777) < 0)
        return -errno;
    tree = atoll_mnt_clone(dir, "", false);
    return tree < 0 ? tree : atoll_mnt_attach(tree, AT_FDCWD, at);
}

/* runsc writes only to the bounded disk, leaves cgroups to us, has no network but its own loopback, and
 * may create host sockets only for the agent. */
static pid_t start(const struct keeper *k, const char *verb, int image_fd)
{
    const struct atoll_runsc_keep *keep = k->keep;
    char platform[64], log[64], image[64];
    char *argv[16] = {"runsc",
                      "--network=none",
                      "--ignore-cgroups",
                      "--overlay2=none",
                      "--host-uds=create",
                      "--file-access=exclusive",
                      "--root=" ATOLL_OWN_BUNDLE "/runsc",
                      platform,
                      log,
                      (char *)(uintptr_t)verb};
    char *envp[] = {"PATH=/usr/sbin:/usr/bin", "TMPDIR=" ATOLL_OWN_BUNDLE "/tmp", NULL};
    int n = 10;
    pid_t pid = fork();

    if (pid != 0)
        return pid < 0 ? -errno : pid;
    (void)sigprocmask(SIG_SETMASK, &k->before, NULL);
    (void)snprintf(platform, sizeof(platform), "--platform=%s", keep->platform);
    (void)snprintf(log, sizeof(log), "--log=/proc/self/fd/%d", keep->log_fd);
    (void)snprintf(image, sizeof(image), "--image-path=/proc/self/fd/%d", image_fd);
    if (image_fd >= 0)
        argv[n++] = image;
    if (strcmp(verb, "checkpoint") != 0) {
        argv[n++] = "--bundle";
        argv[n++] = ATOLL_OWN_BUNDLE;
    }
    argv[n] = (char *)(uintptr_t)keep->id;
    if (image_fd >= 0)
        (void)fcntl(image_fd, F_SETFD, 0);
    (void)fcntl(keep->log_fd, F_SETFD, 0);
    (void)execve(keep->program, argv, envp);
    _exit(127);
}

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* As the first process of its namespace we cannot be killed by our own signal. */
static _Noreturn void end_like(int status)
{
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void answer(const struct keeper *k, char word)
{
    (void)send(k->keep->socket_fd, &word, 1, MSG_NOSIGNAL);
}

static int open_image(const struct keeper *k)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.saved", k->keep->id);
    if (mkdirat(k->keep->sandboxes_fd, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    return openat(k->keep->sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A checkpoint ends runsc, also if it fails. */
static void save(struct keeper *k)
{
    ATOLL_AUTOCLOSE int image = open_image(k);
    pid_t pid = image < 0 ? -1 : start(k, "checkpoint", image);
    int status = pid < 0 ? -1 : wait_for(pid);

    if (status != 0) {
        answer(k, ATOLL_KEEP_FAILED);
        if (pid >= 0)
            _exit(1);
        return;
    }
    (void)wait_for(k->runsc);
    k->runsc = 0;
    answer(k, ATOLL_KEEP_SAVED);
}

static void restore(struct keeper *k)
{
    static const char at[] = ATOLL_OWN_BUNDLE "/socket";
    ATOLL_AUTOCLOSE int image = open_image(k);
    int r = image < 0 ? image : 0;

    if (umount2(at, MNT_DETACH) < 0 && errno != EINVAL)
        r = -errno;
    if (r == 0)
        r = atoll_runsc_socket_directory(k->keep->sandboxes_fd, k->keep->id, k->keep->root, at);
    if (r == 0)
        r = k->runsc = start(k, "restore", image);
    if (r < 0) {
        answer(k, ATOLL_KEEP_FAILED);
        _exit(1);
    }
    answer(k, ATOLL_KEEP_RESTORED);
}

/* Everything of runsc that loses its parent becomes ours. */
static void reap(struct keeper *k)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == k->runsc)
            end_like(status);
}

void atoll_runsc_keep(const struct atoll_runsc_keep *keep)
{
    struct keeper k = {.keep = keep};
    struct signalfd_siginfo ignored;
    struct pollfd ready[2] = {{.fd = keep->socket_fd, .events = POLLIN}, {.events = POLLIN}};
    sigset_t set;
    char word;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, &k.before);
    ready[1].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    k.runsc = start(&k, "run", ATOLL_NO_FD);
    if (ready[1].fd < 0 || k.runsc < 0)
        _exit(127);
    for (;;) {
        (void)poll(ready, 2, -1);
        while (read(ready[1].fd, &ignored, sizeof(ignored)) > 0)
            ;
        reap(&k);
        if (!ready[0].revents)
            continue;
        if (recv(keep->socket_fd, &word, 1, MSG_DONTWAIT) != 1)
            ready[0].fd = -1; /* spawn is gone, and we die with it */
        else if (word == ATOLL_KEEP_SAVE && k.runsc)
            save(&k);
        else if (word == ATOLL_KEEP_RESTORE && !k.runsc)
            restore(&k);
    }
}
