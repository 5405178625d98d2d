/*
 * What is kept of sandboxes that are gone: rows and copies come and go together, the oldest give
 * way, nothing outlives its time, and what a dead daemon left half done is swept. The collecting itself
 * needs an agent and is tested with the real daemon.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "engine/artifact/artifacts_internal.h"
#include "sys/tree.h"
#include "test.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)

struct fixture {
    char dir[40];
    struct atoll_engine engine;
};

static void open_engine(struct fixture *f)
{
    struct atoll_error err;

    assert_int_equal(atoll_loop_new(&f->engine.loop, &err), 0);
    assert_int_equal(atoll_store_open_sqlite(f->engine.state_fd, &f->engine.config.store, &err), 0);
    assert_int_equal(atoll_artifacts_new(&f->engine, &f->engine.artifacts, &err), 0);
}

static void close_engine(struct fixture *f)
{
    f->engine.artifacts = atoll_artifacts_free(f->engine.artifacts);
    f->engine.config.store = atoll_store_close(f->engine.config.store);
    f->engine.loop = atoll_loop_free(f->engine.loop);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-artifacts-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->engine.state_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->engine.config.artifacts_max_bytes = 100;
    f->engine.config.artifacts_days = 7;
    atoll_map_init(&f->engine.sandboxes);
    open_engine(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    close_engine(f);
    atoll_map_done(&f->engine.sandboxes);
    (void)close(f->engine.state_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

static void turn(struct fixture *f)
{
    for (int i = 0; i < 50; i++)
        assert_int_equal(atoll_loop_step(f->engine.loop, 0, NULL), 0);
}

/* Directories below artifacts/, those on their way out included. */
static int directories(const struct fixture *f)
{
    DIR *dir = fdopendir(openat(f->engine.state_fd, "artifacts", O_RDONLY | O_DIRECTORY));
    struct dirent *entry;
    int count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(dir);
    return count;
}

