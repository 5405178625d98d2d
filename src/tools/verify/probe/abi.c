/*
 * Rows 41-42: system-call entries other than the one that the filter is written for. x86-64 only; other
 * architectures have no such second ABI.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#if defined(__x86_64__)

#define X32_BIT 0x40000000L
#define I386_GETPID 20
#define I386_SOCKETCALL 102
#define SOCKETCALL_SOCKET 1
#define AF_VSOCK_NUMBER 40

static long int80(long nr, long a, long b)
{
    long rc;

    __asm__ volatile("int $0x80"
                     : "=a"(rc)
                     : "a"(nr), "b"(a), "c"(b)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)rc;
}

static long raw_syscall(unsigned long nr, unsigned long a)
{
    long rc;

    __asm__ volatile("syscall" : "=a"(rc) : "a"(nr), "D"(a) : "rcx", "r11", "memory");
    return rc;
}

static int outcome(long rc)
{
    return rc < 0 ? (int)-rc : 0;
}

static int getpid_i386(void *arg)
{
    (void)arg;
    return outcome(int80(I386_GETPID, 0, 0));
}

static int vsock_i386(void *arg)
{
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
    uint32_t *args = mmap(NULL, 4096, prot, flags, -1, 0);

    (void)arg;
    if (args == MAP_FAILED)
        return ENOMEM;
    args[0] = AF_VSOCK_NUMBER;
    args[1] = 1; /* SOCK_STREAM */
    args[2] = 0;
    return outcome(int80(I386_SOCKETCALL, SOCKETCALL_SOCKET, (long)(uintptr_t)args));
}

static int getpid_x32(void *arg)
{
    (void)arg;
    return outcome(raw_syscall(X32_BIT | SYS_getpid, 0));
}

/* Being killed counts as refused: there is no such entry (SIGSEGV), or the filter kills us (SIGSYS). */
static void judge_abi(int (*attempt)(void *))
{
    int err = probe_in_child(attempt, NULL);

    if (err == -SIGSEGV || err == -SIGSYS)
        probe_pass("killed by signal %d", -err);
    if (err < 0 || !probe_refused(err))
        probe_fail("%s", err == 0 ? "allowed" : strerror(err));
    probe_pass("%s", strerror(err));
}

static void abi_i386(void)
{
    judge_abi(getpid_i386);
}

static void abi_i386_socket(void)
{
    judge_abi(vsock_i386);
}

static void abi_x32(void)
{
    judge_abi(getpid_x32);
}

/* The kernel takes the call number from the low half of the register. */
static void abi_rax_hi(void)
{
    long rc = raw_syscall(0xdeadbeef00000000UL | SYS_unshare, CLONE_NEWUTS);

    if (rc >= 0 || !probe_refused((int)-rc))
        probe_fail("unshare with dirty high bits gave %ld", rc);
    probe_pass("unshare: %s", strerror((int)-rc));
}

/* The tracer turns this harmless call into unshare(CLONE_NEWUTS) after its number was seen. */
static _Noreturn void traced(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(EPERM);
    raise(SIGSTOP);
    _exit(syscall(SYS_getpgid, CLONE_NEWUTS) == 0 ? 0 : errno);
}

static bool rewrite_call(pid_t pid)
{
    struct user_regs_struct regs;

    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) != 0)
        return false;
    if (regs.orig_rax == SYS_getpgid && regs.rdi == CLONE_NEWUTS) {
        regs.orig_rax = SYS_unshare;
        if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) != 0)
            return false;
    }
    return ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0;
}

static void ptrace_rewrite(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        traced();
    if (pid < 0)
        probe_skip("fork: %s", strerror(errno));
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        if (!rewrite_call(pid))
            kill(pid, SIGKILL);
    if (WIFEXITED(status) && !probe_refused(WEXITSTATUS(status)))
        probe_fail("a tracer turned getpgid into unshare: %s",
                   WEXITSTATUS(status) == 0 ? "allowed" : strerror(WEXITSTATUS(status)));
    probe_pass("refused");
}

static const struct probe_check checks[] = {
    {41, "c.abi_i386", abi_i386},
    {41, "c.abi_i386_socket", abi_i386_socket},
    {41, "c.abi_x32", abi_x32},
    {42, "c.abi_rax_hi", abi_rax_hi},
    {42, "c.ptrace_rewrite", ptrace_rewrite},
};

const struct probe_table probe_abi = {checks, PROBE_COUNT(checks)};

#else

const struct probe_table probe_abi = {NULL, 0};

#endif
