/*
 * The memory that the copying of a writable layer takes. test_snapshots.c has the copying itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "spawn/snapshot_work.h"
#include "spawn/upper.h"
#include "sys/tree.h"
#include "test.h"

#define FILES 40
#define SMALL_TABLE 4096 /* bytes: less than FILES entries */

struct copying {
    char from[32], to[32];
    int from_fd, to_fd;
    struct atoll_upper *u;
};

static void write_text(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

/* 0: there is no such file. */
static ino_t inode_of(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
}

static void copying_open(struct copying *c, size_t table_bytes)
{
    (void)strcpy(c->from, "/tmp/atoll-from-XXXXXX");
    (void)strcpy(c->to, "/tmp/atoll-to-XXXXXX");
    assert_non_null(mkdtemp(c->from));
    assert_non_null(mkdtemp(c->to));
    c->from_fd = open(c->from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    c->to_fd = open(c->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    c->u = atoll_upper_new(&(struct atoll_upper_options){
        .from = c->from_fd, .to = c->to_fd, .userxattr = true, .table_bytes = table_bytes});
}

static void copying_close(struct copying *c)
{
    (void)atoll_upper_free(c->u);
    (void)close(c->from_fd);
    (void)close(c->to_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, c->from), 0);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, c->to), 0);
}

/* How many entries the second of two passes copies again. The walk comes to `one` first and to
 * d/e/two, another name of the same file, last. */
static uint64_t copied_again(size_t table_bytes)
{
    struct copying c;
    char name[16];
    uint64_t again;

    copying_open(&c, table_bytes);
    assert_int_equal(mkdirat(c.from_fd, "d", 0700), 0);
    assert_int_equal(mkdirat(c.from_fd, "d/e", 0700), 0);
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof(name), "d/f%02d", i);
        write_text(c.from_fd, name, "text");
    }
    write_text(c.from_fd, "one", "text");
    assert_int_equal(linkat(c.from_fd, "one", c.from_fd, "d/e/two", 0), 0);
    (void)usleep(20000); /* the times are over */
    assert_int_equal(atoll_upper_pass(c.u, false), 0);
    assert_int_equal(atoll_upper_pass(c.u, true), 0);
    again = atoll_upper_again(c.u);
    assert_int_equal(atoll_upper_sum(c.u).files, FILES + 4);
    assert_true(inode_of(c.to_fd, "one") && inode_of(c.to_fd, "d/f00"));
    assert_int_equal(inode_of(c.to_fd, "one"), inode_of(c.to_fd, "d/e/two"));
    copying_close(&c);
    return again;
}

static void what_is_forgotten_is_copied_again(void **state ATOLL_UNUSED)
{
    uint64_t again = copied_again(SMALL_TABLE);

    assert_true(again > 5 && again < FILES);
    assert_int_equal(copied_again(0), 0); /* the control */
}

static int pass_over_links(size_t table_bytes, bool last)
{
    struct copying c;
    char name[16], other[16];
    int r;

    copying_open(&c, table_bytes);
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof(name), "f%02d", i);
        (void)snprintf(other, sizeof(other), "l%02d", i);
        write_text(c.from_fd, name, "text");
        assert_int_equal(linkat(c.from_fd, name, c.from_fd, other, 0), 0);
    }
    r = atoll_upper_pass(c.u, last);
    copying_close(&c);
    return r;
}

static void memory_for_links_is_bounded(void **state ATOLL_UNUSED)
{
    assert_int_equal(pass_over_links(SMALL_TABLE, false), -EMLINK);
    assert_int_equal(pass_over_links(SMALL_TABLE, true), -EMLINK);
    assert_int_equal(pass_over_links(0, true), 0); /* the control */
}

/* Files of few and of many bytes: with data to the end, with a hole at the end, of holes only, empty. */
static void sizes_and_holes_are_kept(void **state ATOLL_UNUSED)
{
    static const struct {
        const char *name;
        off_t data_at, size; /* 3 bytes of data */
    } files[] = {{"full", 0, 3},         {"tail", 0, 100000},       {"head", 99997, 100000},
                 {"large", 0, 1 << 20},  {"inner", 500000, 900000}, {"end", 999997, 1000000},
                 {"holes", -1, 3 << 20}, {"empty", -1, 0}};
    struct copying c;
    struct stat st;
    char text[3];

    copying_open(&c, 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        int fd = openat(c.from_fd, files[i].name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0 && ftruncate(fd, files[i].size) == 0);
        if (files[i].data_at >= 0)
            assert_int_equal(pwrite(fd, "abc", 3, files[i].data_at), 3);
        (void)close(fd);
    }
    assert_int_equal(atoll_upper_pass(c.u, true), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        int fd = openat(c.to_fd, files[i].name, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        assert_int_equal(st.st_size, files[i].size);
        assert_true(files[i].size < 65536 || st.st_blocks * 512 < files[i].size);
        if (files[i].data_at >= 0) {
            assert_int_equal(pread(fd, text, 3, files[i].data_at), 3);
            assert_memory_equal(text, "abc", 3);
        }
        (void)close(fd);
    }
    copying_close(&c);
}

/* A lease needs the id of the owner for a moment, and the kernel forgets the signal then. */
static void the_signal_of_the_parents_death_stays(void **state ATOLL_UNUSED)
{
    int signal_number = 0, was = 0;
    struct copying c;

    if (geteuid() != 0)
        skip();
    assert_int_equal(prctl(PR_GET_PDEATHSIG, &was, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0), 0);
    copying_open(&c, 0);
    write_text(c.from_fd, "of-another", "text");
    assert_int_equal(fchownat(c.from_fd, "of-another", 1234, 1234, 0), 0);
    assert_int_equal(atoll_upper_pass(c.u, false), 0);
    assert_int_equal(prctl(PR_GET_PDEATHSIG, &signal_number, 0, 0, 0), 0);
    assert_int_equal(signal_number, SIGTERM);
    copying_close(&c);
    assert_int_equal(prctl(PR_SET_PDEATHSIG, was, 0, 0, 0), 0);
}

/* In a process of its own: the limit stays. The copy fails at its beginning, after the limit is set. */
static void the_worker_has_a_limit_of_memory(void **state ATOLL_UNUSED)
{
    const struct atoll_spawn_host host = {.sandboxes_fd = ATOLL_NO_FD};
    const struct atoll_snapshot_work work = {.host = &host, .id = "x"};
    struct rlimit limit;
    int status;
    pid_t pid;

    if (ATOLL_IS_SANITIZED)
        skip();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (atoll_snapshot_do(&work) != -EBADF || getrlimit(RLIMIT_AS, &limit) < 0)
            _exit(2);
        _exit(limit.rlim_cur > (rlim_t)1 << 30 || limit.rlim_max > (rlim_t)1 << 30);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_forgotten_is_copied_again),
        cmocka_unit_test(memory_for_links_is_bounded),
        cmocka_unit_test(sizes_and_holes_are_kept),
        cmocka_unit_test(the_signal_of_the_parents_death_stays),
        cmocka_unit_test(the_worker_has_a_limit_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
