/*
 * Output and connections: back-pressure, acknowledgement, reconnecting, each byte exactly once.
 */
#include "agent_client.h"

/* 10 MiB of which every line is different. */
#define BIG_SCRIPT "seq -f 'line %09.0f of this output' 1 345000"
#define BIG_LINE 30

static void check_big(struct run_result *r)
{
    const uint8_t *p = atoll_buf_head(&r->out);

    assert_int_equal(atoll_buf_size(&r->out), 345000 * BIG_LINE);
    for (int i = 1; i <= 345000; i++, p += BIG_LINE) {
        char want[64];
        (void)snprintf(want, sizeof(want), "line %09d of this output\n", i);
        if (memcmp(p, want, BIG_LINE) != 0)
            fail_msg("line %d is wrong", i);
    }
}

static void resume(struct agent_client *c, uint64_t exec, uint64_t out, uint64_t err)
{
    struct atoll_am_resume msg = {.exec = exec, .stdout_offset = out, .stderr_offset = err};
    client_call(c, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc, &msg, NULL, NULL, NULL);
}

/* The first of the commands the agent holds. */
static struct atoll_am_exec_info list_one(struct agent_client *c)
{
    uint32_t id = client_send(c, ATOLL_AGENT_EXEC_LIST, NULL, NULL);
    struct kept_frame k = client_wait(c, id, ATOLL_AGENT_PART);
    struct atoll_am_exec_info info;

    assert_int_equal(atoll_msg_decode(&atoll_am_exec_info_desc, k.payload, k.len, &info, NULL), 0);
    kept_done(&k);
    k = client_wait(c, id, ATOLL_AGENT_REPLY);
    kept_done(&k);
    return info;
}

static void large_output_is_exact(void **state)
{
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH(BIG_SCRIPT));
    struct run_result r;

    client_run(*state, &msg, &r);
    check_big(&r);
    assert_int_equal(r.exit.code, 0);
    run_result_done(&r);
}

static void without_acks_the_command_waits(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH(BIG_SCRIPT));
    struct run_result r;

    msg.window = 64 * 1024;
    run_result_init(&r);
    c->acks = false;
    (void)client_exec(c, &msg);
    while (client_receive(c, 300))
        ;
    /* The window is full, the command is stuck, and the agent holds no more than that. */
    assert_int_equal(list_one(c).stdout_bytes, 64 * 1024);
    assert_int_equal(list_one(c).ended, 0);
    /* Nothing was acknowledged: all of it comes again, and then the rest. */
    client_connect(c);
    c->acks = true;
    resume(c, 1, 0, 0);
    client_wait_exit(c, &r);
    check_big(&r);
    run_result_done(&r);
}

static void the_daemon_may_be_away(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg =
        client_command(1, CLIENT_SH("echo early; sleep 0.3; echo late; echo oops >&2; exit 5"));
    struct run_result r;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    client_drop(c);
    (void)usleep(600 * 1000);
    client_connect(c);
    assert_false(client_receive(c, 200)); /* nothing comes unasked */
    assert_int_equal(list_one(c).ended, 1);
    assert_int_equal(list_one(c).stdout_bytes, 11);
    resume(c, 1, 0, 0);
    client_wait_exit(c, &r);
    assert_string_equal(atoll_buf_str(&r.out), "early\nlate\n");
    assert_string_equal(atoll_buf_str(&r.err), "oops\n");
    assert_int_equal(r.exit.code, 5);
    run_result_done(&r);
}

static void dropped_connections_lose_and_repeat_nothing(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH(BIG_SCRIPT));
    struct run_result r;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    for (int i = 0; i < 20; i++) {
        /* Some frames are taken in, what else has arrived is thrown away with the connection. */
        for (int n = 0; n < 3; n++) {
            struct kept_frame k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
            client_collect(c, &r, &k);
            kept_done(&k);
        }
        (void)client_receive(c, 10);
        client_connect(c);
        resume(c, 1, atoll_buf_size(&r.out), 0);
    }
    client_wait_exit(c, &r);
    check_big(&r);
    run_result_done(&r);
}

