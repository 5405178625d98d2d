/* Removing trees, also those that somebody else began to remove, or made to be in the way. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_the_way_are_no_hindrance),
        cmocka_unit_test(a_deep_tree_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
