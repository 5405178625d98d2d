/*
 * Commands over WebSocket, with an engine made of memory.
 */
#include "test_api_util.h"

#define EXEC "/api/sandboxes/box0/execs/stream"
#define RUN "/api/run"

static void assert_got(const char *what)
{
    if (!memmem(atoll_buf_head(&rig.got), atoll_buf_size(&rig.got), what, strlen(what)))
        fail_msg("no \"%s\" in:\n%s", what, rig_text(&rig));
}

static void ask_ws(const char *target)
{
    char text[300];

    (void)snprintf(
        text, sizeof(text),
        "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        target);
    (void)rig_ask(&rig, text);
}

static void open_ws(const char *target)
{
    ask_ws(target);
    assert_got("HTTP/1.1 101 ");
    atoll_buf_clear(&rig.got);
}

/* A frame as clients send it, masked with zeros. opcode: 1 text, 2 binary, 8 close. */
static void send_frame(int opcode, const void *bytes, size_t n)
{
    uint8_t frame[70000] = {(uint8_t)(0x80 | opcode)};
    size_t at = 2;

    if (n < 126) {
        frame[1] = (uint8_t)(0x80 | n);
    } else {
        assert_true(n < 65536);
        frame[1] = 0x80 | 126;
        frame[2] = (uint8_t)(n >> 8);
        frame[3] = (uint8_t)n;
        at = 4;
    }
    at += 4;
    memcpy(frame + at, bytes, n);
    rig_send(&rig, frame, at + n);
}

static void say(const char *text)
{
    send_frame(1, text, strlen(text));
    rig_turn(&rig);
}

static void make_box(void)
{
    (void)rig_ask(&rig, "POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_got("HTTP/1.1 201 ");
}

static void hang_up(void)
{
    close(rig.fd);
    rig.fd = -1;
    rig_connect(&rig);
    rig_turn(&rig);
}

static void a_command_is_carried_both_ways(void **state)
{
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    make_box();
    open_ws(EXEC);
    say("{\"cmd\":[\"cat\"],\"stdin\":true,\"pty\":{\"cols\":90,\"rows\":30}}");
    assert_got("{\"sandbox_id\":\"box0\",\"exec_id\":\"exec0\"}");
    assert_int_equal(x->cols, 90);
    send_frame(2, "\0one", 4);
    send_frame(2, "\0two", 4);
    say("{\"resize\":{\"cols\":10,\"rows\":20}}");
    say("{\"signal\":\"SIGINT\"}");
    say("{}");
    assert_string_equal(atoll_buf_str(&x->input), "onetwo");
    assert_int_equal(x->cols, 10);
    assert_int_equal(x->signo, 2);
    assert_false(x->stdin_closed);
    send_frame(2, "\0", 1);
    rig_turn(&rig);
    assert_true(x->stdin_closed);
    fake_output(x, 1, "out", 3);
    fake_output(x, 2, "err", 3);
    fake_gap(x, 1, 5);
    rig_turn(&rig);
    assert_got("\x82\x04\x01out");
    assert_got("\x82\x04\x02"
               "err");
    assert_got("{\"truncated\":{\"stream\":\"stdout\",\"from\":3,\"to\":8}}");
    fake_end(x, ATOLL_END_EXITED, 7);
    rig_turn(&rig);
    assert_got("{\"result\":{\"kind\":\"exited\",\"exit_code\":7");
    assert_got("\x88\x02\x03\xe8"); /* 1000 */
    assert_int_equal(fake.destroyed, 0);
}

static void input_waits_for_the_sandbox(void **state)
{
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    make_box();
    open_ws(EXEC);
    say("{\"cmd\":[\"cat\"],\"stdin\":true}");
    fake.hold = true;
    send_frame(2, "\0one", 4);
    send_frame(2, "\0two", 4);
    rig_turn(&rig);
    assert_string_equal(atoll_buf_str(&x->input), "one");
    fake_release();
    rig_turn(&rig);
    assert_string_equal(atoll_buf_str(&x->input), "onetwo");
}

/* The command would take the rest for all: it is ended, and gets no more. */
static void input_that_is_lost_is_told(void **state)
{
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    make_box();
    open_ws(EXEC);
    say("{\"cmd\":[\"cat\"],\"stdin\":true}");
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_FAILED_PRECONDITION, EPIPE, "it does not read");
    send_frame(2, "\0one", 4);
    rig_turn(&rig);
    assert_int_equal(x->signo, 0);
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_UNAVAILABLE, EPIPE, "out of reach");
    send_frame(2, "\0two", 4);
    send_frame(2, "\0three", 6);
    send_frame(2, "\0", 1);
    rig_turn(&rig);
    assert_int_equal(x->signo, -9);
    assert_string_equal(atoll_buf_str(&x->input), "");
    assert_false(x->stdin_closed);
    /* The last word is its result, as ever. */
    assert_null(strstr(rig_text(&rig), "error"));
    fake_end(x, ATOLL_END_KILLED_BY, 9);
    rig_turn(&rig);
    assert_got("{\"result\":{\"kind\":\"killed_by\"");
}

