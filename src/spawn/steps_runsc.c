#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "base/fd.h"
#include "base/text.h"
#include "spawn/own_root.h"
#include "spawn/plan_run.h"
#include "spawn/runsc_keep.h"
#include "sys/mnt.h"
#include "sys/ns.h"

/*
 * The alternative last step: the new process becomes runsc, which runs the root on gVisor's own
 * kernel with our agent as its first process. All processes of runsc stay in this process's cgroup
 * and pid namespace, so that limits, freezing and removal are the same code as for native
 * sandboxes. The top of the disk is the bundle; the tenant's root is only its directory `r`. The
 * bundle is also mounted at ATOLL_OWN_BUNDLE, because the ids of the sandbox cannot traverse the
 * state directory.
 */

/* Spawn's root contains no programs outside /usr. */
static int check_program(const struct atoll_po_runsc *want, struct atoll_error *err)
{
    if (strncmp(want->program, "/usr/", 5) != 0 || strstr(want->program, "..") ||
        !atoll_text_is_id(want->platform))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "runsc has to be a program below /usr");
    if (access(want->program, X_OK) < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, errno, "there is no runsc");
    return 0;
}

static int show_bundle(struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, ".", true);
    int r = tree < 0 ? tree : atoll_mnt_attach(tree, AT_FDCWD, ATOLL_OWN_BUNDLE);

    return r < 0 ? atoll_fail_errno(err, -r, "show the bundle") : 0;
}

static int write_config(const struct atoll_bytes *config, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd =
        open("config.json", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, config->data, config->len);

    return r < 0 ? atoll_fail_errno(err, -r, "write config.json") : 0;
}

static int show_socket_directory(struct atoll_plan_run *b, int sandboxes_fd,
                                 struct atoll_error *err)
{
    uint32_t root = b->ids.mode == ATOLL_IDS_RANGE ? b->ids.outside : 0;
    int r = mkdir("socket", 0755) < 0 ? -errno : 0;

    if (r == 0)
        r = atoll_runsc_socket_directory(sandboxes_fd, b->id, root, "socket");
    return r < 0 ? atoll_fail_errno(err, -r, "show socket directory") : 0;
}

/* The inherited /proc shows spawn's pid namespace: runsc would mistake other processes for its
 * own. */
static int mount_proc(struct atoll_error *err)
{
    const struct atoll_mnt_option none[] = {{0}};
    ATOLL_AUTOCLOSE int fd =
        atoll_mnt_new("proc", none, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV | ATOLL_MNT_NOEXEC);
    int r = fd < 0 ? fd : atoll_mnt_attach(fd, AT_FDCWD, "/proc");

    return r < 0 ? atoll_fail_errno(err, -r, "mount proc") : 0;
}

/* Where runsc keeps its state, and files that it makes for itself; its log is a descriptor, because the
 * ids of the sandbox cannot traverse the state directory. */
static int lay_out(struct atoll_plan_run *b, const struct atoll_po_runsc *want, int *ret_log_fd,
                   struct atoll_error *err)
{
    /* With a network runsc has the ids of the sandbox. */
    uid_t owner = want->network ? b->ids.outside : 0;
    char log[64];
    int r = mkdir("runsc", 0711) < 0 || mkdir("tmp", 0755) < 0 ? -errno : 0;

    if (r < 0)
        return atoll_fail_errno(err, -r, "lay out bundle");
    r = write_config(&want->config, err);
    if (r < 0)
        return r;
    (void)snprintf(log, sizeof(log), "sandboxes/%s.log", b->id);
    *ret_log_fd = openat(b->state_fd, log, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0644);
    if (*ret_log_fd < 0 || fchown(*ret_log_fd, owner, owner) < 0 ||
        chown("runsc", owner, owner) < 0 || chown("tmp", owner, owner) < 0 ||
        chown("config.json", owner, owner) < 0)
        return atoll_fail_errno(err, errno, "own the bundle");
    return 0;
}

/* With the network of the host's kernel, runsc has no user namespace of its own for the process that runs
 * the tenant's code. So it is in that of the sandbox from its start. Netns and mounts belong to the
 * host's user namespace, so it has no capabilities over them. */
