/* The journal of an exec: offsets, repeats, gaps, the maximum, and readers at any place. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "engine/exec/journal.h"
#include "sys/tree.h"
#include "test.h"

struct fixture {
    char dir[32];
    int dir_fd;
    struct atoll_journal j;
    bool held; /* what is appended */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-journal-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    atoll_journal_init(&f->j, f->dir_fd, "exec", 4096);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    atoll_journal_rest(&f->j);
    (void)close(f->dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

static int append(struct fixture *f, int stream, uint64_t offset, const char *text)
{
    return atoll_journal_append(&f->j, stream, offset, (const uint8_t *)text, strlen(text),
                                f->held);
}

static void reopen(struct fixture *f, uint64_t max, bool more_comes)
{
    atoll_journal_rest(&f->j);
    atoll_journal_init(&f->j, f->dir_fd, "exec", max);
    assert_int_equal(atoll_journal_reopen(&f->j, more_comes), 0);
}

/* Everything a cursor finds, as "1:abc|2:x|", with "1-7|" for seven bytes that are not there. */
static const char *read_all(struct fixture *f, struct atoll_journal_cursor *c, size_t piece)
{
    static char out[8192];
    uint8_t buf[4096];
    size_t at = 0;
    uint64_t offset, n;
    int stream, r;

    out[0] = '\0';
    while ((r = atoll_journal_read(&f->j, c, buf, piece, &stream, &offset, &n)) > 0)
        at += (size_t)(r == 1 ? snprintf(out + at, sizeof(out) - at, "%d:%.*s|", stream, (int)n,
                                         (char *)buf)
                              : snprintf(out + at, sizeof(out) - at, "%d-%llu|", stream,
                                         (unsigned long long)n));
    return out;
}

static void keeps_order_across_streams(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};

    assert_int_equal(append(f, 1, 0, "abc"), 0);
    assert_int_equal(append(f, 2, 0, "err"), 0);
    assert_int_equal(append(f, 1, 3, "def"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1:abc|2:err|1:def|");
    assert_string_equal(read_all(f, &c, 4096), "");
    assert_int_equal(append(f, 2, 3, "or"), 0);
    assert_string_equal(read_all(f, &c, 4096), "2:or|");
}

static void repeats_are_skipped_and_gaps_refused(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};

    assert_int_equal(append(f, 1, 0, "abc"), 0);
    assert_int_equal(append(f, 1, 0, "abc"), 0);
    assert_int_equal(append(f, 1, 1, "bcde"), 0);
    assert_int_equal(append(f, 1, 9, "z"), -EBADMSG);
    assert_int_equal(f->j.seen[1], 5);
    assert_string_equal(read_all(f, &c, 4096), "1:abc|1:de|");
}

static void starts_at_any_offset(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {.want = {[1] = 4, [2] = 2}};

    assert_int_equal(append(f, 1, 0, "abc"), 0);
    assert_int_equal(append(f, 2, 0, "xyz"), 0);
    assert_int_equal(append(f, 1, 3, "defgh"), 0);
    assert_string_equal(read_all(f, &c, 4096), "2:z|1:efgh|");
    c = (struct atoll_journal_cursor){0};
    assert_string_equal(read_all(f, &c, 2), "1:ab|1:c|2:xy|2:z|1:de|1:fg|1:h|");
}

static void beyond_the_maximum_bytes_are_counted_not_kept(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};
    char big[4000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_int_equal(append(f, 1, 0, big), 0);
    assert_int_equal(append(f, 1, 3999,
                            "this does not fit any more, but is counted; "
                            "a long sentence to be sure of that, longer than what is left"),
                     0);
    uint64_t seen = f->j.seen[1];
    assert_int_equal(f->j.kept[1], 3999);
    assert_true(seen > 3999 + 80);
    /* What is kept stays a prefix: a short piece that would fit is not kept either. */
    assert_int_equal(append(f, 1, seen, "s"), 0);
    assert_int_equal(f->j.kept[1], 3999);
    assert_int_equal(strlen(read_all(f, &c, 4096)), 3999 + 3);
}

static void no_output_no_file(void **state)
{
    struct fixture *f = *state;

    assert_int_not_equal(faccessat(f->dir_fd, "exec", F_OK, 0), 0);
    assert_int_equal(append(f, 1, 0, "x"), 0);
    assert_int_equal(faccessat(f->dir_fd, "exec", F_OK, 0), 0);
}

/* What a daemon that died in the middle of a write leaves. */
static void reopening_drops_a_torn_piece(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};
    off_t whole;

    assert_int_equal(append(f, 1, 0, "abc"), 0);
    assert_int_equal(append(f, 2, 0, "e"), 0);
    whole = (off_t)f->j.size;
    assert_int_equal(append(f, 1, 3, "lost"), 0);
    assert_int_equal(ftruncate(f->j.fd, whole + 18), 0);
    reopen(f, 4096, true);
    assert_int_equal(f->j.seen[1], 3);
    assert_int_equal(f->j.seen[2], 1);
    /* The agent sends it again, from where we are. */
    assert_int_equal(append(f, 1, 3, "again"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1:abc|2:e|1:again|");
}

static void reopening_what_never_was_is_fine(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(atoll_journal_reopen(&f->j, true), 0);
    assert_int_equal(f->j.size, 0);
    assert_int_equal(append(f, 1, 0, "x"), 0);
}

/* A journal whose head is full, with a tail of "held". */
static void fill(struct fixture *f)
{
    atoll_journal_init(&f->j, f->dir_fd, "exec", 64);
    assert_int_equal(append(f, 1, 0, "head"), 0);
    assert_int_equal(append(f, 1, 4, "of thirty characters and a few"), 0);
    assert_int_equal(f->j.kept[1], 4);
    f->held = true;
    assert_int_equal(append(f, 1, 34, "held"), 0);
}

static void what_has_no_room_is_held(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0}, late = {0};

    fill(f);
    assert_int_equal(append(f, 2, 0, "e"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1:head|1-30|1:held|2:e|");
    assert_int_equal(f->j.seen[1], 38);
    assert_int_equal(f->j.kept[1], 4);
    assert_int_equal(f->j.kept[2], 0);
    /* Used, and gone; the head stays. */
    assert_int_equal(atoll_journal_forget(&f->j), 0);
    assert_int_equal(f->j.size, f->j.head);
    assert_int_equal(append(f, 1, 38, "more"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1:more|");
    assert_string_equal(read_all(f, &late, 4096), "1:head|1-34|1:more|");
    /* Nobody is there. */
    f->held = false;
    assert_int_equal(append(f, 1, 42, "gone"), 0);
    f->held = true;
    assert_int_equal(append(f, 1, 46, "!"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1-4|1:!|");
}

static void forgetting_makes_room(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};
    static char text[100001];
    uint64_t at = 0;

    atoll_journal_init(&f->j, f->dir_fd, "exec", 0);
    f->held = true;
    memset(text, 'x', sizeof(text) - 1);
    /* Many times what it may hold, and nothing is lost. */
    for (int i = 0; i < 400; i++, at += 100000) {
        assert_int_equal(append(f, 1, at, text), 0);
        c.want[1] = at + 100000 - 3;
        assert_string_equal(read_all(f, &c, 4096), "1:xxx|");
        assert_int_equal(atoll_journal_forget(&f->j), 0);
        assert_int_equal(f->j.size, 0);
    }
    /* Also after it was full. */
    for (int i = 0; i < 400; i++, at += 100000)
        assert_int_equal(append(f, 1, at, text), 0);
    assert_true(f->j.size < (uint64_t)17 << 20);
    c.want[1] = at - 5;
    assert_string_equal(read_all(f, &c, 4096), "");
    assert_int_equal(atoll_journal_forget(&f->j), 0);
    assert_int_equal(append(f, 1, at, "after"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1-5|1:after|");
}

/* What nobody has used is sent again to a new daemon: it begins where the head ends. */
static void a_tail_is_reopened_when_nothing_comes_after_it(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};

    fill(f);
    reopen(f, 64, false);
    assert_int_equal(f->j.seen[1], 38);
    assert_string_equal(read_all(f, &c, 4096), "1:head|1-30|1:held|");
    /* What would fit is taken for a part of the head, and is in order. */
    reopen(f, 20, true);
    assert_int_equal(f->j.seen[1], 4);
    assert_int_equal(f->j.size, f->j.head);
    f->j.seen[1] = 36;
    assert_int_equal(append(f, 1, 36, "ld more"), 0);
    c = (struct atoll_journal_cursor){0};
    assert_string_equal(read_all(f, &c, 4096), "1:head|1-32|1:ld more|");
}

static void an_emptied_file_is_used_again(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};

    atoll_journal_init(&f->j, f->dir_fd, "exec", 0);
    f->held = true;
    assert_int_equal(append(f, 1, 0, "x"), 0);
    assert_int_equal(atoll_journal_forget(&f->j), 0);
    reopen(f, 0, true);
    atoll_journal_rest(&f->j);
    assert_int_equal(append(f, 1, 0, "y"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1:y|");
    atoll_journal_remove(&f->j);
    assert_int_equal(faccessat(f->dir_fd, "exec", F_OK, 0), -1);
}

/* A disk that takes nothing, and a follower. */
static void what_the_disk_refuses_is_held_in_memory(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0}, late = {0};

    assert_int_equal(append(f, 1, 0, "kept"), 0);
    f->j.no_disk = f->held = true;
    assert_int_equal(append(f, 1, 4, "lost"), -EDQUOT);
    f->j.memory_max = 64;
    assert_int_equal(append(f, 1, 8, "held"), 0);
    f->j.no_disk = false;
    assert_int_equal(append(f, 2, 0, "too"), 0); /* behind what is in memory */
    assert_int_equal(f->j.kept[1], 4);
    assert_int_equal(f->j.kept[2], 0);
    assert_int_equal(atoll_journal_file_bytes(&f->j), f->j.head);
    assert_string_equal(read_all(f, &c, 4096), "1:kept|1-4|1:held|2:too|");
    assert_int_equal(append(f, 1, 12, "more than there is room for in memory"), -EDQUOT);
    /* Used: the disk is tried again. */
    assert_int_equal(atoll_journal_forget(&f->j), 0);
    assert_int_equal(append(f, 1, 49, "again"), 0);
    assert_string_equal(read_all(f, &c, 4096), "1-37|1:again|");
    assert_string_equal(read_all(f, &late, 4096), "1:kept|1-45|1:again|");
}

static void without_a_reader_memory_is_given_back(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};

    f->j.no_disk = f->held = true;
    f->j.memory_max = 64;
    assert_int_equal(append(f, 1, 0, "held"), 0);
    atoll_journal_rest(&f->j);
    assert_int_equal(f->j.size, 0);
    assert_int_equal(f->j.seen[1], 4);
    assert_null(f->j.memory.data);
    assert_string_equal(read_all(f, &c, 4096), "");
}

static void what_is_discarded_is_a_gap(void **state)
{
    struct fixture *f = *state;
    struct atoll_journal_cursor c = {0};

    assert_int_equal(append(f, 1, 0, "abc"), 0);
    assert_string_equal(read_all(f, &c, 2), "1:ab|1:c|");
    atoll_journal_discard(&f->j);
    assert_int_not_equal(faccessat(f->dir_fd, "exec", F_OK, 0), 0);
    assert_int_equal(f->j.seen[1], 3);
    assert_int_equal(f->j.kept[1], 0);
    assert_string_equal(read_all(f, &c, 4096), "");
    assert_int_equal(append(f, 1, 3, "after"), 0);
    assert_string_equal(read_all(f, &c, 4096), "");
}

/* The file was made, and nothing could be written to it. */
static void a_file_with_nothing_in_it_is_removed(void **state)
{
    struct fixture *f = *state;
    struct rlimit before, none;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){.rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(append(f, 1, 0, "lost"), -EFBIG);
    atoll_journal_rest(&f->j);
    assert_int_equal(append(f, 1, 4, "lost"), -EFBIG); /* the file is there already */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(faccessat(f->dir_fd, "exec", F_OK, 0), 0);
    atoll_journal_remove(&f->j);
    assert_int_equal(faccessat(f->dir_fd, "exec", F_OK, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_order_across_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(repeats_are_skipped_and_gaps_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(starts_at_any_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(beyond_the_maximum_bytes_are_counted_not_kept, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_output_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(reopening_drops_a_torn_piece, setup, teardown),
        cmocka_unit_test_setup_teardown(reopening_what_never_was_is_fine, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_no_room_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(forgetting_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tail_is_reopened_when_nothing_comes_after_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_emptied_file_is_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_disk_refuses_is_held_in_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_reader_memory_is_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_discarded_is_a_gap, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_with_nothing_in_it_is_removed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
