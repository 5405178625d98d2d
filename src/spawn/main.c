/*
 * atoll-spawn: the only code with privilege. The daemon starts it as `atoll-spawn STATE_DIR [FOLDER…]`. That
 * process is the keeper (keeper.h): it executes a copy of the program in a sealed memory file, with
 * neither arguments nor environment, so that /proc/1/{exe,cmdline,environ} of the sandboxes, which
 * are forked from the copy, show nothing of the host. The copy is the server: it executes plans
 * until the daemon ends it, and its sandboxes die with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "proto/spawn_proto.h"
#include "spawn/disk_pool.h"
#include "spawn/hidden.h"
#include "spawn/id_block.h"
#include "spawn/keeper.h"
#include "spawn/leftovers.h"
#include "spawn/own_root.h"
#include "spawn/pool_bound.h"
#include "spawn/pool_layers.h"
#include "spawn/server.h"
#include "spawn/spare.h"

static void die(const struct atoll_error *err) __attribute__((noreturn));

static void die(const struct atoll_error *err)
{
    atoll_log(ATOLL_LOG_ERROR, "atoll-spawn cannot start", "error", err->text, NULL);
    _exit(err->kind == ATOLL_ERR_ALREADY_EXISTS ? ATOLL_SPAWN_SERVED : 1);
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
    return fd; /* never closed: the process holds the lock until it exits */
}

static int listen_for_daemon(int state_fd, struct atoll_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ATOLL_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/spawn.sock",
                   state_fd);
    (void)unlinkat(state_fd, "spawn.sock", 0); /* stale: we hold the lock */
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

    *host = (struct atoll_spawn_host){.root = geteuid() == 0,
                                      .uid = geteuid(),
                                      .gid = getegid(),
                                      .state_fd = ATOLL_KEEPER_STATE_FD,
                                      .pool_fd = ATOLL_NO_FD,
                                      .pool_groups_fd = ATOLL_NO_FD};
    if (fcntl(ATOLL_KEEPER_STATE_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(ATOLL_KEEPER_OVER_FD, F_SETFD, FD_CLOEXEC) < 0 || fchdir(ATOLL_KEEPER_STATE_FD) < 0)
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
    r = atoll_folders_open(&host->folders, host->state_fd, host->root, err);
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
        atoll_disk_pool_open(host);
    if (r >= 0 && host->root)
        r = atoll_spare_new(&host->spare, err);
    if (r >= 0)
        host->network = atoll_network_works(host->root);
    return r < 0 ? r : 0;
}

static void on_signal(void *arg, int signo)
{
    (void)signo;
    atoll_loop_stop(arg);
}

static int serve(struct atoll_error *err)
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
    atoll_pool_bound_start(loop, &host);
    atoll_pool_layers_start(loop, &host);
    r = atoll_fault("spawn.listen");
    fd = r != 0 ? atoll_fail_errno(err, r, "fault") : listen_for_daemon(host.state_fd, err);
    if (fd < 0)
        return fd;
    r = atoll_server_new(loop, &host, fd, &server, err);
    if (r == 0)
        r = atoll_loop_run(loop, err);
    atoll_fault_die("spawn.end");
    /* The daemon has removed the sandboxes it knew; any other child dies with this process. */
    (void)unlinkat(host.state_fd, "spawn.sock", 0);
    (void)!atoll_cgroups_remove_parents(&host.cgroups, host.instance);
    if (r == 0)
        atoll_keeper_release();
    return r;
}

int main(int argc, char **argv)
{
    struct atoll_error err;
    int r;

    if (argc == 1 && strcmp(argv[0], "atoll") == 0) {
        r = serve(&err);
    } else if (argc >= 2) {
        r = atoll_keeper_run(argv[1], &argv[2], argc - 2, &err);
    } else {
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "usage: atoll-spawn STATE_DIR [ACCESS:FOLDER]...");
    }
    if (r < 0)
        die(&err);
    return 0;
}
