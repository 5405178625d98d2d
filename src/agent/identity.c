/*
 * The agent's identity and switching it. The agent runs as root of its user namespace with a few
 * capabilities; file operations switch the file system ids to the tenant's user, and children take
 * the user's identity permanently. System calls are made directly: the C library's wrappers would
 * act on all threads, allocate, or write to memory that a child shares with the agent.
 *
 * In a sandbox with only one mapped id nothing is switched.
 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"
#include "base/switches.h"
#include "sys/caps.h"

/* Reduces the agent's capability sets to those it uses. A child with uid 0 gains the bounding set
 * at exec, so the bounding set becomes the capabilities of root inside. */
static int cut_capabilities(bool root_inside)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    uint64_t held;
    int r = 0;

    if (atoll_weakened("capabilities"))
        return 0;
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    held = data[0].permitted | (uint64_t)data[1].permitted << 32;
    if (held & ATOLL_CAP_BIT(CAP_SETPCAP))
        r = atoll_caps_bound(root_inside ? atoll_caps_of_sandbox_root() : 0);
    held &= atoll_caps_of_agent();
    return r < 0 ? r : atoll_caps_set(held, held, 0);
}

int atoll_agent_identity_init(struct atoll_agent *a, struct atoll_error *err)
{
    int r;

    (void)umask(0);
    if (!atoll_weakened("no_new_privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "set no_new_privs");
    r = cut_capabilities(a->config.many_ids);
    if (r < 0)
        return atoll_fail_errno(err, -r, "give up capabilities");
    if (a->config.many_ids && syscall(SYS_setgroups, 0, NULL) < 0)
        return atoll_fail_errno(err, errno, "drop supplementary groups");
    a->in_gvisor = syscall(SYS_setfsuid, -1) < 0 && errno == ENOSYS;
    if (prctl(PR_GET_PDEATHSIG, &a->parent_death_signal, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "PR_GET_PDEATHSIG");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "become undumpable");
    return 0;
}

/* A change of ids clears the parent-death signal and sets the dumpable flag to fs.suid_dumpable,
 * which is 1 on some hosts. */
static void restore_guards(const struct atoll_agent *a)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (a->parent_death_signal != 0)
        (void)prctl(PR_SET_PDEATHSIG, a->parent_death_signal, 0, 0, 0);
}

/* setfsuid and setfsgid never report failure; a call with an invalid id returns the current one. */
static uint32_t present_fsuid(void)
{
    return (uint32_t)syscall(SYS_setfsuid, -1);
}

static uint32_t present_fsgid(void)
{
    return (uint32_t)syscall(SYS_setfsgid, -1);
}

static int set_file_ids(const struct atoll_agent *a, uint32_t uid, uint32_t gid)
{
    if (a->in_gvisor)
        return syscall(SYS_setresgid, -1, gid, -1) < 0 || syscall(SYS_setresuid, -1, uid, -1) < 0
                   ? -errno
                   : 0;
    (void)syscall(SYS_setfsgid, gid);
    (void)syscall(SYS_setfsuid, uid);
    return present_fsuid() != uid || present_fsgid() != gid ? -EINVAL : 0;
}

static int switch_to(struct atoll_agent *a, uint32_t uid, uint32_t gid, const uint32_t *groups,
                     size_t group_count)
{
    int r = 0;

    if (!a->config.many_ids || (uid == 0 && gid == 0))
        return 0;
    a->acting = true;
    if (syscall(SYS_setgroups, group_count, groups) < 0)
        r = -errno;
    if (r == 0)
        r = set_file_ids(a, uid, gid);
    restore_guards(a);
    if (r < 0)
        atoll_agent_unbecome(a);
    return r;
}

int atoll_agent_become_ids(struct atoll_agent *a, uint32_t uid, uint32_t gid)
{
    return switch_to(a, uid, gid, NULL, 0);
}

static int refuse(struct atoll_error *err, int errnum, const struct atoll_agent_user *user)
{
    if (errnum == EINVAL)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the ids of user %s (%u:%u) are not mapped into this sandbox", user->name,
                          user->uid, user->gid);
    return atoll_fail_errno(err, errnum, "act as user %s", user->name);
}

int atoll_agent_become(struct atoll_agent *a, const struct atoll_agent_user *user,
                       struct atoll_error *err)
{
    int r = user->as_root ? 0 : switch_to(a, user->uid, user->gid, user->groups, user->group_count);
    return r < 0 ? refuse(err, -r, user) : 0;
}

void atoll_agent_unbecome(struct atoll_agent *a)
{
    if (!a->acting)
        return;
    a->acting = false;
    /* The uid first: it restores the capabilities to change the rest. Continuing with a wrong
     * identity would be worse than an abort. */
    if (a->in_gvisor
            ? syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0
            : syscall(SYS_setfsuid, 0) < 0 || set_file_ids(a, 0, 0) < 0)
        abort();
    (void)syscall(SYS_setgroups, 0, NULL);
    restore_guards(a);
}

int atoll_agent_become_effective(struct atoll_agent *a, const struct atoll_agent_user *user,
                                 struct atoll_error *err)
{
    if (!a->config.many_ids || (user->uid == 0 && user->gid == 0))
        return 0;
    a->acting = true;
    if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 ||
        syscall(SYS_setresgid, -1, user->gid, -1) < 0 ||
        syscall(SYS_setresuid, -1, user->uid, -1) < 0) {
        int errnum = errno;
        atoll_agent_unbecome_effective(a);
        return refuse(err, errnum, user);
    }
    restore_guards(a);
    return 0;
}

void atoll_agent_unbecome_effective(struct atoll_agent *a)
{
    if (!a->acting)
        return;
    if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0)
        abort();
    atoll_agent_unbecome(a);
}

int atoll_agent_child_identity(const struct atoll_agent *a, const struct atoll_agent_user *user)
{
    if (!a->config.many_ids)
        return 0; /* the agent's bounding set is empty: exec drops all capabilities */
    /* Only these are left in the bounding set since the agent started. EPERM: the agent runs in a
     * container of another engine without CAP_SETPCAP; there no_new_privs prevents gaining them. */
    for (uint64_t left = user->uid == 0 ? 0 : atoll_caps_of_sandbox_root(); left; left &= left - 1)
        if (prctl(PR_CAPBSET_DROP, __builtin_ctzll(left), 0, 0, 0) < 0 && errno != EPERM)
            return -errno;
    if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 ||
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0)
        return -errno;
    if (atoll_weakened("groups") && syscall(SYS_setgroups, 1, &(uint32_t){24}) < 0)
        return -errno;
    if (syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
        return -errno;
    /* Test switch without a pid namespace: processes do not die with the agent unless asked to. */
    if (atoll_weakened("pid_namespace") && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    /* The child still shares the agent's memory, which fs.suid_dumpable=1 would expose to the
     * user. */
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}
