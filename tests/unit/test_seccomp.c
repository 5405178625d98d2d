/*
 * The filter, run by a small interpreter of our own: for every call of the tables, for calls nobody
 * knows, for other ABIs, and for the arguments that matter, with and without dirt in the upper half.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "sandbox/seccomp.h"
#include "sandbox/seccomp_policy.h"
#include "test.h"

static struct atoll_buf program;

static int setup(void **state)
{
    struct atoll_error err;

    (void)state;
    atoll_buf_init(&program, 65536);
    return atoll_seccomp_build(&program, &err);
}

static int teardown(void **state)
{
    (void)state;
    atoll_buf_done(&program);
    return 0;
}

static uint32_t run(const struct seccomp_data *data)
{
    const struct sock_filter *code = (const void *)atoll_buf_head(&program);
    size_t n = atoll_buf_size(&program) / sizeof(*code);
    uint32_t a = 0;

    for (size_t pc = 0; pc < n; pc++) {
        const struct sock_filter *f = &code[pc];
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(f->k + 4 <= sizeof(*data));
            memcpy(&a, (const char *)data + f->k, 4);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == f->k ? f->jt : f->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= f->k ? f->jt : f->jf;
            break;
        case BPF_RET | BPF_K:
            return f->k;
        default:
            fail_msg("instruction %#x", f->code);
        }
    }
    fail_msg("the program ran off its end");
    return 0;
}

#define ALLOWED SECCOMP_RET_ALLOW
#define FAILS(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))

static uint32_t call_with(int nr, const uint64_t args[4])
{
    struct seccomp_data data = {
        .nr = nr,
        .arch = seccomp_arch_native() == SCMP_ARCH_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64,
        .args = {args[0], args[1], args[2], args[3]}};
    return run(&data);
}

static uint32_t call(int nr)
{
    return call_with(nr, (const uint64_t[4]){0});
}

static bool has_rows(const char *name)
{
    for (const struct atoll_seccomp_row *row = atoll_seccomp_rows; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return true;
    return false;
}

static bool listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* Every number below 1024, named or not. */
static void each_call_has_the_answer_of_its_list(void **state)
{
    unsigned allowed = 0;

    (void)state;
    for (int nr = 0; nr < 1024; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
        uint32_t want = FAILS(ENOSYS);
        if (name && has_rows(name)) {
            free(name);
            continue;
        }
        if (name && listed(atoll_seccomp_refused, name))
            want = FAILS(EPERM);
        else if (name && listed(atoll_seccomp_allowed, name))
            want = ALLOWED;
        if (call(nr) != want)
            fail_msg("call %d (%s): %#x, wanted %#x", nr, name ? name : "?", call(nr), want);
        allowed += want == ALLOWED;
        free(name);
    }
    assert_true(allowed > 250);
}

static void no_name_is_in_two_lists(void **state)
{
    (void)state;
    for (const char *const *name = atoll_seccomp_allowed; *name; name++) {
        assert_false(listed(atoll_seccomp_refused, *name));
        assert_false(has_rows(*name));
    }
    for (const char *const *name = atoll_seccomp_refused; *name; name++)
        assert_false(has_rows(*name));
}

static void other_abis_do_not_exist(void **state)
{
    struct seccomp_data i386 = {.nr = SYS_getpid, .arch = AUDIT_ARCH_I386};

    (void)state;
    assert_int_equal(run(&i386), FAILS(ENOSYS));
    assert_int_equal(call(SYS_getpid | 0x40000000), FAILS(ENOSYS));
    assert_int_equal(call(-1), FAILS(ENOSYS));
}

static const struct {
    int nr;
    uint64_t args[4];
    uint32_t want;
} cases[] = {
    {SYS_clone, {SIGCHLD}, ALLOWED},
    {SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, ALLOWED},
    {SYS_clone, {CLONE_NEWUSER | SIGCHLD}, FAILS(EPERM)},
    {SYS_clone, {CLONE_NEWNET}, FAILS(EPERM)},
    {SYS_clone, {CLONE_NEWCGROUP | CLONE_THREAD}, FAILS(EPERM)},
    {SYS_clone3, {0}, FAILS(ENOSYS)},
    {SYS_unshare, {CLONE_NEWUSER}, FAILS(EPERM)},
    {SYS_sync, {0}, FAILS(0)},
    {SYS_ioctl, {0, TIOCGWINSZ}, ALLOWED},
    {SYS_ioctl, {0, TIOCSTI}, FAILS(EPERM)},
    {SYS_ioctl, {0, TIOCSTI | UINT64_C(0x100000000)}, FAILS(EPERM)},
    {SYS_ioctl, {0, TIOCLINUX}, FAILS(EPERM)},
    {SYS_ioctl, {0, TIOCCONS}, FAILS(EPERM)},
    {SYS_mknodat, {0, 0, S_IFIFO | 0600}, ALLOWED},
    {SYS_mknodat, {0, 0, S_IFCHR | 0600, 0x103}, FAILS(EPERM)},
    {SYS_mknodat, {0, 0, S_IFCHR | 0600, 0x100}, FAILS(EPERM)},
    {SYS_mknodat, {0, 0, S_IFCHR, 0}, ALLOWED}, /* a whiteout */
    {SYS_mknodat, {0, 0, S_IFBLK | 0600, 0}, FAILS(EPERM)},
    {SYS_mknodat, {0, 0, S_IFBLK | UINT64_C(0x700000000)}, FAILS(EPERM)},
    {SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, ALLOWED},
    {SYS_socket, {AF_UNIX, SOCK_STREAM, 77}, ALLOWED},
    {SYS_socket, {AF_INET, SOCK_STREAM, 0}, ALLOWED},
    {SYS_socket, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}, ALLOWED},
    {SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, FAILS(EPROTONOSUPPORT)},
    {SYS_socket, {AF_INET6, SOCK_STREAM, IPPROTO_SCTP}, FAILS(EPROTONOSUPPORT)},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}, ALLOWED},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_XFRM}, FAILS(EPROTONOSUPPORT)},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER}, FAILS(EPROTONOSUPPORT)},
    {SYS_socket, {AF_PACKET, SOCK_RAW, 0}, FAILS(EAFNOSUPPORT)},
    {SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, FAILS(EAFNOSUPPORT)},
    {SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, FAILS(EAFNOSUPPORT)},
    {SYS_socket, {AF_ALG | UINT64_C(0x100000000), SOCK_SEQPACKET, 0}, FAILS(EAFNOSUPPORT)},
    {SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0}, ALLOWED},
    {SYS_socketpair, {AF_TIPC, SOCK_STREAM, 0}, FAILS(EAFNOSUPPORT)},
    {SYS_personality, {0xffffffff}, ALLOWED},
    {SYS_personality, {0x0040000}, FAILS(EPERM)},
    {SYS_io_uring_setup, {0}, FAILS(EPERM)},
    {SYS_bpf, {0}, FAILS(EPERM)},
    {SYS_keyctl, {0}, FAILS(EPERM)},
    {SYS_mount, {0}, FAILS(EPERM)},
    {SYS_ptrace, {0}, ALLOWED},
    {SYS_execve, {0}, ALLOWED},
};

static void arguments_decide(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t got = call_with(cases[i].nr, cases[i].args);
        if (got != cases[i].want)
            fail_msg("case %zu (call %d): %#x, wanted %#x", i, cases[i].nr, got, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_has_the_answer_of_its_list),
        cmocka_unit_test(no_name_is_in_two_lists),
        cmocka_unit_test(other_abis_do_not_exist),
        cmocka_unit_test(arguments_decide),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