static int enter_user_namespace(struct atoll_plan_run *b, struct atoll_error *err)
{
    if (b->userns_fd < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no user namespace");
    if (setns(b->userns_fd, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "enter user namespace");
    return 0;
}

/* With a network, whose sockets cannot be saved: the process becomes runsc. */
static void run(const struct atoll_plan_run *b, const struct atoll_po_runsc *want, int log_fd)
{
    char platform[64], log[128];
    char *argv[] = {"runsc",
                    want->network ? "--network=host" : "--network=none",
                    "--ignore-cgroups",
                    "--overlay2=none",
                    "--host-uds=create",
                    "--file-access=exclusive",
                    "--root=" ATOLL_OWN_BUNDLE "/runsc",
                    platform,
                    log,
                    "run",
                    "--bundle",
                    ATOLL_OWN_BUNDLE,
                    (char *)(uintptr_t)b->id,
                    NULL};
    char *envp[] = {"PATH=/usr/sbin:/usr/bin", "TMPDIR=" ATOLL_OWN_BUNDLE "/tmp", NULL};

    (void)snprintf(platform, sizeof(platform), "--platform=%s", want->platform);
    (void)snprintf(log, sizeof(log), "--log=/proc/self/fd/%d", log_fd);
    (void)execve(want->program, argv, envp);
}

static void keep(const struct atoll_plan_run *b, const struct atoll_po_runsc *want, int log_fd,
                 int sandboxes_fd)
{
    const struct atoll_runsc_keep with = {
        .program = want->program,
        .platform = want->platform,
        .id = b->id,
        .log_fd = log_fd,
        .socket_fd = b->status_fd,
        .sandboxes_fd = sandboxes_fd,
        .root = b->ids.mode == ATOLL_IDS_RANGE ? b->ids.outside : 0,
    };

    atoll_runsc_keep(&with);
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int close_others(const struct atoll_plan_run *b, const struct atoll_po_runsc *want,
                        int log_fd, int sandboxes_fd)
{
    int fds[] = {log_fd, b->status_fd, sandboxes_fd};

    if (want->network)
        return atoll_sys_close_except(3, &log_fd, 1);
    qsort(fds, 3, sizeof(fds[0]), by_value);
    return atoll_sys_close_except(3, fds, 3);
}

int atoll_step_runsc(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_runsc *want = step;
    /* The step tells spawn whether the socket stays in use. */
    const struct atoll_plan_run_status ready = {.op = ATOLL_PLAN_RUNSC, .step = !want->network};
    int log_fd = ATOLL_NO_FD, sandboxes_fd = ATOLL_NO_FD;
    int r = check_program(want, err);

    if (r == 0 && b->root_fd < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no root yet");
    if (r == 0 && want->network && !b->new_network) /* it would have the host's network */
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no network namespace");
    if (r == 0)
        r = atoll_root_hand_out_disk(b, err);
    if (r == 0) /* the bundle is shown to runsc, with its mounts */
        r = atoll_root_drop_layers(b, err);
    if (r == 0)
        r = lay_out(b, want, &log_fd, err);
    if (r == 0) {
        sandboxes_fd = openat(b->state_fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = sandboxes_fd < 0 ? atoll_fail_errno(err, errno, "open sandboxes")
                             : show_socket_directory(b, sandboxes_fd, err);
    }
    if (r == 0)
        r = show_bundle(err);
    if (r == 0)
        r = mount_proc(err);
    if (r == 0 && want->network)
        r = enter_user_namespace(b, err);
    if (r == 0) /* changing ids clears the parent-death signal, so this comes after */
        r = atoll_self_die_with_spawn(b, err);
    if (r < 0)
        return r;
    r = atoll_self_silence_stdio();
    if (r == 0)
        r = atoll_fd_write_all(b->status_fd, &ready, sizeof(ready));
    if (r == 0)
        r = close_others(b, want, log_fd, sandboxes_fd);
    if (r < 0)
        return atoll_fail_errno(err, -r, "close spawn's descriptors");
    if (want->network)
        run(b, want, log_fd);
    else
        keep(b, want, log_fd, sandboxes_fd);
    _exit(127);
}
