/*
 * The pump for the output of commands, with an engine made of memory and callbacks that write down
 * what they get.
 */
#include "api/api.h"
#include "api/kit/exec_pump.h"
#include "fake_engine.h"
#include "test.h"

#define PIECE ((size_t)128 * 1024)

struct client {
    struct atoll_exec_pump *pump; /* owned; NULL: closed by a callback */
    char said[400];
    size_t bytes;
    unsigned kept_alive;
    int answer;    /* of data() */
    bool gap_ends; /* gap() closes the pump and frees it */
};

static struct atoll_loop *loop;
static struct atoll_exec *exec;
static struct client client;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    size_t n = strlen(client.said);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(client.said + n, sizeof(client.said) - n, format, args);
    va_end(args);
}

static void close_pump(void)
{
    if (client.pump)
        atoll_exec_pump_close(client.pump);
    free(client.pump);
    client.pump = NULL;
}

static int on_data(void *arg, int stream, uint64_t offset, const uint8_t *bytes, size_t n)
{
    (void)arg;
    client.bytes += n;
    if (n < 16)
        say("%d@%llu:%.*s ", stream, (unsigned long long)offset, (int)n, (const char *)bytes);
    return client.answer;
}

static int on_gap(void *arg, const struct atoll_reader_item *gap)
{
    (void)arg;
    say("gap%d@%llu+%llu ", gap->stream, (unsigned long long)gap->offset,
        (unsigned long long)gap->length);
    if (client.gap_ends)
        close_pump();
    return client.gap_ends;
}

static int on_silence(void *arg)
{
    (void)arg;
    client.kept_alive++;
    return 0;
}

static void on_end(void *arg, const struct atoll_exec_result *result)
{
    (void)arg;
    say(result ? "end=%d" : "end", result ? result->code : 0);
    close_pump();
}

static void on_failed(void *arg, int error)
{
    (void)arg;
    say("failed=%d", error);
    close_pump();
}

static const struct atoll_exec_pump_ops
    plain = {4, false, on_data, on_gap, on_silence, on_end, on_failed},
    text = {ATOLL_EXEC_PUMP_SLICE_MAX, true, on_data, on_gap, on_silence, on_end, on_failed};

static void open_pump(const struct atoll_exec_pump_ops *ops, bool follow, int64_t keep_alive_ms)
{
    const struct atoll_exec_pump_config config = {
        .ops = ops, .loop = loop, .follow = follow, .keep_alive_ms = keep_alive_ms};
    struct atoll_error error;

    client = (struct client){.pump = calloc(1, sizeof(*client.pump))};
    assert_int_equal(atoll_exec_pump_open(client.pump, exec, &config, &error), 0);
}

static void ignore_sandbox(void *arg, struct atoll_sandbox *sandbox,
                           const struct atoll_error *error)
{
    (void)arg;
    (void)sandbox;
    assert_null(error);
}

static void ignore_exec(void *arg, struct atoll_exec *started, const struct atoll_error *error)
{
    (void)arg;
    (void)started;
    assert_null(error);
}

static int set_up(void **state)
{
    const struct atoll_options create = {.owner = "default"};
    const char *argv[] = {"x", NULL};
    const struct atoll_exec_start start = {.argv = argv};

    (void)state;
    fake_reset();
    assert_int_equal(atoll_loop_new(&loop, NULL), 0);
    atoll_engine_create(&fake, &create, ignore_sandbox, NULL);
    atoll_engine_exec(&fake, "box0", &start, ignore_exec, NULL);
    exec = &fake.execs[0];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_pump();
    assert_int_equal(fake.readers, 0);
    loop = atoll_loop_free(loop);
    fake_done();
    return 0;
}