static void output_waits_for_the_client(void **state)
{
    static char piece[60000];
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    make_box();
    open_ws(EXEC);
    say("{\"cmd\":[\"yes\"]}");
    for (int i = 0; i < 200; i++)
        fake_output(x, 1, piece, sizeof(piece));
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    assert_true(fake.pulled < 2000000);
    /* What waits here would be lost with us. */
    assert_true(fake.let_go < fake.pulled);
    rig_turn(&rig);
    assert_int_equal(fake.pulled, 200 * sizeof(piece));
    assert_int_equal(fake.let_go, fake.pulled);
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_got("{\"result\":");
}

static void a_command_outlives_its_client(void **state)
{
    (void)state;
    make_box();
    open_ws(EXEC);
    say("{\"cmd\":[\"cat\"],\"stdin\":true}");
    assert_int_equal(fake.readers, 1);
    hang_up();
    assert_int_equal(fake.readers, 0);
    assert_false(fake.execs[0].ended);
    /* Also when it was about to start, and when input is under way. */
    open_ws(EXEC);
    fake.hold = true;
    say("{\"cmd\":[\"cat\"],\"stdin\":true}");
    hang_up();
    fake_release();
    assert_true(fake.execs[1].used);
    assert_false(fake.execs[1].ended);
    open_ws(EXEC);
    say("{\"cmd\":[\"cat\"],\"stdin\":true}");
    fake.hold = true;
    send_frame(2, "\0one", 4);
    rig_turn(&rig);
    hang_up();
    fake_release();
    assert_false(fake.execs[2].ended);
}

static void mistakes_end_the_conversation(void **state)
{
    static const struct {
        int opcode;
        const char *bytes;
        size_t n;
        const char *answer;
    } cases[] = {
        {1, "{\"cmds\":[]}", 11, "there is no field \\\"cmds\\\""},
        {1, "nonsense", 8, "not valid JSON"},
        {2, "\0abc", 4, "the first message must be a text"},
    };

    (void)state;
    make_box();
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        open_ws(EXEC);
        send_frame(cases[i].opcode, cases[i].bytes, cases[i].n);
        rig_turn(&rig);
        assert_got("{\"error\":{\"code\":\"invalid_argument\"");
        assert_got(cases[i].answer);
        assert_got("\x88\x02\x03\xf0"); /* 1008 */
        hang_up();
    }
    ask_ws("/api/sandboxes/box7/execs/stream");
    assert_got("HTTP/1.1 404 ");
    assert_got("\"code\":\"not_found\"");
    hang_up();
    open_ws(EXEC);
    say("{\"cmd\":[\"x\"]}");
    send_frame(2, "\0abc", 4);
    rig_turn(&rig);
    assert_got("standard input is not open");
    hang_up();
    open_ws(EXEC);
    say("{\"cmd\":[\"x\"],\"stdin\":true}");
    send_frame(2, "\1abc", 4);
    rig_turn(&rig);
    assert_got("must begin with the byte 0");
    hang_up();
    open_ws(EXEC);
    say("{\"cmd\":[\"x\"]}");
    say("{\"signal\":\"SIGWHAT\"}");
    assert_got("signal must be a name");
}