static void the_end_is_told_again_until_forgotten(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("printf 123; exit 9"));
    struct atoll_am_resume gone = {.exec = 1};
    struct run_result r;

    c->acks = false;
    for (int i = 0; i < 3; i++) {
        run_result_init(&r);
        if (i == 0)
            (void)client_exec(c, &msg);
        else
            resume(c, 1, 0, 0);
        client_wait_exit(c, &r);
        assert_string_equal(atoll_buf_str(&r.out), "123");
        assert_int_equal(r.exit.code, 9);
        run_result_done(&r);
        client_connect(c);
    }
    client_forget(c, 1);
    client_call_fails(c, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc, &gone, ATOLL_ERR_NOT_FOUND,
                      "no command 1");
}

static void acknowledged_bytes_are_gone(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("printf 0123456789; sleep 100"));
    struct atoll_am_resume early = {.exec = 1, .stdout_offset = 3};
    struct atoll_am_resume late = {.exec = 1, .stdout_offset = 11};
    struct kept_frame k;
    struct atoll_am_output o;

    c->acks = false;
    (void)client_exec(c, &msg);
    k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
    kept_done(&k);
    client_ack(c, 1, ATOLL_STREAM_STDOUT, 4);
    client_ack(c, 1, ATOLL_STREAM_STDOUT, 2);    /* old news */
    client_ack(c, 1, ATOLL_STREAM_STDOUT, 1000); /* bytes that never were: ignored */
    client_ack(c, 1, 7, 1);
    client_ack(c, 77, ATOLL_STREAM_STDOUT, 1);
    client_call_fails(c, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc, &early,
                      ATOLL_ERR_OUT_OF_RANGE, "from byte 4 to 10");
    client_call_fails(c, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc, &late,
                      ATOLL_ERR_OUT_OF_RANGE, "from byte 4 to 10");
    resume(c, 1, 4, 0);
    k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
    assert_int_equal(atoll_msg_decode(&atoll_am_output_desc, k.payload, k.len, &o, NULL), 0);
    assert_int_equal(o.offset, 4);
    assert_int_equal(o.data.len, 6);
    assert_memory_equal(o.data.data, "456789", 6);
    kept_done(&k);
}

static void check_note(struct agent_client *c, const char *bytes, size_t n)
{
    struct atoll_am_data got;
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_NOTE_GET, NULL, NULL, &atoll_am_data_desc, &got, &k);
    assert_int_equal(got.data.len, n);
    assert_memory_equal(got.data.data, bytes, n);
    kept_done(&k);
}

static void a_note_waits_for_the_next_daemon(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_data note = {.data = {(const uint8_t *)"a\0note", 6}};

    check_note(c, "", 0);
    client_call(c, ATOLL_AGENT_NOTE_PUT, &atoll_am_data_desc, &note, NULL, NULL, NULL);
    (void)client_connect(c);
    check_note(c, "a\0note", 6);
    note.data.len = 1;
    client_call(c, ATOLL_AGENT_NOTE_PUT, &atoll_am_data_desc, &note, NULL, NULL, NULL);
    check_note(c, "a", 1);
}

static void a_new_connection_replaces_the_old(void **state)
{
    struct agent_client *c = *state;
    struct agent_client other = *c;

    other.connected = false;
    other.frames = calloc(CLIENT_FRAMES_MAX, sizeof(*other.frames));
    other.frame_count = 0;
    (void)client_connect(&other);
    assert_true(client_receive(c, CLIENT_WAIT_MS)); /* the end of the first one */
    assert_false(c->connected);
    client_expect(&other, "echo still here", "still here\n");
    client_drop(&other);
    free(other.frames);
}

