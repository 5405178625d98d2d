#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "agent/agent.h"
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/plan_run.h"
#include "sys/caps.h"
#include "sys/ns.h"

/*
 * Steps that the new process applies to itself, until it becomes the agent.
 */

int atoll_step_hostname(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_text *name = step;

    (void)b;
    if (sethostname(name->text, strlen(name->text)) < 0)
        return atoll_fail_errno(err, errno, "sethostname");
    return 0;
}

int atoll_step_loopback(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    int r = atoll_sys_network_up();

    (void)b;
    (void)step;
    return r < 0 ? atoll_fail_errno(err, -r, "bring lo up") : 0;
}

/* The limit exceeds fs.nr_open, or our hard limit without CAP_SYS_RESOURCE. */
static int refuse_open_files(uint64_t wanted, struct atoll_error *err)
{
    struct rlimit own = {0};

    (void)getrlimit(RLIMIT_NOFILE, &own);
    if (own.rlim_max >= wanted)
        return atoll_fail(err, ATOLL_ERR_OUT_OF_RANGE, EPERM,
                          "this host does not allow %llu open files (openFiles)",
                          (unsigned long long)wanted);
    return atoll_fail(err, ATOLL_ERR_OUT_OF_RANGE, EPERM,
                      "openFiles is %llu; this host allows at most %llu for a process",
                      (unsigned long long)wanted, (unsigned long long)own.rlim_max);
}

int atoll_step_rlimit(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_rlimit *want = step;
    struct rlimit limit = {want->soft, want->hard}, old;

    /* An ordinary user cannot raise a hard limit; a lower one stays. */
    if (!b->host->root && getrlimit((int)want->resource, &old) == 0) {
        limit.rlim_max = ATOLL_MIN(limit.rlim_max, old.rlim_max);
        limit.rlim_cur = ATOLL_MIN(limit.rlim_cur, limit.rlim_max);
    }
    if (setrlimit((int)want->resource, &limit) == 0)
        return 0;
    if (errno == EPERM && want->resource == RLIMIT_NOFILE)
        return refuse_open_files(want->hard, err);
    return atoll_fail_errno(err, errno, "setrlimit %u", want->resource);
}

/* After this the process cannot gain privileges. */
static int drop_rights(struct atoll_plan_run *b, struct atoll_error *err)
{
    uint64_t keep = atoll_caps_of_agent();
    int r = atoll_weakened("capabilities") ? 0 : atoll_caps_bound(keep);

    if (r < 0)
        return atoll_fail_errno(err, -r, "bounding set");
    /* With a single id setgroups() is denied. */
    if (b->ids.mode != ATOLL_IDS_SINGLE && setgroups(0, NULL) < 0)
        return atoll_fail_errno(err, errno, "setgroups");
    if (syscall(SYS_setresgid, b->ids.agent_gid, b->ids.agent_gid, b->ids.agent_gid) < 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, b->ids.agent_uid, b->ids.agent_uid, b->ids.agent_uid) < 0)
        return atoll_fail_errno(err, errno, "take on id %u", b->ids.agent_uid);
    r = atoll_caps_set(keep, keep, 0);
    if (r < 0)
        return atoll_fail_errno(err, -r, "capabilities");
    if ((!atoll_weakened("no_new_privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "no new privileges");
    return 0;
}

int atoll_self_die_with_spawn(struct atoll_plan_run *b, struct atoll_error *err)
{
    struct pollfd status = {.fd = b->status_fd};

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "PR_SET_PDEATHSIG");
    /* Spawn may have died before the prctl() above: then the status socket has no peer. */
    if (poll(&status, 1, 0) < 0 || status.revents & (POLLERR | POLLHUP))
        return atoll_fail(err, ATOLL_ERR_ABORTED, EPIPE, "spawn is gone");
    return 0;
}

int atoll_step_identity(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    uid_t owner = atoll_plan_run_owner(b);
    int r;

    (void)step;
    if (atoll_weakened("propagation") && mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0)
        return atoll_fail_errno(err, errno, "share mounts");
    /* As late as this, because earlier steps create device nodes and open a loop device. */
    r = atoll_cgroup_enter_common(&b->host->cgroups, ATOLL_CG_DEVICES);
    if (r < 0)
        return atoll_fail_errno(err, -r, "enter the devices cgroup");
    /* The remaining steps change only this process. */
    r = owner ? atoll_sys_charge_to(owner) : 0;
    if (r < 0)
        return atoll_fail_errno(err, -r, "take on uid %u", owner);
    if (!atoll_weakened("cgroup_namespace") && unshare(CLONE_NEWCGROUP) < 0)
        return atoll_fail_errno(err, errno, "cgroup namespace");
    r = b->own_clock ? atoll_sys_new_clock() : 0;
    if (r < 0)
        return atoll_fail_errno(err, -r, "time namespace");
    if (b->userns_fd >= 0 && setns(b->userns_fd, CLONE_NEWUSER) < 0)
        return atoll_fail_errno(err, errno, "enter user namespace");
    r = drop_rights(b, err);
    /* Changing ids clears the parent-death signal, so this comes after. */
    return r < 0 ? r : atoll_self_die_with_spawn(b, err);
}

int atoll_step_seccomp(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_bytes *program = step;
    size_t count = program->bytes.len / sizeof(struct sock_filter);
    struct sock_fprog fprog = {
        .len = (unsigned short)count,
        .filter = (struct sock_filter *)(uintptr_t)program->bytes.data,
    };
    ATOLL_AUTOFREE struct sock_filter *aligned = NULL;

    (void)b;
    if (count == 0 || count > BPF_MAXINSNS || program->bytes.len % sizeof(struct sock_filter) != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "filter of %zu bytes",
                          program->bytes.len);
    aligned = malloc(program->bytes.len);
    if (!aligned)
        return atoll_fail_errno(err, ENOMEM, "filter");
    memcpy(aligned, program->bytes.data, program->bytes.len);
    fprog.filter = aligned;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog) < 0)
        return atoll_fail_errno(err, errno, "seccomp");
    return 0;
}

