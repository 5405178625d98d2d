/*
 * The control: the same probe on the bare host. It inherits everything that a careless launcher leaves
 * open: a controlling terminal, a descriptor, groups, an ambient capability, the environment and a
 * deleted working directory, so that the checks for those have something to find.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pty.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "base/fd.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"

#define RUN_MS 90000
#define ARGS_MAX 64
#define MIB (1024.0 * 1024.0)

/* Checks that depend only on our own canaries. If one of them does not find its canary, the control is
 * broken and its other results are not used. */
static const char *const fail_everywhere[] = {
    "fs.host_canary", "proc.host_process", "sock.abstract", "net.host_service",
    "env.canary",     "fd.inherited",      "ns.pid",        "ns.mnt"};

struct careless {
    const char *destroying; /* directory to be in when it is removed */
    const char *spare;      /* file to keep open */
    int terminal;           /* slave end of a terminal */
};

/* An ambient capability survives exec; only root can give one. */
static void keep_capability(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    if (syscall(SYS_capget, &head, data) < 0)
        return;
    data[0].inheritable |= 1u << CAP_CHOWN;
    if (syscall(SYS_capset, &head, data) == 0)
        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0);
}

static int become_careless(void *arg)
{
    const struct careless *c = arg;
    const gid_t groups[] = {4, 24};

    if (setsid() < 0 || ioctl(c->terminal, TIOCSCTTY, 0) < 0 || dup2(c->terminal, STDIN_FILENO) < 0)
        return -1;
    if (open(c->spare, O_RDONLY) < 0) /* without O_CLOEXEC, so that the probe inherits it */
        return -1;
    if (chdir(c->destroying) < 0 || rmdir(c->destroying) < 0)
        return -1;
    keep_capability();
    if (geteuid() == 0)
        (void)setgroups(ATOLL_ARRAY_LEN(groups), groups);
    return 0;
}

/* Enters a mount namespace with shared propagation, which not every host has. For an ordinary user also a
 * user namespace in which the user is root, because many attacks need root to succeed. */
static int become_shared(void *arg)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char map[32];

    (void)arg;
    if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) < 0)
        return -1;
    if (uid != 0) {
        (void)snprintf(map, sizeof(map), "0 %u 1", uid);
        if (atoll_fd_write_file(AT_FDCWD, "/proc/self/uid_map", map) < 0 ||
            atoll_fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
            return -1;
        (void)snprintf(map, sizeof(map), "0 %u 1", gid);
        if (atoll_fd_write_file(AT_FDCWD, "/proc/self/gid_map", map) < 0)
            return -1;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL);
}

static json_t *facts_of(const struct atoll_canary *canary, const char *only)
{
    json_t *facts = json_copy(canary->facts);
    int r = facts ? 0 : -1;

    if (r == 0)
        r = atoll_facts_set(facts, "scan", "%d", (int)canary->process.pid) |
            atoll_facts_set(facts, "init", "%d", (int)canary->process.pid) |
            atoll_facts_set(facts, "socket", "%s", canary->socket_path) |
            atoll_facts_set(facts, "state", "/") |
            json_object_set(facts, "peer", json_object_get(facts, "port")) |
            atoll_facts_set(facts, "memory", "%.0f", 64 * MIB) |
            atoll_facts_set(facts, "disk", "%.0f", 64 * MIB) | atoll_facts_set(facts, "caps", "0") |
            atoll_facts_set(facts, "tmp", "%s", canary->directory);
    if (r == 0 && only)
        r = json_object_set_new(facts, "only", json_string(only));
    if (r == 0)
        return facts;
    json_decref(facts);
    return NULL;
}

static int run_probe(const struct atoll_verify *v, const struct atoll_canary *canary,
                     const char *only, int (*prepare)(void *), void *arg, char **ret_output,
                     struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *facts = facts_of(canary, only);
    ATOLL_AUTOJSON json_t *args = facts ? atoll_facts_arguments(facts) : NULL;
    char *argv[ARGS_MAX] = {(char *)v->probe};
    const struct atoll_child_options options = {
        .argv = argv, .envp = (char *const *)canary->envp, .prepare = prepare, .arg = arg};
    struct atoll_child child;
    size_t n = 1;
    int r;

    for (size_t i = 0; i < json_array_size(args) && n + 1 < ARGS_MAX; i++)
        argv[n++] = (char *)json_string_value(json_array_get(args, i));
    r = args ? atoll_child_start(&child, &options, err)
             : atoll_fail_errno(err, ENOMEM, "arguments");
    return r < 0 ? r : atoll_child_collect(&child, ATOLL_PROBE_OUTPUT_MAX, RUN_MS, ret_output, err);
}

static int run_careless(const struct atoll_verify *v, const struct atoll_canary *canary,
                        const char *only, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *output = NULL;
    char destroying[300];
    struct careless careless = {.destroying = destroying, .spare = canary->file};
    int master, r;

    (void)snprintf(destroying, sizeof(destroying), "%s/doomed", canary->directory);
    if (mkdir(destroying, 0755) < 0 || openpty(&master, &careless.terminal, NULL, NULL, NULL) < 0)
        return atoll_fail_errno(err, errno, "a terminal for the control");
    (void)fcntl(master, F_SETFD, FD_CLOEXEC);
    (void)fcntl(careless.terminal, F_SETFD, FD_CLOEXEC);
    r = run_probe(v, canary, only, become_careless, &careless, &output, err);
    (void)close(master);
    (void)close(careless.terminal);
    if (r == 0)
        (void)atoll_probe_report(v, NULL, output, false);
    return r > 0 ? atoll_fail(err, ATOLL_ERR_INTERNAL, ECHILD, "the probe ended with status %d", r)
                 : r;
}

/* If the host does not allow it, some checks have no control; their results are UNKNOWN. */
static void run_shared(const struct atoll_verify *v, const struct atoll_canary *canary,
                       const char *only)
{
    ATOLL_AUTOFREE char *output = NULL;
    struct atoll_error ignored;

    if (geteuid() == 0)
        only = "fs.mount_propagation";
    if (run_probe(v, canary, only, become_shared, NULL, &output, &ignored) == 0)
        (void)atoll_probe_report(v, NULL, output, true);
}

int atoll_outside_run(const struct atoll_verify *v, struct atoll_canary *canary,
                      struct atoll_error *err)
{
    ATOLL_AUTOFREE char *only = atoll_probe_wanted(v);
    int r;

    if (v->only && (!only || !*only))
        return only ? 0 : atoll_fail_errno(err, ENOMEM, "checks");
    r = run_careless(v, canary, only, err);
    if (r < 0)
        return atoll_wrap(err, "the control outside");
    run_shared(v, canary, only);
    atoll_probe_report_silent(v, ATOLL_TIER_CONTROL);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fail_everywhere); i++) {
        const struct atoll_result *result =
            atoll_report_find(v->report, ATOLL_TIER_CONTROL, fail_everywhere[i]);
        if (result && result->verdict != ATOLL_VERDICT_FOUND)
            atoll_report_trouble(v->report, "the control is broken: outside, %s does not fail (%s)",
                                 fail_everywhere[i], result->evidence);
    }
    return 0;
}