static void output_comes_in_slices_until_the_end(void **state)
{
    (void)state;
    fake_output(exec, 1, "abcdef", 6);
    open_pump(&plain, true, 0);
    assert_string_equal(client.said, "");
    atoll_exec_pump_run(client.pump);
    assert_string_equal(client.said, "1@0:abcd 1@4:ef ");
    fake_output(exec, 2, "e", 1);
    fake_gap(exec, 1, 10);
    fake_end(exec, ATOLL_END_EXITED, 3);
    assert_string_equal(client.said, "1@0:abcd 1@4:ef 2@0:e gap1@6+10 end=3");
    assert_null(client.pump);
}

static void without_follow_it_ends_with_what_there_is(void **state)
{
    (void)state;
    fake_output(exec, 1, "a\xe2", 2);
    open_pump(&text, false, 0);
    atoll_exec_pump_run(client.pump);
    assert_string_equal(client.said, "1@0:a 1@1:\xe2 end");
}

/* Held bytes are not released: a crash would lose them. */
static void characters_stay_whole(void **state)
{
    (void)state;
    open_pump(&text, true, 0);
    fake_output(exec, 1, "a\xe2\x82", 3);
    assert_string_equal(client.said, "1@0:a ");
    assert_int_equal(fake.let_go, 1);
    fake_output(exec, 2, "\xf0", 1);
    fake_output(exec, 1, "\xac", 1);
    assert_string_equal(client.said, "1@0:a 1@1:\xe2\x82\xac ");
    fake_gap(exec, 2, 5); /* it cannot be completed any more */
    assert_string_equal(client.said, "1@0:a 1@1:\xe2\x82\xac 2@0:\xf0 gap2@1+5 ");
}

static void others_get_their_turn(void **state)
{
    static uint8_t piece[PIECE];
    size_t all = 40 * PIECE;

    (void)state;
    for (int i = 0; i < 40; i++)
        fake_output(exec, 1, piece, sizeof(piece));
    open_pump(&text, true, 0);
    atoll_exec_pump_run(client.pump);
    assert_true(client.bytes > 0 && client.bytes < all / 2);
    fake_output(exec, 1, "x", 1); /* does not start a second turn */
    assert_true(client.bytes < all / 2);
    while (client.bytes < all + 1)
        assert_int_equal(atoll_loop_step(loop, 1000, NULL), 0);
    assert_int_equal(fake.let_go, all + 1);
}

static void silence_is_filled(void **state)
{
    (void)state;
    open_pump(&plain, true, 1);
    atoll_exec_pump_run(client.pump);
    for (int i = 0; i < 1000 && client.kept_alive == 0; i++)
        assert_int_equal(atoll_loop_step(loop, 10, NULL), 0);
    assert_int_equal(client.kept_alive, 1);
}

static void a_callback_may_close_the_pump(void **state)
{
    (void)state;
    fake_gap(exec, 1, 4);
    fake_output(exec, 1, "b", 1);
    open_pump(&plain, true, 1000);
    client.gap_ends = true;
    atoll_exec_pump_run(client.pump);
    assert_null(client.pump);
    assert_string_equal(client.said, "gap1@0+4 ");
}

static void errors_end_it(void **state)
{
    (void)state;
    fake_output(exec, 1, "ab", 2);
    open_pump(&plain, true, 0);
    client.answer = -EPIPE; /* the connection tells its owner */
    atoll_exec_pump_run(client.pump);
    assert_string_equal(client.said, "1@0:ab ");
    assert_non_null(client.pump);
    close_pump();
    open_pump(&plain, true, 0);
    client.answer = -ENOMEM;
    atoll_exec_pump_run(client.pump);
    assert_string_equal(client.said, "1@0:ab failed=-12");
    assert_null(client.pump);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(output_comes_in_slices_until_the_end),
        TEST(without_follow_it_ends_with_what_there_is),
        TEST(characters_stay_whole),
        TEST(others_get_their_turn),
        TEST(silence_is_filled),
        TEST(a_callback_may_close_the_pump),
        TEST(errors_end_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
