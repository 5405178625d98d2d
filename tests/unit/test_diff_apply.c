/* What atoll-diff --apply does with paths that have changed since the merge looked at them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "diff/apply.h"
#include "diff/merge.h"
#include "sys/tree.h"
#include "test.h"

struct trees {
    char path[32];
    int fd;
};

static void put(const struct trees *t, const char *path, const char *text)
{
    int fd = openat(t->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void put_all(const struct trees *t, const char *name, const char *text)
{
    static const char *const tops[] = {"base", "theirs", "ours"};
    char path[64];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", tops[i], name);
        put(t, path, text);
    }
}

static void check(const struct trees *t, const char *path, const char *wanted)
{
    char text[64] = "";
    int fd = openat(t->fd, path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    assert_string_equal(text, wanted);
    (void)close(fd);
}

static int set_up(void **state)
{
    static struct trees t;

    (void)snprintf(t.path, sizeof(t.path), "/tmp/test-apply-XXXXXX");
    assert_non_null(mkdtemp(t.path));
    t.fd = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(t.fd >= 0);
    assert_int_equal(mkdirat(t.fd, "base", 0755), 0);
    assert_int_equal(mkdirat(t.fd, "theirs", 0755), 0);
    assert_int_equal(mkdirat(t.fd, "ours", 0755), 0);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    struct trees *t = *state;

    (void)close(t->fd);
    return atoll_tree_remove(AT_FDCWD, t->path);
}

static void open_view(const struct trees *t, const char *name, struct atoll_diff_view *view)
{
    struct atoll_error err;
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/%s", t->path, name);
    assert_int_equal(atoll_diff_view_open(view, path, &err), 0);
}

/* The stream that leads from base to theirs, for ours. */
static int look(const struct trees *t)
{
    struct atoll_diff_view base, theirs, ours;
    struct atoll_diff_merge m = {.ours = &ours,
                                 .stream = true,
                                 .out_fd = memfd_create("stream", MFD_CLOEXEC),
                                 .bytes_left = 1 << 20};
    struct atoll_diff_compare c = {
        .a = &base, .b = &theirs, .below = "", .fn = atoll_diff_merge_add, .arg = &m};
    struct atoll_error err;

    open_view(t, "base", &base);
    open_view(t, "theirs", &theirs);
    open_view(t, "ours", &ours);
    assert_int_equal(atoll_diff_compare(&c, &err), 0);
    assert_int_equal(atoll_diff_merge_finish(&m, &err), 0);
    assert_int_equal(m.conflicts, 0);
    atoll_diff_view_close(&base);
    atoll_diff_view_close(&theirs);
    atoll_diff_view_close(&ours);
    assert_int_equal(lseek(m.out_fd, 0, SEEK_SET), 0);
    return m.out_fd;
}

/* Carries it out in ours, and compares what it prints. */
static void apply(const struct trees *t, int stream, const char *wanted)
{
    int root = openat(t->fd, "ours", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int out = memfd_create("out", MFD_CLOEXEC);
    char text[1024] = "";
    struct atoll_error err;

    assert_int_equal(atoll_diff_apply(root, stream, out, &err), 0);
    assert_true(pread(out, text, sizeof(text) - 1, 0) >= 0);
    assert_string_equal(text, wanted);
    (void)close(out);
    (void)close(root);
    (void)close(stream);
}

#define LINE(path, ours, theirs) \
    "{\"conflict\":\"/" path "\",\"ours\":\"" ours "\",\"theirs\":\"" theirs "\"}\n"

static void test_written_meanwhile(void **state)
{
    const struct trees *t = *state;
    int stream;

    put_all(t, "changed", "base");
    put_all(t, "removed", "base");
    put_all(t, "gone", "base");
    put_all(t, "mode", "base");
    put_all(t, "free", "base");
    put(t, "theirs/changed", "fork");
    put(t, "theirs/gone", "fork");
    put(t, "theirs/mode", "fork");
    put(t, "theirs/free", "fork");
    put(t, "theirs/added", "fork");
    assert_int_equal(unlinkat(t->fd, "theirs/removed", 0), 0);
    stream = look(t);
    put(t, "ours/changed", "mine");
    put(t, "ours/removed", "mine");
    put(t, "ours/added", "mine");
    assert_int_equal(unlinkat(t->fd, "ours/gone", 0), 0);
    assert_int_equal(fchmodat(t->fd, "ours/mode", 0600, 0), 0);
    apply(t, stream,
          LINE("removed", "changed", "removed") LINE("added", "added", "added")
              LINE("changed", "changed", "changed") LINE("gone", "removed", "changed")
                  LINE("mode", "changed", "changed"));
    check(t, "ours/changed", "mine");
    check(t, "ours/removed", "mine");
    check(t, "ours/added", "mine");
    check(t, "ours/mode", "base");
    check(t, "ours/free", "fork");
    assert_int_equal(faccessat(t->fd, "ours/gone", F_OK, 0), -1);
}

static void test_file_that_becomes_a_directory(void **state)
{
    const struct trees *t = *state;
    int stream;

    put_all(t, "a", "base");
    put_all(t, "b", "base");
    assert_int_equal(unlinkat(t->fd, "theirs/a", 0), 0);
    assert_int_equal(unlinkat(t->fd, "theirs/b", 0), 0);
    assert_int_equal(mkdirat(t->fd, "theirs/a", 0755), 0);
    assert_int_equal(mkdirat(t->fd, "theirs/b", 0755), 0);
    put(t, "theirs/a/in", "fork");
    put(t, "theirs/b/in", "fork");
    stream = look(t);
    put(t, "ours/a", "mine");
    apply(t, stream, LINE("a", "changed", "changed") LINE("a/in", "removed", "added"));
    check(t, "ours/a", "mine");
    check(t, "ours/b/in", "fork");
}

static void test_directories(void **state)
{
    const struct trees *t = *state;
    int stream;

    assert_int_equal(mkdirat(t->fd, "base/left", 0755), 0);
    assert_int_equal(mkdirat(t->fd, "ours/left", 0755), 0);
    assert_int_equal(mkdirat(t->fd, "base/file", 0755), 0);
    assert_int_equal(mkdirat(t->fd, "ours/file", 0755), 0);
    assert_int_equal(mkdirat(t->fd, "theirs/new", 0755), 0);
    put(t, "theirs/file", "fork");
    put(t, "theirs/new/in", "fork");
    stream = look(t);
    put(t, "ours/left/mine", "mine"); /* not empty: stays, and says nothing */
    put(t, "ours/file/mine", "mine");
    put(t, "ours/new", "mine");
    apply(t, stream,
          LINE("new", "added", "added") LINE("file", "changed", "changed")
              LINE("new/in", "removed", "added"));
    check(t, "ours/left/mine", "mine");
    check(t, "ours/file/mine", "mine");
    check(t, "ours/new", "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_that_becomes_a_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directories, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
