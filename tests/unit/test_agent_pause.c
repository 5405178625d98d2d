/*
 * The agent's part of a pause: time limits that stand still, and processes that are ended.
 */
#include "agent_client.h"

static void pause_agent(struct agent_client *c, bool end, const char *who)
{
    struct atoll_am_pause msg = {end, who};
    client_call(c, ATOLL_AGENT_PAUSE, &atoll_am_pause_desc, &msg, NULL, NULL, NULL);
}

static void resume_agent(struct agent_client *c)
{
    client_call(c, ATOLL_AGENT_RESUME, NULL, NULL, NULL, NULL, NULL);
}

static bool runs(struct agent_client *c, uint64_t exec)
{
    struct kept_frame k;
    struct atoll_am_exec_info info;
    uint32_t id = client_send(c, ATOLL_AGENT_EXEC_LIST, NULL, NULL);
    bool found = false;

    k = client_wait(c, id, ATOLL_AGENT_REPLY);
    kept_done(&k);
    while (client_take(c, id, ATOLL_AGENT_PART, &k)) {
        assert_int_equal(atoll_msg_decode(&atoll_am_exec_info_desc, k.payload, k.len, &info, NULL),
                         0);
        found |= info.exec == exec && !info.ended;
        kept_done(&k);
    }
    return found;
}

static void time_limits_stand_still(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("sleep", "100"));
    struct run_result r;

    run_result_init(&r);
    msg.timeout_ms = 200;
    (void)client_exec(c, &msg);
    pause_agent(c, false, "");
    (void)usleep(400 * 1000);
    assert_true(runs(c, 1));
    resume_agent(c);
    resume_agent(c); /* once more changes nothing */
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_TIMED_OUT);
    run_result_done(&r);
}

static void without_a_pause_they_do_not(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("sleep", "100"));
    struct run_result r;

    run_result_init(&r);
    msg.timeout_ms = 200;
    (void)client_exec(c, &msg);
    resume_agent(c);
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_TIMED_OUT);
    run_result_done(&r);
}

static void ends_are_told_before_the_answer(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start sleeps = client_command(1, CLIENT_ARGV("sleep", "100"));
    struct atoll_am_exec_start stubborn =
        client_command(2, CLIENT_SH("trap '' TERM INT HUP; while :; do sleep 0.05; done"));
    struct kept_frame k;
    int ends = 0;

    (void)client_exec(c, &sleeps);
    (void)client_exec(c, &stubborn);
    pause_agent(c, true, "somebody");
    while (client_take(c, 0, ATOLL_AGENT_EXEC_EXIT, &k)) {
        struct atoll_am_exit e;
        assert_int_equal(atoll_msg_decode(&atoll_am_exit_desc, k.payload, k.len, &e, NULL), 0);
        assert_int_equal(e.kind, ATOLL_END_KILLED_BY);
        assert_string_equal(e.who, "somebody");
        kept_done(&k);
        ends++;
    }
    assert_int_equal(ends, 2);
    assert_false(runs(c, 1) || runs(c, 2));
    resume_agent(c);
    client_expect(c, "echo again", "again\n");
}

static void nothing_to_end_is_fine(void **state)
{
    struct agent_client *c = *state;

    pause_agent(c, true, "somebody");
    pause_agent(c, true, "somebody");
    resume_agent(c);
    client_expect(c, "echo here", "here\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(time_limits_stand_still, client_setup, client_teardown),
        cmocka_unit_test_setup_teardown(without_a_pause_they_do_not, client_setup, client_teardown),
        cmocka_unit_test_setup_teardown(ends_are_told_before_the_answer, client_setup,
                                        client_teardown),
        cmocka_unit_test_setup_teardown(nothing_to_end_is_fine, client_setup, client_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
