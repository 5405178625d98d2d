#include "spawn/confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/switches.h"
#include "sys/caps.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter is not written for this architecture"
#endif

#define LAST_CALL 469 /* file_setattr: newer calls have not been reviewed */

/* In addition to the agent's capabilities, which the agent inherits from spawn. */
static const unsigned char needed[] = {
    CAP_SYS_ADMIN,    /* mounts, namespaces, hostname */
    CAP_SYS_CHROOT,   /* runsc */
    CAP_SYS_PTRACE,   /* opening a user namespace that another uid owns; runsc's ptrace platform */
    CAP_SYS_TIME,     /* offsets of a time namespace; the filter below refuses setting clocks */
    CAP_SYS_RESOURCE, /* raising hard limits, oom_score_adj */
    CAP_NET_ADMIN,    /* bringing lo up */
    CAP_MKNOD,        /* the nodes of /dev */
    CAP_SETFCAP,      /* overlay copies up files with capabilities with the mounter's credentials */
};

static const unsigned short refused[] = {
    /* kernel features with a large attack surface */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    SYS_open_by_handle_at,
    SYS_pidfd_getfd,
    /* the host's state */
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_syslog,
    SYS_vhangup,
#ifdef __x86_64__
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
#endif
};

static uint64_t capabilities(void)
{
    uint64_t keep = atoll_caps_of_agent();

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(needed); i++)
        keep |= ATOLL_CAP_BIT(needed[i]);
    return keep;
}

/* Calls of another ABI and calls newer than LAST_CALL fail with ENOSYS, refused calls with EPERM.
 * No rule depends on arguments, so the kernel answers allowed calls from a bitmap without running
 * the filter (Linux 5.11). */
static int filter_calls(void)
{
    enum { HEAD = 5, TAIL = 3, ROWS = ATOLL_ARRAY_LEN(refused), SIZE = HEAD + ROWS + TAIL };
    const uint32_t unknown = SECCOMP_RET_ERRNO | ENOSYS;
    struct sock_filter code[SIZE] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, unknown),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_CALL, ROWS + 1, 0),
    };
    struct sock_fprog program = {.len = SIZE, .filter = code};

    for (size_t i = 0; i < ROWS; i++) {
        unsigned char to_refusal = (unsigned char)(ROWS - i + 1);
        code[HEAD + i] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], to_refusal, 0);
    }
    code[HEAD + ROWS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[HEAD + ROWS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, unknown);
    code[HEAD + ROWS + 2] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

int atoll_confine(struct atoll_error *err)
{
    int r;

    if (geteuid() != 0)
        return 0;
    r = atoll_caps_keep(capabilities());
    if (r < 0)
        return atoll_fail_errno(err, -r, "give up capabilities");
    if (!atoll_weakened("no_new_privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "no_new_privs");
    r = atoll_weakened("seccomp") ? 0 : filter_calls();
    return r < 0 ? atoll_fail_errno(err, -r, "filter our system calls") : 0;
}