int atoll_step_abort(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    (void)b;
    (void)step;
    return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "stopped on purpose");
}

int atoll_self_silence_stdio(void)
{
    int fd = open("/dev/null", O_RDWR);

    if (fd < 0)
        return -errno;
    for (int target = 0; target < 3; target++)
        if (dup2(fd, target) < 0)
            return -errno;
    if (fd > 2)
        (void)close(fd);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int atoll_step_agent(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_agent *want = step;
    const struct atoll_plan_run_status ready = {.op = ATOLL_PLAN_AGENT};
    int keep[4 + ATOLL_VIEW_COUNT + ATOLL_CGF_COUNT] = {b->listen_fd, b->oom_fd, b->peak_fd,
                                                        b->boot_id_fd};
    struct atoll_agent_config config = {
        .listen_fd = b->listen_fd,
        .conn_fd = ATOLL_NO_FD,
        .fds = true,
        .allow_sudo = want->allow_sudo,
        .many_ids = want->many_ids,
        .default_uid = want->uid,
        .default_gid = want->gid,
        .default_user = want->user,
        .default_home = want->home,
        .oom_fd = b->oom_fd,
        .peak_fd = b->peak_fd,
        .boot_id_fd = b->boot_id_fd,
        .memory_limit_bytes = want->memory_limit_bytes,
        .views = b->has_views ? &b->views : NULL,
        .max_execs = 256,
    };
    int r = atoll_self_silence_stdio();

    if (r < 0)
        return atoll_fail_errno(err, -r, "stdio");
    (void)prctl(PR_SET_NAME, "atoll-agent", 0, 0, 0);
    r = atoll_fd_write_all(b->status_fd, &ready, sizeof(ready));
    if (r < 0)
        return atoll_fail_errno(err, -r, "report ready");
    memcpy(keep + 4, b->views.file, sizeof(b->views.file));
    memcpy(keep + 4 + ATOLL_VIEW_COUNT, b->views.source, sizeof(b->views.source));
    qsort(keep, ATOLL_ARRAY_LEN(keep), sizeof(keep[0]), by_value);
    r = atoll_sys_close_except(3, keep, ATOLL_ARRAY_LEN(keep));
    if (r < 0)
        _exit(1);
    r = atoll_agent_run(&config, err);
    _exit(r < 0 ? 1 : 0);
}
