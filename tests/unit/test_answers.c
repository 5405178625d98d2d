/* Answers that are kept: they survive, expire, make room for newer ones, and are never done twice. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "access/answers.h"
#include "base/clock.h"
#include "store/answers.h"
#include "store/store.h"
#include "sys/tree.h"
#include "test.h"

static char dir[40];
static int dir_fd;
static struct atoll_store *store;
static struct atoll_answers *answers;
static const uint8_t request[ATOLL_ANSWER_REQUEST_BYTES] = "what was asked";

static void open_all(void)
{
    struct atoll_error err;

    assert_int_equal(atoll_store_open_sqlite(dir_fd, &store, &err), 0);
    assert_int_equal(atoll_answers_new(store, &answers, &err), 0);
}

static void close_all(void)
{
    answers = atoll_answers_free(answers);
    store = atoll_store_close(store);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/atoll-answers-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    open_all();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_all();
    (void)close(dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
    return 0;
}

static const char *name_of(unsigned n)
{
    static char name[ATOLL_ANSWER_NAME_LEN + 1];

    (void)snprintf(name, sizeof(name), "%064x", n);
    return name;
}

static void keep(unsigned n, const char *text, size_t len)
{
    struct atoll_kept_answer *a = atoll_answers_begin(answers, name_of(n), request);

    assert_non_null(a);
    assert_int_equal(a->status, 0);
    atoll_answers_keep(answers, a, 201, text, len);
}

static void they_survive(void **state)
{
    const struct atoll_kept_answer *a;

    (void)state;
    keep(1, "{\"id\":\"x\"}\n", 10);
    (void)atoll_answers_begin(answers, name_of(2), request); /* under way when the daemon dies */
    close_all();
    open_all();
    a = atoll_answers_find(answers, name_of(1));
    assert_non_null(a);
    assert_int_equal(a->status, 201);
    assert_string_equal(a->text, "{\"id\":\"x\"}");
    assert_memory_equal(a->request, request, sizeof(request));
    assert_null(atoll_answers_find(answers, name_of(2)));
}

static void what_is_large_is_remembered_as_done(void **state)
{
    const struct atoll_kept_answer *a;
    char *text = malloc(100000);

    (void)state;
    memset(text, 'x', 100000);
    keep(1, text, 100000);
    free(text);
    a = atoll_answers_find(answers, name_of(1));
    assert_int_equal(strlen(a->text), 100000);
    close_all();
    open_all();
    a = atoll_answers_find(answers, name_of(1));
    assert_non_null(a);
    assert_null(a->text);
}

static void the_forgotten_stay_forgotten(void **state)
{
    (void)state;
    atoll_answers_forget(answers, atoll_answers_begin(answers, name_of(1), request));
    assert_null(atoll_answers_find(answers, name_of(1)));
    close_all();
    open_all();
    assert_null(atoll_answers_find(answers, name_of(1)));
}

static void a_day_is_enough(void **state)
{
    struct atoll_store_answer row = {.name = name_of(7), .status = 200};
    struct atoll_error err;

    (void)state;
    row.answer = "{}";
    row.until_unix_ms = atoll_clock_unix_ms() - 1;
    assert_int_equal(atoll_store_put_answer(store, &row, &err), 0);
    close_all();
    open_all();
    assert_null(atoll_answers_find(answers, name_of(7)));
}

static int count_row(void *arg, const struct atoll_store_answer *row, struct atoll_error *err)
{
    (void)row;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static void the_oldest_go(void **state)
{
    struct atoll_error err;
    size_t rows = 0;

    (void)state;
    for (unsigned n = 0; n < 4100; n++)
        keep(n, "{}", 2);
    assert_null(atoll_answers_find(answers, name_of(3)));
    assert_non_null(atoll_answers_find(answers, name_of(4)));
    assert_int_equal(atoll_store_each_answer(store, count_row, &rows, &err), 0);
    assert_int_equal(rows, 4096);
}

/* Of another owner than those of name_of(). */
static const char *hers(unsigned n)
{
    static char name[ATOLL_ANSWER_NAME_LEN + 1];

    (void)snprintf(name, sizeof(name), "f%063x", n);
    return name;
}

static void keep_hers(unsigned n, const char *text, size_t len)
{
    struct atoll_kept_answer *a = atoll_answers_begin(answers, hers(n), request);

    assert_non_null(a);
    atoll_answers_keep(answers, a, 201, text, len);
}

static void a_neighbours_answers_stay(void **state)
{
    size_t large = (size_t)4 << 20;
    char *text = malloc(large);

    (void)state;
    memset(text, 'x', large);
    keep_hers(0, "{}", 2);
    for (unsigned n = 0; n < 4200; n++)
        keep(n, "{}", 2);
    assert_non_null(atoll_answers_find(answers, hers(0)));
    for (unsigned n = 5000; n < 5020; n++)
        keep(n, text, large);
    assert_non_null(atoll_answers_find(answers, hers(0)));
    assert_null(atoll_answers_find(answers, name_of(5000)));
    assert_non_null(atoll_answers_find(answers, name_of(5019)));
    free(text);
    close_all();
    open_all();
    for (unsigned n = 6000; n < 10200; n++)
        keep(n, "{}", 2);
    assert_non_null(atoll_answers_find(answers, hers(0)));
}

static void a_neighbours_requests_under_way(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 4096; n++)
        assert_non_null(atoll_answers_begin(answers, name_of(n), request));
    assert_null(atoll_answers_begin(answers, name_of(4096), request));
    keep_hers(0, "{}", 2);
    assert_non_null(atoll_answers_find(answers, hers(0)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(they_survive),
        TEST(what_is_large_is_remembered_as_done),
        TEST(the_forgotten_stay_forgotten),
        TEST(a_day_is_enough),
        TEST(the_oldest_go),
        TEST(a_neighbours_answers_stay),
        TEST(a_neighbours_requests_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
