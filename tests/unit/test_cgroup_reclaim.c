/* Freeing the memory of a frozen group on v2. The group is a plain directory. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "sys/cgroup.h"
#include "sys/tree.h"
#include "test.h"

struct group {
    char top[32];
    struct atoll_cgroups cg;
    int fd;
};

static void put(const struct group *g, const char *name, const char *text)
{
    int fd = openat(g->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(atoll_fd_write_all(fd, text, strlen(text)), 0);
    (void)close(fd);
}

static void expect(const struct group *g, const char *name, const char *begin)
{
    char text[64];

    assert_true(atoll_fd_read_file(g->fd, name, text, sizeof(text)) >= 0);
    text[strlen(begin)] = '\0'; /* the kernel's files do not keep the rest of what was there */
    assert_string_equal(text, begin);
}

static void make(struct group *g, const char *limit)
{
    char path[48];

    (void)snprintf(g->top, sizeof(g->top), "/tmp/atoll-group-XXXXXX");
    assert_non_null(mkdtemp(g->top));
    (void)snprintf(path, sizeof(path), "%s/box", g->top);
    assert_int_equal(mkdir(path, 0755), 0);
    g->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g->cg = (struct atoll_cgroups){.version = 2};
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        g->cg.parent_fd[i] = ATOLL_NO_FD;
    for (size_t i = 0; i < ATOLL_CG_COMMON_COUNT; i++)
        g->cg.common_fd[i] = ATOLL_NO_FD;
    g->cg.parent_fd[0] = open(g->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g->cg.has[ATOLL_CG_MEMORY] = true;
    put(g, "memory.current", "50000000\n");
    put(g, "memory.max", limit);
    put(g, "memory.swap.max", "0");
    put(g, "memory.high", "");
}

static void drop(struct group *g)
{
    (void)close(g->fd);
    (void)close(g->cg.parent_fd[0]);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, g->top), 0);
}

/* Else repeated pauses would move the memory of one sandbox to swap without end. */
static void swap_is_bounded_by_the_limit(void **state)
{
    struct group g;

    (void)state;
    make(&g, "67108864\n");
    put(&g, "memory.reclaim", "");
    assert_int_equal(atoll_cgroup_reclaim(&g.cg, "box"), 0);
    expect(&g, "memory.swap.max", "67108864");
    expect(&g, "memory.reclaim", "16777216"); /* in parts, between which it can be killed */
    atoll_cgroup_end_reclaim(&g.cg, "box");
    expect(&g, "memory.swap.max", "0");
    drop(&g);
}

static void without_a_limit_swap_is_as_it_was(void **state)
{
    struct group g;

    (void)state;
    make(&g, "max\n");
    put(&g, "memory.swap.max", "max");
    put(&g, "memory.reclaim", "");
    assert_int_equal(atoll_cgroup_reclaim(&g.cg, "box"), 0);
    atoll_cgroup_end_reclaim(&g.cg, "box");
    expect(&g, "memory.swap.max", "max");
    drop(&g);
}

/* Linux before 5.19; the process that frees may be killed between its two writes. */
static void processes_are_not_held_back_afterwards(void **state)
{
    struct group g;

    (void)state;
    make(&g, "67108864\n");
    assert_int_equal(atoll_cgroup_reclaim(&g.cg, "box"), 0);
    expect(&g, "memory.high", "max");
    put(&g, "memory.high", "0");
    atoll_cgroup_end_reclaim(&g.cg, "box");
    expect(&g, "memory.high", "max");
    drop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swap_is_bounded_by_the_limit),
        cmocka_unit_test(without_a_limit_swap_is_as_it_was),
        cmocka_unit_test(processes_are_not_held_back_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
