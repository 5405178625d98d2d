/* The seccomp profile for Docker means what the policy's tables say, whatever the arguments. */
#include "test.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/defs.h"
#include "provider/docker/profile.h"
#include "sandbox/seccomp_policy.h"

#define ALLOW (-2)
#define NO_RULE (-3)

static json_t *profile;

/* First row that matches, on the low 32 bits. */
static int by_tables(const char *name, const uint64_t *args)
{
    for (const char *const *n = atoll_seccomp_allowed; *n; n++)
        if (strcmp(*n, name) == 0)
            return ALLOW;
    for (const char *const *n = atoll_seccomp_refused; *n; n++)
        if (strcmp(*n, name) == 0)
            return EPERM;
    for (const struct atoll_seccomp_row *row = atoll_seccomp_rows; row->name; row++) {
        bool match = strcmp(row->name, name) == 0;
        for (size_t i = 0; i < 2; i++)
            match = match &&
                    ((uint32_t)args[row->when[i].arg] & row->when[i].mask) == row->when[i].value;
        if (match)
            return row->errnum == 0                       ? ALLOW
                   : row->errnum == ATOLL_SECCOMP_PRETEND ? 0
                                                          : row->errnum;
    }
    return ENOSYS;
}

static bool args_match(const json_t *rule, const uint64_t *args)
{
    const json_t *arg;
    size_t i;
    unsigned seen = 0;

    json_array_foreach(json_object_get(rule, "args"), i, arg)
    {
        json_int_t index = json_integer_value(json_object_get(arg, "index"));
        uint64_t mask = (uint64_t)json_integer_value(json_object_get(arg, "value"));
        uint64_t value = (uint64_t)json_integer_value(json_object_get(arg, "valueTwo"));
        assert_string_equal(json_string_value(json_object_get(arg, "op")), "SCMP_CMP_MASKED_EQ");
        assert_true(index >= 0 && index < 6);
        assert_false(seen & 1u << index); /* libseccomp compares each argument once */
        seen |= 1u << index;
        if ((args[index] & mask) != value)
            return false;
    }
    return true;
}

/* What the profile says; rules that match must be one. */
static int by_profile(const char *name, const uint64_t *args)
{
    const json_t *rule, *n;
    size_t i, j;
    int found = NO_RULE, count = 0;

    json_array_foreach(json_object_get(profile, "syscalls"), i, rule)
    {
        json_array_foreach(json_object_get(rule, "names"), j, n)
        {
            const char *action = json_string_value(json_object_get(rule, "action"));
            if (strcmp(json_string_value(n), name) != 0 || !args_match(rule, args))
                continue;
            count++;
            found = strcmp(action, "SCMP_ACT_ALLOW") == 0
                        ? ALLOW
                        : (int)json_integer_value(json_object_get(rule, "errnoRet"));
        }
    }
    assert_true(count <= 1);
    return found;
}

static void same(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t args[6] = {a, b, c};
    int want = by_tables(name, args), got = by_profile(name, args);

    if (want != got)
        fail_msg("%s(%#lx, %#lx, %#lx): %d instead of %d", name, (unsigned long)a, (unsigned long)b,
                 (unsigned long)c, got, want);
}

static void test_plain_calls(void **state)
{
    (void)state;
    same("read", 0, 0, 0);
    same("mount", 0, 0, 0);
    same("io_uring_setup", 1, 2, 3);
    same("clone3", 0, 0, 0);
    same("sync", 0, 0, 0);
    assert_int_equal(by_profile("read", (uint64_t[6]){0}), ALLOW);
    assert_int_equal(by_profile("bpf", (uint64_t[6]){0}), EPERM);
    assert_int_equal(by_profile("clone3", (uint64_t[6]){0}), ENOSYS);
    assert_int_equal(by_profile("sync", (uint64_t[6]){0}), 0);
}

static void test_arguments(void **state)
{
    static const uint64_t high = UINT64_C(0xdeadbeef00000000);

    (void)state;
    for (unsigned bit = 0; bit < 32; bit++) {
        same("clone", 1ull << bit, 0, 0);
        same("personality", 1ull << bit, 0, 0);
        same("ioctl", 3, TIOCSTI ^ (1ull << bit), 0);
        same("ioctl", 3, TIOCLINUX ^ (1ull << bit), 0);
        same("mknod", 0, 1ull << bit, 0);
        same("socket", 1ull << bit, SOCK_STREAM, 0);
        same("socket", AF_INET, SOCK_STREAM, 1ull << bit);
        same("socket", AF_INET6, SOCK_RAW, IPPROTO_TCP ^ (1ull << bit));
    }
    same("clone", CLONE_VM | CLONE_NEWUSER, 0, 0);
    same("clone", CLONE_VM | CLONE_VFORK | 17, 0, 0);
    same("ioctl", 1, high | TIOCSTI, 0);
    same("ioctl", 1, TIOCCONS, 0);
    same("mknodat", 1, 2, S_IFCHR | 0666);
    same("mknodat", 1, 2, S_IFIFO | 0666);
    same("socket", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    same("socket", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT);
    same("socket", AF_PACKET, SOCK_RAW, 0);
    same("socket", AF_UNIX, 1, 77);
    same("socketpair", AF_UNIX, 1, 0);
    same("socketpair", AF_INET, 1, 0);
    same("personality", 0xffffffff, 0, 0);
    same("personality", 0x20008, 0, 0);
}

/* Some thousand values from a small generator, the same in every run. */
static void test_any_arguments(void **state)
{
    static const char *const names[] = {"clone", "ioctl", "mknod", "socket", "personality"};
    uint64_t x = 88172645463325252;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        uint64_t v[3];
        for (int j = 0; j < 3; j++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            v[j] = i % 3 ? x : x % 32;
        }
        same(names[i % 5], v[0], v[1], v[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_calls),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_any_arguments),
    };
    int r;

    profile = atoll_docker_profile();
    r = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(profile);
    return r;
}
