/*
 * Rows 51-61: system calls that no program in a sandbox needs. The arguments make the call fail after the
 * permission check, so that it is harmless where it is allowed; comments say how.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define ALL_REFUSED(...)                                        \
    do {                                                        \
        static const struct probe_call calls[] = {__VA_ARGS__}; \
        probe_all_refused(calls, PROBE_COUNT(calls));           \
    } while (0)

#define NO_FILE "/probe-no-such-path"

static void sc_bpf(void)
{
    static const unsigned int array_map[32] = {2, 4, 4, 1}; /* type, key, value, entries */

    ALL_REFUSED({"map", SYS_bpf, {PROBE_INT(0), array_map, PROBE_INT(sizeof(array_map))}});
}

static void sc_perf(void)
{
    /* struct perf_event_attr: a software clock, excluding the kernel. */
    static const struct {
        unsigned int type, size;
        unsigned long long config, period, sample, read, flags;
        unsigned long long rest[9];
    } attr = {.type = 1, .size = 112, .flags = 1 | 1 << 5 | 1 << 6};

    ALL_REFUSED({"self",
                 SYS_perf_event_open,
                 {&attr, PROBE_INT(0), PROBE_INT(-1), PROBE_INT(-1), PROBE_INT(0)}});
}

static void sc_userfaultfd(void)
{
    ALL_REFUSED({"user mode only", SYS_userfaultfd, {PROBE_INT(1)}},
                {"full", SYS_userfaultfd, {PROBE_INT(0)}});
}

static void sc_io_uring(void)
{
    static unsigned int params[30];

    ALL_REFUSED({"setup", SYS_io_uring_setup, {PROBE_INT(1), params}},
                {"enter", SYS_io_uring_enter, {PROBE_INT(-1)}},
                {"register", SYS_io_uring_register, {PROBE_INT(-1)}});
}

/* Without call-out information request_key starts no helper on the host. */
static void sc_keyctl(void)
{
    ALL_REFUSED(
        {"keyctl", SYS_keyctl, {PROBE_INT(0), PROBE_INT(-2), PROBE_INT(1)}},
        {"add_key", SYS_add_key, {"user", "probe", "x", PROBE_INT(1), PROBE_INT(-2)}},
        {"request_key", SYS_request_key, {"user", "probe-no-such-key", NULL, PROBE_INT(0)}});
}

/* The harness puts a key into the session keyring the daemon was started with. */
static void key_session(void)
{
    const char *name = probe_need("key");

    if (syscall(SYS_keyctl, 10 /* KEYCTL_SEARCH */, -3 /* session */, "user", name, 0) >= 0)
        probe_fail("the key of the launcher is reachable");
    probe_pass("keyctl: %s", strerror(errno));
}

/* No image, no descriptor, no such module. */
static void sc_modules(void)
{
    ALL_REFUSED({"init_module", SYS_init_module, {NULL, PROBE_INT(0), ""}},
                {"finit_module", SYS_finit_module, {PROBE_INT(-1), "", PROBE_INT(0)}},
                {"delete_module", SYS_delete_module, {"probe_no_such_module", PROBE_INT(0)}});
}

/* Flags that do not exist. */
static void sc_kexec(void)
{
    ALL_REFUSED({"kexec_load", SYS_kexec_load, {NULL, PROBE_INT(0xffff), NULL, PROBE_INT(0xffff)}},
                {"kexec_file_load",
                 SYS_kexec_file_load,
                 {PROBE_INT(-1), PROBE_INT(-1), PROBE_INT(0), NULL, PROBE_INT(0xffff)}});
}

/* The magic numbers are wrong, which the kernel checks after the capability. */
static void sc_reboot(void)
{
    ALL_REFUSED({"reboot", SYS_reboot, {PROBE_INT(0), PROBE_INT(0), PROBE_INT(0), NULL}});
}

static void sc_swap_acct_quota(void)
{
    ALL_REFUSED({"swapon", SYS_swapon, {NO_FILE, PROBE_INT(0)}},
                {"swapoff", SYS_swapoff, {NO_FILE}}, {"acct", SYS_acct, {NO_FILE}},
                {"quotactl", SYS_quotactl, {PROBE_INT(0x80000500), NO_FILE, PROBE_INT(0), NULL}});
}

/*
 * settimeofday without a time and a zone sets nothing; a tick of 0 is out of range; a null time
 * cannot be read.
 */
static void sc_clock(void)
{
    static const struct timex no_tick = {.modes = ADJ_TICK, .tick = 0};

    ALL_REFUSED({"settimeofday", SYS_settimeofday, {NULL, NULL}},
                {"adjtimex", SYS_adjtimex, {&no_tick}},
                {"clock_adjtime", SYS_clock_adjtime, {PROBE_INT(0), &no_tick}},
                {"clock_settime", SYS_clock_settime, {PROBE_INT(0), NULL}});
}

