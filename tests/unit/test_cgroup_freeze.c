/*
 * Freezing, on whichever cgroup versions this host has mounted: v2 needs no controller for it. Needs
 * root.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fd.h"
#include "sys/cgroup.h"
#include "test.h"

#define GROUP "freezetest"

struct fixture {
    struct atoll_cgroups cg;
    char dir[256]; /* of our parent group; "" where this version is not there */
    pid_t pid;
};

/* Where a file system of that type with that word in its options is mounted. */
static bool find_mount(const char *type, const char *word, char *out, size_t cap)
{
    char dir[160], kind[32], options[256];
    FILE *mounts = fopen("/proc/self/mounts", "re");
    bool found = false;

    while (mounts && !found &&
           fscanf(mounts, "%*s %159s %31s %255s %*d %*d", dir, kind, options) == 3)
        found = strcmp(kind, type) == 0 && strstr(options, word);
    if (mounts)
        (void)fclose(mounts);
    if (found)
        (void)snprintf(out, cap, "%s/atoll-unit-%d", dir, (int)getpid());
    return found;
}

static void open_fixture(struct fixture *f, int version)
{
    char path[320], pid[16];
    bool found = version == 2 ? find_mount("cgroup2", "rw", f->dir, sizeof(f->dir))
                              : find_mount("cgroup", "freezer", f->dir, sizeof(f->dir));

    *f->dir = found && geteuid() == 0 ? *f->dir : '\0';
    if (!*f->dir || mkdir(f->dir, 0755) < 0) {
        *f->dir = '\0';
        return;
    }
    f->cg = (struct atoll_cgroups){.version = version};
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        f->cg.parent_fd[i] = ATOLL_NO_FD;
    f->cg.parent_fd[version == 2 ? 0 : ATOLL_CG_FREEZER] =
        open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "%s/" GROUP, f->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0)
        for (;;)
            (void)pause();
    (void)snprintf(path, sizeof(path), "%s/" GROUP "/cgroup.procs", f->dir);
    (void)snprintf(pid, sizeof(pid), "%d", (int)f->pid);
    assert_int_equal(atoll_fd_write_file(AT_FDCWD, path, pid), 0);
}

static void close_fixture(struct fixture *f)
{
    char path[320];

    (void)waitpid(f->pid, NULL, 0);
    (void)snprintf(path, sizeof(path), "%s/" GROUP, f->dir);
    for (int tries = 0; tries < 200 && rmdir(path) < 0 && errno == EBUSY; tries++)
        (void)usleep(5000);
    atoll_cgroups_close(&f->cg);
    assert_int_equal(rmdir(f->dir), 0);
}

static void wait_frozen(const struct fixture *f)
{
    for (int tries = 0; tries < 1000 && atoll_cgroup_is_frozen(&f->cg, GROUP) == 0; tries++)
        (void)usleep(2000);
    assert_int_equal(atoll_cgroup_is_frozen(&f->cg, GROUP), 1);
}

static void check(int version)
{
    struct fixture f;

    open_fixture(&f, version);
    if (!*f.dir)
        skip();
    assert_true(atoll_cgroups_can_freeze(&f.cg));
    assert_int_equal(atoll_cgroup_is_frozen(&f.cg, GROUP), 0);
    assert_int_equal(atoll_cgroup_freeze(&f.cg, GROUP, true), 0);
    wait_frozen(&f);
    assert_int_equal(atoll_cgroup_freeze(&f.cg, GROUP, true), 0);
    assert_int_equal(atoll_cgroup_freeze(&f.cg, GROUP, false), 0);
    assert_int_equal(atoll_cgroup_freeze(&f.cg, GROUP, false), 0);
    assert_int_equal(atoll_cgroup_freeze(&f.cg, GROUP, true), 0);
    wait_frozen(&f);
    /* Killing thaws where it must: close_fixture() waits for the process to be gone. */
    f.cg.parent_fd[ATOLL_CG_PIDS] = f.cg.parent_fd[version == 2 ? 0 : ATOLL_CG_FREEZER];
    assert_int_equal(atoll_cgroup_kill(&f.cg, GROUP), 0);
    f.cg.parent_fd[ATOLL_CG_PIDS] = ATOLL_NO_FD;
    close_fixture(&f);
}

static void version_1(void **state)
{
    (void)state;
    check(1);
}

static void version_2(void **state)
{
    (void)state;
    check(2);
}

static void without_a_freezer(void **state)
{
    struct atoll_cgroups none = {.version = 1}, nothing = {.version = 0};

    (void)state;
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        none.parent_fd[i] = nothing.parent_fd[i] = ATOLL_NO_FD;
    assert_false(atoll_cgroups_can_freeze(&none));
    assert_false(atoll_cgroups_can_freeze(&nothing));
    assert_int_equal(atoll_cgroup_freeze(&none, GROUP, true), -EOPNOTSUPP);
    assert_int_equal(atoll_cgroup_is_frozen(&nothing, GROUP), -EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1),
        cmocka_unit_test(version_2),
        cmocka_unit_test(without_a_freezer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