static void run_ends_with_the_sandbox_gone(void **state)
{
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    open_ws(RUN);
    say("{\"cmd\":[\"x\"],\"limits\":{\"memoryMB\":64},\"env\":{\"A\":\"b\"},"
        "\"files\":[{\"path\":\"f\",\"data_base64\":\"aGFsbG8=\"}]}");
    assert_got("{\"sandbox_id\":\"box0\",\"exec_id\":\"exec0\"}");
    assert_string_equal(atoll_buf_str(&fake.stored), "hallo");
    fake_output(x, 1, "out", 3);
    fake.hold = true;
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_int_equal(fake.destroyed, 1);
    assert_null(strstr(rig_text(&rig), "result"));
    fake_release();
    rig_turn(&rig);
    assert_got("{\"result\":{\"kind\":\"exited\"");
}

static void run_lives_as_long_as_its_client(void **state)
{
    (void)state;
    open_ws(RUN);
    say("{\"cmd\":[\"x\"]}");
    hang_up();
    assert_int_equal(fake.destroyed, 1);
    /* While it is made: not even with keep, nobody knows its id. */
    open_ws(RUN);
    fake.hold = true;
    say("{\"cmd\":[\"x\"],\"keep\":true}");
    hang_up();
    fake_release();
    assert_int_equal(fake.destroyed, 2);
    /* While it is destroyed. */
    open_ws(RUN);
    say("{\"cmd\":[\"x\"]}");
    fake.hold = true;
    fake_end(&fake.execs[1], ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    hang_up();
    fake_release();
    assert_int_equal(fake.destroyed, 3);
    /* With keep, once told, it stays. */
    open_ws(RUN);
    say("{\"cmd\":[\"x\"],\"keep\":true}");
    hang_up();
    assert_int_equal(fake.destroyed, 3);
    assert_false(fake.execs[2].ended);
}

static void run_that_cannot_start_is_explained(void **state)
{
    (void)state;
    open_ws(RUN);
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN, "too many sandboxes");
    say("{\"cmd\":[\"x\"]}");
    assert_got("too many sandboxes");
    hang_up();
    /* Also what a provider has given up by itself: this client still waits. */
    open_ws(RUN);
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_CANCELED, ECANCELED, "given up");
    say("{\"cmd\":[\"x\"]}");
    assert_got("given up");
    hang_up();
    open_ws(RUN);
    say("{\"cmd\":[\"x\"],\"keep\":true,\"files\":[{\"path\":\"full\",\"data_base64\":\"aGFsbG8=\"}]}");
    assert_got("\"code\":\"resource_exhausted\"");
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.destroyed, 1);
}

static void what_is_left_is_closed_at_the_end(void **state)
{
    (void)state;
    make_box();
    open_ws(EXEC);
    say("{\"cmd\":[\"x\"]}");
    assert_int_equal(fake.readers, 1);
    /* tear_down() frees the api and looks for readers. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_is_carried_both_ways),     TEST(input_waits_for_the_sandbox),
        TEST(input_that_is_lost_is_told),         TEST(output_waits_for_the_client),
        TEST(a_command_outlives_its_client),      TEST(mistakes_end_the_conversation),
        TEST(run_ends_with_the_sandbox_gone),     TEST(run_lives_as_long_as_its_client),
        TEST(run_that_cannot_start_is_explained), TEST(what_is_left_is_closed_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
