/* Killing what is in a group where the kernel has no call for that. The group is a plain directory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sys/cgroup.h"
#include "sys/tree.h"
#include "test.h"

#define READ_AT_ONCE (16 * 1024)
#define NOBODY "99999999\n" /* more than pids go up to */

static pid_t start_process(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        for (;;)
            (void)pause();
    return pid;
}

static bool is_dead(pid_t pid)
{
    for (int tries = 0; tries < 20; tries++) {
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return true;
        (void)usleep(5000);
    }
    return false;
}

/* One of the group, and one of the host whose pid is how the last one that is read begins. */
static void a_pid_that_was_cut_is_nobodys(void **state)
{
    char top[] = "/tmp/atoll-group-XXXXXX", path[64], digits[16];
    struct atoll_cgroups cg = {.version = 1};
    pid_t inside = start_process(), outside = start_process();
    int digits_len = snprintf(digits, sizeof(digits), "%d", (int)outside);
    size_t len, cut = READ_AT_ONCE - 1 - (size_t)digits_len;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(top));
    (void)snprintf(path, sizeof(path), "%s/box", top);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/box/cgroup.procs", top);
    file = fopen(path, "we");
    assert_non_null(file);
    len = (size_t)fprintf(file, "%d\n", (int)inside);
    while (len + 2 * strlen(NOBODY) <= cut)
        len += (size_t)fprintf(file, NOBODY);
    (void)fprintf(file, "%0*d\n", (int)(cut - len - 1), 99999999);
    (void)fprintf(file, "%s7777\n", digits);
    for (int i = 0; i < 100; i++)
        (void)fprintf(file, NOBODY);
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        cg.parent_fd[i] = ATOLL_NO_FD;
    cg.parent_fd[ATOLL_CG_PIDS] = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(atoll_cgroup_kill(&cg, "box"), 0);
    assert_true(is_dead(inside));
    assert_false(is_dead(outside));
    assert_int_equal(kill(outside, SIGKILL), 0);
    (void)waitpid(outside, NULL, 0);
    atoll_cgroups_close(&cg);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_pid_that_was_cut_is_nobodys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