/* A negative length is refused after the capability was checked. */
static void sc_sethostname(void)
{
    ALL_REFUSED({"sethostname", SYS_sethostname, {"", PROBE_INT(-1)}},
                {"setdomainname", SYS_setdomainname, {"", PROBE_INT(-1)}});
}

#if defined(__x86_64__)
static void sc_ioports(void)
{
    ALL_REFUSED({"ioperm", SYS_ioperm, {PROBE_INT(0x80), PROBE_INT(1), PROBE_INT(1)}},
                {"iopl", SYS_iopl, {PROBE_INT(3)}});
}
#endif

static void sc_personality(void)
{
    ALL_REFUSED({"READ_IMPLIES_EXEC", SYS_personality, {PROBE_INT(0x0400000)}},
                {"ADDR_NO_RANDOMIZE", SYS_personality, {PROBE_INT(0x0040000)}},
                {"MMAP_PAGE_ZERO", SYS_personality, {PROBE_INT(0x0100000)}});
}

static void sc_legacy(void)
{
#if defined(__x86_64__)
    static char ldt[16];
#endif

    ALL_REFUSED(
#if defined(__x86_64__)
        {"modify_ldt", SYS_modify_ldt, {PROBE_INT(0), ldt, PROBE_INT(sizeof(ldt))}},
#endif
        {"fanotify_init", SYS_fanotify_init, {PROBE_INT(0x200), PROBE_INT(0)}},
        {"move_pages", SYS_move_pages, {PROBE_INT(0), PROBE_INT(0), NULL, NULL, NULL}});
}

/* Action 10 (SYSLOG_ACTION_SIZE_BUFFER) returns the size of the log and reads nothing. */
static void sc_syslog(void)
{
    ALL_REFUSED({"syslog", SYS_syslog, {PROBE_INT(10), NULL, PROBE_INT(0)}});
}

static void sc_sched_rt(void)
{
    static const int priority = 1;

    ALL_REFUSED(
        {"SCHED_FIFO", SYS_sched_setscheduler, {PROBE_INT(0), PROBE_INT(SCHED_FIFO), &priority}},
        {"nice -5", SYS_setpriority, {PROBE_INT(PRIO_PROCESS), PROBE_INT(0), PROBE_INT(-5)}},
        {"ioprio RT", SYS_ioprio_set, {PROBE_INT(1), PROBE_INT(0), PROBE_INT(1 << 13 | 4)}});
}

static int lower_oom_score(void *arg)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    (void)arg;
    if (fd < 0)
        return errno;
    return write(fd, "-1", 2) == 2 ? 0 : errno;
}

static void sc_oom_adj(void)
{
    int err = probe_in_child(lower_oom_score, NULL);

    if (!probe_refused(err))
        probe_fail("oom_score_adj went below 0: %d", err);
    probe_pass("%s", strerror(err));
}

static int raise_limit(void *arg)
{
    struct rlimit limit;

    (void)arg;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return EINVAL;
    limit.rlim_max++;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : errno;
}

static void sc_rlimit_raise(void)
{
    int err = probe_in_child(raise_limit, NULL);

    if (!probe_refused(err))
        probe_fail("the hard limit of descriptors was raised: %d", err);
    probe_pass("%s", strerror(err));
}

static const struct probe_check checks[] = {
    {51, "sc.bpf", sc_bpf},
    {52, "sc.perf", sc_perf},
    {53, "sc.userfaultfd", sc_userfaultfd},
    {54, "sc.io_uring", sc_io_uring},
    {55, "sc.keyctl", sc_keyctl},
    {55, "key.session", key_session},
    {56, "sc.modules", sc_modules},
    {56, "sc.kexec", sc_kexec},
    {56, "sc.reboot", sc_reboot},
    {56, "sc.swap_acct_quota", sc_swap_acct_quota},
    {57, "sc.clock", sc_clock},
    {57, "sc.sethostname", sc_sethostname},
#if defined(__x86_64__)
    {58, "sc.ioports", sc_ioports},
#endif
    {58, "sc.personality", sc_personality},
    {58, "sc.legacy", sc_legacy},
    {59, "sc.syslog", sc_syslog},
    {60, "sc.sched_rt", sc_sched_rt},
    {61, "sc.oom_adj", sc_oom_adj},
    {61, "sc.rlimit_raise", sc_rlimit_raise},
};

const struct probe_table probe_syscalls = {checks, PROBE_COUNT(checks)};
