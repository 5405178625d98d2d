/* What of a tree is hidden, and the layer that hides it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "spawn/hidden_tree.h"
#include "sys/tree.h"
#include "test.h"

struct fixture {
    char path[32];
    int top, from, to;
};

static void make_file(const struct fixture *f, const char *name, mode_t mode)
{
    int fd = openat(f->from, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static void make_dir(const struct fixture *f, const char *name, mode_t mode)
{
    assert_int_equal(mkdirat(f->from, name, 0700), 0);
    assert_int_equal(fchmodat(f->from, name, mode, 0), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    (void)snprintf(f->path, sizeof(f->path), "/tmp/atoll-hidden-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->top = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(f->top, "from", 0755) | mkdirat(f->top, "to", 0755), 0);
    f->from = openat(f->top, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->to = openat(f->top, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->top >= 0 && f->from >= 0 && f->to >= 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)close(f->from);
    (void)close(f->to);
    (void)close(f->top);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->path), 0);
    free(f);
    return 0;
}

static bool is_listed(const struct atoll_buf *paths, const char *path)
{
    const char *text = (const char *)atoll_buf_head(paths);

    for (size_t at = 0; at < atoll_buf_size(paths); at += strlen(text + at) + 1)
        if (strcmp(text + at, path) == 0)
            return true;
    return false;
}

static size_t count(const struct atoll_buf *paths)
{
    size_t n = 0;

    for (size_t i = 0; i < atoll_buf_size(paths); i++)
        n += atoll_buf_head(paths)[i] == '\0';
    return n;
}

static void test_what_others_may_not_read_is_found(void **state)
{
    static const struct {
        const char *name;
        mode_t mode;
        bool hidden;
    } files[] = {{"public", 0644, false},     {"program", 0755, false}, {"secret", 0600, true},
                 {"group", 0640, true},       {"run only", 0711, true}, {"open/secret", 0400, true},
                 {"open/public", 0444, false}};
    static const struct {
        const char *name;
        mode_t mode;
        bool hidden;
    } dirs[] = {{"closed", 0700, true}, {"enter only", 0711, true}, {"list only", 0744, true}};
    struct fixture *f = *state;
    struct atoll_buf paths;
    size_t hidden = 0;

    make_dir(f, "open", 0755);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++)
        make_file(f, files[i].name, files[i].mode);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dirs); i++)
        make_dir(f, dirs[i].name, dirs[i].mode);
    make_file(f, "closed/inside", 0600);
    assert_int_equal(symlinkat("secret", f->from, "link"), 0);
    atoll_buf_init(&paths, ATOLL_HIDDEN_LIST_MAX);
    assert_int_equal(atoll_hidden_find(f->from, &paths), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        assert_int_equal(is_listed(&paths, files[i].name), files[i].hidden);
        hidden += files[i].hidden;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dirs); i++) {
        assert_int_equal(is_listed(&paths, dirs[i].name), dirs[i].hidden);
        hidden += dirs[i].hidden;
    }
    assert_int_equal(count(&paths),
                     hidden); /* and neither the link nor what is below a hidden one */
    atoll_buf_done(&paths);
}

static void test_too_many_are_an_error(void **state)
{
    struct fixture *f = *state;
    struct atoll_buf paths;

    make_file(f, "one", 0600);
    make_file(f, "two", 0600);
    atoll_buf_init(&paths, 6);
    assert_int_equal(atoll_hidden_find(f->from, &paths), -ENOBUFS);
    atoll_buf_done(&paths);
}

static void test_a_tree_deeper_than_any_is_hidden(void **state)
{
    struct fixture *f = *state;
    struct atoll_buf paths;
    int dir = fcntl(f->from, F_DUPFD_CLOEXEC, 0);

    for (int i = 0; i < 150; i++) {
        int next;
        assert_int_equal(mkdirat(dir, "d", 0755), 0);
        next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(dir);
        dir = next;
    }
    (void)close(dir);
    atoll_buf_init(&paths, ATOLL_HIDDEN_LIST_MAX);
    assert_int_equal(atoll_hidden_find(f->from, &paths), 0);
    assert_int_equal(count(&paths), 1);
    atoll_buf_done(&paths);
}

static void test_layer(void **state)
{
    static const char paths[] = "secret\0open/deep/secret\0open/closed";
    const struct timespec times[2] = {{1000, 5}, {2000, 7}};
    struct fixture *f = *state;
    struct stat st;

    make_dir(f, "open", 0755);
    make_dir(f, "open/deep", 02775);
    assert_int_equal(utimensat(f->from, "open/deep", times, 0), 0);
    assert_int_equal(atoll_hidden_lay_out(f->from, paths, sizeof(paths), f->to), 0);
    assert_int_equal(fstatat(f->to, "secret", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    assert_int_equal(fstatat(f->to, "open/closed", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    assert_int_equal(fstatat(f->to, "open/deep", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 02775);
    assert_int_equal(st.st_mtim.tv_sec, 2000);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
}

static void test_a_layer_of_what_is_gone(void **state)
{
    static const char paths[] = "gone/secret";
    struct fixture *f = *state;

    assert_int_equal(atoll_hidden_lay_out(f->from, paths, sizeof(paths), f->to), 0);
}

static void test_lists_that_are_none(void **state)
{
    static const char *const wrong[] = {"../up", "/usr/x", "a//b", "a/./b"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wrong); i++)
        assert_int_equal(atoll_hidden_lay_out(f->from, wrong[i], strlen(wrong[i]) + 1, f->to),
                         -EBADMSG);
    assert_int_equal(atoll_hidden_lay_out(f->from, "not ended", 9, f->to), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_others_may_not_read_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_are_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_tree_deeper_than_any_is_hidden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_layer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_layer_of_what_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists_that_are_none, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
