/*
 * The bound on netlink sockets: the processes of a sandbox get so many, and one more for each
 * that they close.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "test.h"

#define MANY 200
#define LEAST 8 /* for a sandbox with little memory */
#define MOST 64
#define SKIPPED 77

static int open_one(int flags)
{
    return socket(AF_NETLINK, SOCK_RAW | flags, NETLINK_ROUTE);
}

/* The number of sockets that the kernel and the agent allow; they stay open. */
static int open_many(int *fds)
{
    int n = 0;

    while (n < MANY && (fds[n] = open_one(SOCK_CLOEXEC)) >= 0)
        n++;
    return n;
}

static int expect_bound(int most)
{
    int fds[MANY], n = open_many(fds), small = 1;

    if (n != most || errno != ENOBUFS)
        return 10;
    /* However few bytes it may send, a socket counts. */
    for (int i = 0; i < n; i++)
        (void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    if (open_one(0) >= 0 || errno != ENOBUFS)
        return 11;
    /* A second descriptor keeps it. */
    if (dup(fds[0]) < 0 || close(fds[0]) < 0 || open_one(0) >= 0)
        return 12;
    (void)close(fds[1]);
    if (open_one(0) < 0 || open_one(0) >= 0)
        return 13;
    return 0;
}

static int bound_of_little_memory(void)
{
    return expect_bound(LEAST);
}

static int bound_of_much_memory(void)
{
    return expect_bound(MOST);
}

/* What programs do with them works as before. */
static int ordinary_use(void)
{
    struct ifaddrs *list = NULL;
    int plain = open_one(0), flagged = open_one(SOCK_CLOEXEC | SOCK_NONBLOCK);
    char byte;

    if (plain < 0 || fcntl(plain, F_GETFD) != 0 || fcntl(plain, F_GETFL) & O_NONBLOCK)
        return 20;
    if (flagged < 0 || fcntl(flagged, F_GETFD) != FD_CLOEXEC || recv(flagged, &byte, 1, 0) >= 0 ||
        errno != EAGAIN)
        return 21;
    for (int i = 0; i < MANY; i++) {
        if (getifaddrs(&list) < 0 || !list)
            return 22;
        freeifaddrs(list);
    }
    if (socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE) >= 0 || errno != ESOCKTNOSUPPORT)
        return 23;
    return socket(AF_UNIX, SOCK_STREAM, 0) < 0 || socket(AF_INET, SOCK_STREAM, 0) < 0 ? 24 : 0;
}

/* A process in which an agent serves one child that runs `fn`; exits with what it returns. */
static _Noreturn void serve(int (*fn)(void), uint64_t memory)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = 1, .filter = &allow};
    struct atoll_agent a = {.config.memory_limit_bytes = memory};
    struct atoll_error err;
    int status = 0;
    pid_t pid;

    (void)alarm(60);
    a.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a.proc_fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ||
        atoll_loop_new(&a.loop, &err) < 0)
        _exit(1);
    atoll_agent_netlink_open(&a);
    if (!a.netlink)
        _exit(SKIPPED); /* valgrind, or an old kernel */
    pid = fork();
    if (pid == 0)
        _exit(fn());
    while (waitpid(pid, &status, WNOHANG) == 0)
        if (atoll_loop_step(a.loop, 10, &err) < 0)
            _exit(2);
    atoll_agent_netlink_close(&a);
    a.loop = atoll_loop_free(a.loop);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

static void run(int (*fn)(void), uint64_t memory)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        serve(fn, memory);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void little_memory(void **state)
{
    (void)state;
    run(bound_of_little_memory, 1 << 20);
}

static void much_memory(void **state)
{
    (void)state;
    run(bound_of_much_memory, UINT64_C(1) << 50);
}

static void programs_work(void **state)
{
    (void)state;
    run(ordinary_use, 1 << 20);
}

/* Control: without an agent nothing is refused. */
static void without_an_agent(void **state)
{
    int fds[MANY];

    (void)state;
    assert_int_equal(open_many(fds), MANY);
    for (int i = 0; i < MANY; i++)
        (void)close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_memory),
        cmocka_unit_test(much_memory),
        cmocka_unit_test(programs_work),
        cmocka_unit_test(without_an_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
