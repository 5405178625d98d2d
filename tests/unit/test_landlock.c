/* Files are changed below one directory and nowhere else, by every thread. In a child: it is for good. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sys/landlock.h"
#include "sys/thread.h"
#include "sys/tree.h"
#include "test.h"

static char top[] = "/tmp/atoll-landlock-XXXXXX";

static const char *at(const char *name)
{
    static char path[96];

    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    return path;
}

/* 0, or the errno of the first thing that fails. */
static int change(const char *file, int flags)
{
    int fd = open(file, flags | O_WRONLY | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    (void)close(fd);
    return 0;
}

/* What a daemon does with its files still works: also moving one from directory to directory. */
static int live_inside(void)
{
    char from[96];
    int r = change(at("in/file"), O_CREAT | O_TRUNC);

    if (r != 0 || mkdir(at("in/deeper"), 0700) < 0)
        return r ? r : errno;
    (void)snprintf(from, sizeof(from), "%s", at("in/file"));
    return rename(from, at("in/deeper/file")) < 0 || unlink(at("in/deeper/file")) < 0 ? errno : 0;
}

static bool is_held(void)
{
    return change(at("new"), O_CREAT) == EACCES && change(at("old"), 0) == EACCES &&
           change("/proc/self/comm", 0) == EACCES && unlink(at("old")) < 0 && errno == EACCES &&
           truncate(at("old"), 0) < 0 && errno == EACCES && access(at("old"), R_OK) == 0;
}

static void *thread(void *arg)
{
    bool *held = arg;

    atoll_thread_enter();
    *held = is_held();
    return NULL;
}

/* The status is the number of what went wrong. */
static int try_everything(void)
{
    pthread_t other;
    bool held = false;

    if (change(at("old"), O_CREAT) != 0 || change("/proc/self/comm", 0) != 0)
        return 1; /* as it is without */
    if (atoll_landlock_prepare(at("in")) < 0)
        return 2;
    if (pthread_create(&other, NULL, thread, &held) != 0 || pthread_join(other, NULL) != 0 || !held)
        return 3;
    if (change(at("old"), 0) != 0)
        return 4; /* this thread has not entered */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || atoll_landlock_enter() < 0)
        return 5;
    return !is_held() ? 6 : live_inside() != 0 ? 7 : 0;
}

static void only_below_one_directory(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 3) {
        print_message("skipped: the Landlock of this kernel knows nothing of truncating\n");
        skip();
    }
    assert_non_null(mkdtemp(top));
    assert_return_code(mkdir(at("in"), 0700), errno);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(try_everything());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_below_one_directory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