static void one_loud_command_does_not_starve_another(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start loud = client_command(1, CLIENT_ARGV("yes"));
    struct atoll_am_exec_start quiet = client_command(2, CLIENT_SH("echo hi"));
    int64_t start = atoll_clock_ms();
    struct kept_frame k;
    bool done = false;

    (void)client_exec(c, &loud);
    (void)client_send(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &quiet);
    while (!done) {
        assert_true(client_receive(c, CLIENT_WAIT_MS));
        while (client_take(c, 0, 0, &k)) {
            struct atoll_am_output o;
            if (k.type == ATOLL_AGENT_EXEC_EXIT) {
                done = true;
            } else {
                assert_int_equal(
                    atoll_msg_decode(&atoll_am_output_desc, k.payload, k.len, &o, NULL), 0);
                client_ack(c, o.exec, o.stream, o.offset + o.data.len);
            }
            kept_done(&k);
        }
    }
    assert_true(atoll_clock_ms() - start < 5000);
}

static unsigned long rss_kib(pid_t pid)
{
    char path[64], line[256];
    unsigned long kib = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        (void)sscanf(line, "VmRSS: %lu", &kib);
    (void)fclose(f);
    assert_true(kib > 0);
    return kib;
}

static void a_daemon_that_does_not_read_costs_no_memory(void **state)
{
    struct agent_client *c = *state;
    unsigned long before = rss_kib(c->pid);

    /* Sixteen commands full of output and ten thousand requests, and nobody reads an answer. */
    for (uint64_t i = 1; i <= 16; i++) {
        struct atoll_am_exec_start msg = client_command(i, CLIENT_ARGV("yes"));
        (void)client_send(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg);
    }
    for (int i = 0; i < 10000; i++)
        assert_int_equal(
            atoll_channel_send(&c->ch, ATOLL_AGENT_PROCESS_LIST, ++c->last_id, NULL, NULL, NULL, 0),
            0);
    for (int i = 0; i < 20; i++) {
        assert_true(atoll_channel_flush(&c->ch) >= 0);
        (void)usleep(20 * 1000);
    }
    /* 16 windows of 256 KiB and a queue; unbounded it would be hundreds of megabytes. */
    assert_true(rss_kib(c->pid) - before < 48 * 1024);
    client_connect(c);
    assert_int_equal(list_one(c).exec, 1);
}

static void check_terminal(struct agent_client *c, const char *script, size_t bytes)
{
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH(script));
    struct run_result r;

    msg.flags = ATOLL_EXEC_PTY;
    msg.window = 4096;
    run_result_init(&r);
    (void)client_exec(c, &msg);
    client_drop(c);
    (void)usleep(1500 * 1000);
    client_connect(c);
    resume(c, 1, 0, 0);
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.code, 3);
    assert_int_equal(atoll_buf_size(&r.out), bytes);
    run_result_done(&r);
    client_forget(c, 1);
}

#define TEN_THOUSAND "seq -f %09.0f 1 1000 | tr '\\n' ' '; exit 3"

/* What a command left in its terminal waits for a daemon that is away, as what it left in a pipe does. */
static void a_terminal_keeps_what_was_written(void **state)
{
    check_terminal(*state, TEN_THOUSAND, 10000);
}

/* Also when somebody else has it open, who is not waited for. */
static void a_terminal_in_use_keeps_what_was_written(void **state)
{
    check_terminal(*state, "trap '' HUP; sleep 60 & " TEN_THOUSAND, 10000);
    check_terminal(*state, "trap '' HUP; sleep 60 & printf %4096s x; exit 3", 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(large_output_is_exact),
        TEST(without_acks_the_command_waits),
        TEST(the_daemon_may_be_away),
        TEST(a_terminal_keeps_what_was_written),
        TEST(a_terminal_in_use_keeps_what_was_written),
        TEST(dropped_connections_lose_and_repeat_nothing),
        TEST(the_end_is_told_again_until_forgotten),
        TEST(acknowledged_bytes_are_gone),
        TEST(a_note_waits_for_the_next_daemon),
        TEST(a_new_connection_replaces_the_old),
        TEST(one_loud_command_does_not_starve_another),
        TEST(a_daemon_that_does_not_read_costs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
