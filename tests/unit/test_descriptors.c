/* What a child of ours inherits: the lock of the state directory must not be among it. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sys/ns.h"
#include "test.h"

static int lock_in(int dir_fd)
{
    int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static int open_dir(char *path)
{
    int fd;

    assert_non_null(mkdtemp(path));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void remove_dir(int dir_fd, const char *path)
{
    assert_int_equal(unlinkat(dir_fd, "lock", 0), 0);
    assert_int_equal(rmdir(path), 0);
    (void)close(dir_fd);
}

/* A child with a pipe to tell that it is there, which then waits. */
static pid_t start_child(bool leaves, int *ret_pipe)
{
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = atoll_sys_clone(0, -1, NULL);
    if (pid == 0) {
        if (leaves)
            atoll_sys_leave_descriptors(fds[1]);
        if (write(fds[1], "x", 1) == 1)
            (void)pause();
        _exit(0);
    }
    assert_true(pid > 0);
    (void)close(fds[1]);
    *ret_pipe = fds[0];
    return pid;
}

static void end_child(pid_t pid, int fd)
{
    (void)close(fd);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool lock_ends_with_its_owner(bool leaves)
{
    char path[] = "/tmp/atoll-descriptors-XXXXXX", byte;
    int dir_fd = open_dir(path), lock = lock_in(dir_fd), again, fd;
    pid_t pid = start_child(leaves, &fd);
    bool free_again;

    assert_int_equal(read(fd, &byte, 1), 1); /* what it keeps works */
    (void)close(lock);
    again = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC);
    free_again = flock(again, LOCK_EX | LOCK_NB) == 0;
    (void)close(again);
    end_child(pid, fd);
    remove_dir(dir_fd, path);
    return free_again;
}

static void a_child_does_not_keep_a_lock(void **state)
{
    (void)state;
    assert_false(lock_ends_with_its_owner(false)); /* the control */
    assert_true(lock_ends_with_its_owner(true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_does_not_keep_a_lock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