/* One file "a/b" of that many bytes. */
static void keep_of(struct fixture *f, const char *owner, const char *id, uint64_t bytes,
                    int64_t age_ms)
{
    struct atoll_kept *kept = calloc(1, sizeof(*kept));
    const struct atoll_store_artifact file = {"a/b", 0, bytes, 1234};
    int dir, fd;

    (void)snprintf(kept->sandbox_id, sizeof(kept->sandbox_id), "%s", id);
    (void)snprintf(kept->session_id, sizeof(kept->session_id), "s%s", id);
    (void)snprintf(kept->owner, sizeof(kept->owner), "%s", owner);
    kept->complete = true;
    kept->count = 1;
    kept->size_bytes = bytes;
    kept->created_unix_ms = atoll_clock_unix_ms() - age_ms;
    assert_int_equal(mkdirat(f->engine.artifacts->dir_fd, id, 0700), 0);
    dir = openat(f->engine.artifacts->dir_fd, id, O_RDONLY | O_DIRECTORY);
    fd = openat(dir, "0", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    (void)close(fd);
    (void)close(dir);
    atoll_artifacts_add(f->engine.artifacts, kept, &file);
}

static void keep(struct fixture *f, const char *id, uint64_t bytes, int64_t age_ms)
{
    keep_of(f, "team", id, bytes, age_ms);
}

static bool has(struct fixture *f, const char *id)
{
    struct atoll_artifacts_view view;
    return atoll_artifacts_find(&f->engine, id, &view);
}

static void count_file(void *arg, const struct atoll_artifact *file)
{
    assert_string_equal(file->path, "a/b");
    assert_int_equal(file->mtime_ms, 1234);
    ++*(int *)arg;
}

static void test_kept_and_removed(void **state)
{
    struct fixture *f = *state;
    struct atoll_artifacts_view view;
    struct atoll_error err;
    uint64_t size;
    int fd, count = 0;

    keep(f, "one", 10, 0);
    assert_true(atoll_artifacts_find(&f->engine, "one", &view));
    assert_string_equal(view.owner, "team");
    assert_int_equal(view.expires_unix_ms - view.created_unix_ms, 7 * DAY_MS);
    assert_true(atoll_artifacts_find_session(&f->engine, "sone", &view));
    assert_false(atoll_artifacts_find_session(&f->engine, "", &view));
    assert_int_equal(atoll_artifacts_files(&f->engine, "one", count_file, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(atoll_artifacts_open(&f->engine, "one", "a/b", &fd, &size, &err), 0);
    assert_int_equal(size, 10);
    (void)close(fd);
    assert_int_equal(atoll_artifacts_open(&f->engine, "one", "0", &fd, &size, &err), -ENOENT);
    assert_int_equal(atoll_artifacts_remove(&f->engine, "one", &err), 0);
    assert_int_equal(atoll_artifacts_remove(&f->engine, "one", &err), -ENOENT);
    assert_false(has(f, "one"));
    turn(f);
    assert_int_equal(directories(f), 0);
}

static void test_the_oldest_give_way(void **state)
{
    struct fixture *f = *state;

    keep(f, "one", 40, 3000);
    keep(f, "two", 40, 2000);
    assert_true(atoll_artifacts_make_room(f->engine.artifacts, 20));
    assert_true(has(f, "one"));
    assert_true(atoll_artifacts_make_room(f->engine.artifacts, 21));
    assert_false(has(f, "one"));
    assert_true(has(f, "two"));
    assert_false(atoll_artifacts_make_room(f->engine.artifacts, 101));
    assert_true(has(f, "two"));
    /* What is being copied cannot give way. */
    f->engine.artifacts->copying_bytes = 90;
    assert_false(atoll_artifacts_make_room(f->engine.artifacts, 11));
    assert_true(has(f, "two"));
    turn(f);
    assert_int_equal(directories(f), 1);
}

static void test_a_neighbours_stay(void **state)
{
    struct fixture *f = *state;

    keep_of(f, "neighbour", "hers", 20, 5000);
    keep(f, "one", 40, 3000);
    keep(f, "two", 40, 2000);
    close_engine(f);
    open_engine(f);
    assert_true(atoll_artifacts_make_room(f->engine.artifacts, 50));
    assert_true(has(f, "hers"));
    assert_false(has(f, "one"));
    assert_false(has(f, "two"));
    assert_true(atoll_artifacts_make_room(f->engine.artifacts, 90)); /* nobody has more */
    assert_false(has(f, "hers"));
}

static void test_time_is_over(void **state)
{
    struct fixture *f = *state;

    keep(f, "old", 1, 8 * DAY_MS);
    assert_false(has(f, "old"));
    keep(f, "young", 1, 6 * DAY_MS);
    assert_true(has(f, "young"));
    f->engine.config.artifacts_days = 5;
    assert_false(has(f, "young")); /* before anything is removed */
    close_engine(f);
    open_engine(f);
    turn(f);
    assert_int_equal(directories(f), 0);
}

static void test_a_dead_daemon(void **state)
{
    struct fixture *f = *state;

    keep(f, "whole", 10, 0);
    assert_int_equal(mkdirat(f->engine.artifacts->dir_fd, "half", 0700), 0);
    assert_int_equal(mkdirat(f->engine.artifacts->dir_fd, ".leaving", 0700), 0);
    close_engine(f);
    open_engine(f);
    turn(f);
    assert_int_equal(directories(f), 1);
    assert_true(has(f, "whole"));
    assert_int_equal(f->engine.artifacts->sizes.used, 10);
}

static void test_walk(void **state)
{
    struct fixture *f = *state;
    struct atoll_artifacts_view view;
    const void *pos = NULL;

    keep(f, "b", 1, 2000);
    keep(f, "a", 1, 1000);
    assert_true(atoll_artifacts_next(&f->engine, &pos, &view));
    assert_string_equal(view.sandbox_id, "b");
    assert_true(atoll_artifacts_next(&f->engine, &pos, &view));
    assert_string_equal(view.sandbox_id, "a");
    assert_false(atoll_artifacts_next(&f->engine, &pos, &view));
}

static void test_patterns(void **state)
{
    static const char *const bad[] = {"", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a\nb"};
    const char *many[66] = {NULL};
    const char *one[2] = {"out/**/*.png", NULL};
    char longest[258];
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_artifacts_check(one, &err), 0);
    assert_int_equal(atoll_artifacts_check(NULL, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        one[0] = bad[i];
        assert_true(atoll_artifacts_check(one, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < 65; i++)
        many[i] = "x";
    assert_true(atoll_artifacts_check(many, &err) < 0);
    many[64] = NULL;
    assert_int_equal(atoll_artifacts_check(many, &err), 0);
    memset(longest, 'x', 257);
    longest[257] = '\0';
    one[0] = longest;
    assert_true(atoll_artifacts_check(one, &err) < 0);
    longest[256] = '\0';
    assert_int_equal(atoll_artifacts_check(one, &err), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_kept_and_removed), TEST(test_the_oldest_give_way), TEST(test_a_neighbours_stay),
        TEST(test_time_is_over),     TEST(test_a_dead_daemon),       TEST(test_walk),
        TEST(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
