/* Removing trees, also those that somebody else began to remove, or made to be in the way. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sys/tree.h"
#include "test.h"

#define NAMES 24

static void make_dir(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* top/<name>N/d/f for every N, each a directory with something in it. */
static void fill(const char *top, const char *name)
{
    for (int i = 0; i < NAMES; i++) {
        char path[256];
        int len = snprintf(path, sizeof(path), "%s/%s%x", top, name, i);

        make_dir(path);
        (void)strcpy(path + len, "/d");
        make_dir(path);
        (void)strcpy(path + len, "/d/f");
        make_file(path);
    }
}

/* The names that a removal gives are there already: it was ended in the middle, or a tenant chose them. */
static void names_in_the_way_are_no_hindrance(void **state)
{
    char top[] = "/tmp/atoll-tree-XXXXXX", path[64];

    (void)state;
    assert_non_null(mkdtemp(top));
    fill(top, ".atoll-");
    fill(top, "sandbox");
    (void)snprintf(path, sizeof(path), "%s/.atoll-%x", top, NAMES);
    make_file(path); /* and one that is no directory */
    assert_int_equal(atoll_tree_remove(AT_FDCWD, top), 0);
    assert_int_equal(access(top, F_OK), -1);
    assert_int_equal(errno, ENOENT);
}

static void a_deep_tree_goes(void **state)
{
    char top[] = "/tmp/atoll-tree-XXXXXX";
    int fd;

    (void)state;
    assert_non_null(mkdtemp(top));
    fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) {
        int next;
        assert_int_equal(mkdirat(fd, "deeper", 0755), 0);
        next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(fd);
        fd = next;
    }
    (void)close(fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, top), 0);
    assert_int_equal(access(top, F_OK), -1);
}

/* In a process without root: directories without permissions, with something in them. */
static int remove_without_permissions(void)
{
    char top[] = "/tmp/atoll-tree-XXXXXX", path[64];
    const char *const names[] = {"/a", "/a/b", "/a/b/c", "/w", "/w/work", "/w/work/x"};
    int r = (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0) || !mkdtemp(top);

    for (size_t i = 0; r == 0 && i < 6; i++) {
        (void)snprintf(path, sizeof(path), "%s%s", top, names[i]);
        r = mkdir(path, 0755) < 0;
    }
    for (size_t i = 6; r == 0 && i-- > 0;) {
        (void)snprintf(path, sizeof(path), "%s%s", top, names[i]);
        r = chmod(path, names[i][1] == 'w' ? 0 : 0555) < 0;
    }
    return r != 0 || atoll_tree_remove(AT_FDCWD, top) < 0 || access(top, F_OK) == 0;
}

static void modes_are_no_hindrance(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(remove_without_permissions());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_the_way_are_no_hindrance),
        cmocka_unit_test(a_deep_tree_goes),
        cmocka_unit_test(modes_are_no_hindrance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
