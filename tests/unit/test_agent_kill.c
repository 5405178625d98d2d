/*
 * The end of commands by force, the truth about it, and what background children may do.
 */
#include "agent_client.h"

static void send_signal(struct agent_client *c, uint64_t exec, int signal, bool tree,
                        const char *who)
{
    struct atoll_am_signal msg = {.exec = exec, .signal = signal, .tree = tree, .who = who};
    client_call(c, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &msg, NULL, NULL, NULL);
}

/* Reads output until it contains the text. */
static void wait_output(struct agent_client *c, struct run_result *r, const char *text)
{
    while (!strstr(atoll_buf_str(&r->out), text)) {
        struct kept_frame k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
        client_collect(c, r, &k);
        kept_done(&k);
    }
}

static bool alive(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* A file that cannot be made unique by a pid: names the processes of one test. */
static void wait_gone(pid_t pid)
{
    for (int i = 0; i < 200 && alive(pid); i++)
        (void)usleep(10 * 1000);
    assert_false(alive(pid));
}

static void a_signal_by_request_names_who_sent_it(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("sleep", "100"));
    struct run_result r;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    send_signal(c, 1, SIGTERM, false, "api key 7");
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_KILLED_BY);
    assert_int_equal(r.exit.signal, SIGTERM);
    assert_string_equal(r.who, "api key 7");
    run_result_done(&r);
}

static void a_handled_signal_is_an_ordinary_exit(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"));
    struct run_result r;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    wait_output(c, &r, "ready");
    send_signal(c, 1, SIGTERM, false, "me");
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
    assert_int_equal(r.exit.code, 3);
    run_result_done(&r);
}

static void another_signal_than_the_one_sent_is_not_ours(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("trap 'kill -KILL $$' USR1; echo ready; while :; do sleep 0.05; done"));
    struct run_result r;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    wait_output(c, &r, "ready");
    send_signal(c, 1, SIGUSR1, false, "me");
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_SIGNALED);
    assert_int_equal(r.exit.signal, SIGKILL);
    assert_string_equal(r.who, "");
    run_result_done(&r);
}

static void bad_signals_are_refused(void **state)
{
    struct agent_client *c = *state;
    static const int bad[] = {0, -1, 65, 1000};
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("true"));
    struct atoll_am_signal sig = {.exec = 9, .signal = SIGTERM};
    struct run_result r;

    client_call_fails(c, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &sig, ATOLL_ERR_NOT_FOUND,
                      "no command 9");
    run_result_init(&r);
    (void)client_exec(c, &msg);
    sig.exec = 1;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        sig.signal = bad[i];
        client_call_fails(c, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &sig,
                          ATOLL_ERR_INVALID_ARGUMENT, "not a signal number");
    }
    client_wait_exit(c, &r);
    sig.signal = SIGTERM;
    client_call_fails(c, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &sig,
                      ATOLL_ERR_FAILED_PRECONDITION, "has ended");
    run_result_done(&r);
}

/* Starts children of every kind that print their pids; returns how many were read. */
#define TREE_SCRIPT                                                                                  \
    "sleep 1000 & echo $!; "                     /* a child */                                       \
    "sh -c 'sleep 1000 & echo $!; wait' & "      /* a grandchild */                                  \
    "setsid sh -c 'echo $$; exec sleep 1000' & " /* another session */                               \
    "(setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 1000\" & exit' &) ; " /* and an orphan */ \
    "sh -c 'trap \"\" TERM HUP INT; echo $$; while :; do sleep 1; done' & "

static size_t start_tree(struct agent_client *c, struct run_result *r, pid_t pids[8],
                         uint32_t timeout_ms)
{
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH(TREE_SCRIPT "wait"));
    size_t lines = 0;

    msg.timeout_ms = timeout_ms;
    run_result_init(r);
    (void)client_exec(c, &msg);
    while (lines < 5) {
        struct kept_frame k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
        client_collect(c, r, &k);
        kept_done(&k);
        lines = 0;
        for (const char *p = atoll_buf_str(&r->out); *p; p = strchr(p, '\n') + 1) {
            if (!strchr(p, '\n'))
                break;
            pids[lines++] = (pid_t)strtol(p, NULL, 10);
        }
    }
    for (size_t i = 0; i < lines; i++)
        assert_true(alive(pids[i]));
    return lines;
}

static void tree_kill_finds_sessions_and_orphans(void **state)
{
    struct agent_client *c = *state;
    struct run_result r;
    pid_t pids[8];
    size_t n = start_tree(c, &r, pids, 0);

    send_signal(c, 1, SIGKILL, true, "user");
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_KILLED_BY);
    assert_string_equal(r.who, "user");
    for (size_t i = 0; i < n; i++)
        wait_gone(pids[i]);
    run_result_done(&r);
}

static void a_timeout_kills_the_whole_tree(void **state)
{
    struct agent_client *c = *state;
    struct run_result r;
    pid_t pids[8];
    int64_t start = atoll_clock_ms();
    size_t n = start_tree(c, &r, pids, 700);

    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_TIMED_OUT);
    assert_int_equal(r.exit.signal, SIGKILL);
    assert_true(atoll_clock_ms() - start >= 700);
    assert_true(atoll_clock_ms() - start < 5000);
    for (size_t i = 0; i < n; i++)
        wait_gone(pids[i]);
    run_result_done(&r);
}

static void tree_kill_works_after_the_command_ended(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg =
        client_command(1, CLIENT_SH("setsid sh -c 'exec sleep 1000 >/dev/null 2>&1' & echo $!"));
    struct run_result r;
    pid_t pid;

    run_result_init(&r);
    (void)client_exec(c, &msg);
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
    pid = (pid_t)strtol(atoll_buf_str(&r.out), NULL, 10);
    assert_true(alive(pid));
    send_signal(c, 1, SIGKILL, true, "cleaner");
    wait_gone(pid);
    run_result_done(&r);
}

static void tree_kill_leaves_other_commands_alone(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start a = client_command(1, CLIENT_ARGV("sleep", "1000"));
    struct atoll_am_exec_start b = client_command(2, CLIENT_ARGV("sleep", "1000"));
    pid_t other;
    struct run_result r;

    run_result_init(&r);
    (void)client_exec(c, &a);
    other = (pid_t)client_exec(c, &b);
    send_signal(c, 1, SIGKILL, true, "x");
    client_wait_exit(c, &r);
    assert_int_equal(r.exit.exec, 1);
    assert_true(alive(other));
    run_result_done(&r);
}

static void a_fork_bomb_is_stopped(void **state)
{
    struct agent_client *c = *state;
    char script[256], check[256];
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH(script));
    int64_t start;
    struct run_result r;

    /* The agent's pid in the argument tells these processes from those of another run. */
    (void)snprintf(script, sizeof(script),
                   "f() { sleep 0.05%d; f & }; i=0; while [ $i -lt 20 ]; do f & i=$((i+1)); done; "
                   "sleep 1000",
                   c->pid);
    (void)snprintf(check, sizeof(check),
                   "i=0; while n=$(ps -eo args | grep -c '[s]leep 0.05%d') && [ $i -lt 50 ]; do "
                   "i=$((i+1)); sleep 0.1; done; echo $n",
                   c->pid);
    msg.timeout_ms = 500;
    run_result_init(&r);
    start = atoll_clock_ms();
    (void)client_exec(c, &msg);
    client_wait_exit(c, &r);
    assert_true(atoll_clock_ms() - start < 10000);
    assert_int_equal(r.exit.kind, ATOLL_END_TIMED_OUT);
    run_result_done(&r);
    client_expect(c, check, "0\n");
}

static void a_command_in_time_is_not_timed_out(void **state)
{
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("sleep 0.1; exit 7"));
    struct run_result r;

    msg.timeout_ms = 10000;
    client_run(*state, &msg, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
    assert_int_equal(r.exit.code, 7);
    run_result_done(&r);
}

static void a_background_child_does_not_hold_the_end(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("sh -c 'sleep 1; echo too late; echo alive > mark' & echo now; exit 2"));
    int64_t start = atoll_clock_ms();
    struct run_result r;

    client_run(c, &msg, &r);
    assert_true(atoll_clock_ms() - start < 900);
    assert_string_equal(atoll_buf_str(&r.out), "now\n");
    assert_int_equal(r.exit.code, 2);
    run_result_done(&r);
    /* The child's later output went nowhere, but it was not killed by SIGPIPE. */
    (void)usleep(1300 * 1000);
    client_expect(c, "cat mark", "alive\n");
}

static void a_chatty_background_child_gets_a_second(void **state)
{
    struct agent_client *c = *state;
    int64_t took = 0;

    /* On a busy machine the child may be silent for so long that it counts as done. */
    for (uint32_t i = 1; i <= 10 && took < 900; i++) {
        struct atoll_am_exec_start msg =
            client_command(i, CLIENT_SH("sh -c 'while :; do echo x; done' & exit 0"));
        int64_t start = atoll_clock_ms();
        struct run_result r;
        client_run(c, &msg, &r);
        took = atoll_clock_ms() - start;
        assert_int_equal(r.exit.code, 0);
        run_result_done(&r);
    }
    assert_true(took >= 900);
}

/* More than the window is in flight when the command ends and a child still holds the pipe. */
static void what_the_command_wrote_is_never_cut_off(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg =
        client_command(1, CLIENT_SH("sleep 100 & head -c 60000 /dev/zero; exit 6"));
    struct run_result r;

    msg.window = 4096;
    c->acks = false;
    run_result_init(&r);
    (void)client_exec(c, &msg);
    (void)usleep(1500 * 1000); /* longer than any patience with the child */
    client_connect(c);
    c->acks = true;
    struct atoll_am_resume resume = {.exec = 1};
    client_call(c, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc, &resume, NULL, NULL, NULL);
    client_wait_exit(c, &r);
    assert_int_equal(atoll_buf_size(&r.out), 60000);
    assert_int_equal(r.exit.code, 6);
    run_result_done(&r);
}

static void orphans_are_reaped(void **state)
{
    struct agent_client *c = *state;

    client_expect(c,
                  "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.05 & ) ; done; sleep 0.3; "
                  "ps -eo stat,ppid | awk -v p=$PPID '$2 == p && $1 ~ /Z/' | wc -l",
                  "0\n");
}

/* A file plays the cgroup's counter. */
static void set_kills(int fd, int kills)
{
    char text[128];
    int n = snprintf(text, sizeof(text), "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", kills);

    assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
}

static void an_oom_kill_is_told_with_its_evidence(void **state)
{
    struct agent_client c;
    struct run_result r;
    char name[] = "/tmp/atoll-oom-XXXXXX";
    int fd = mkstemp(name);
    (void)state;

    set_kills(fd, 3); /* before our time */
    client_start_with(&c, fd);
    (void)client_connect(&c);

    /* Killed by somebody, but the counter stands still. */
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("kill -9 $$"));
    client_run(&c, &msg, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_SIGNALED);
    assert_int_equal(r.exit.oom_kills, 0);
    run_result_done(&r);

    /* The counter moved while two commands ran, and both die of SIGKILL: one kill, one verdict. */
    struct atoll_am_exec_start first = client_command(2, CLIENT_SH("sleep 0.2; kill -9 $$"));
    struct atoll_am_exec_start second = client_command(3, CLIENT_SH("sleep 0.4; kill -9 $$"));
    run_result_init(&r);
    (void)client_exec(&c, &first);
    (void)client_exec(&c, &second);
    set_kills(fd, 4);
    client_wait_exit(&c, &r);
    assert_int_equal(r.exit.exec, 2);
    assert_int_equal(r.exit.kind, ATOLL_END_OOM_KILLED);
    assert_int_equal(r.exit.signal, SIGKILL);
    assert_int_equal(r.exit.oom_kills, 1);
    assert_true(r.exit.oom_pid > 0);
    assert_string_equal(r.oom_process, "sh");
    assert_int_equal(r.exit.oom_limit_bytes, 4096);
    client_wait_exit(&c, &r);
    assert_int_equal(r.exit.exec, 3);
    assert_int_equal(r.exit.kind, ATOLL_END_SIGNALED);
    assert_int_equal(r.exit.oom_kills, 1); /* it happened while it ran, that much is known */
    assert_int_equal(r.exit.oom_pid, 0);
    run_result_done(&r);

    /* A child was the victim: the command tells its own exit, with the evidence. */
    struct atoll_am_exec_start parent = client_command(4, CLIENT_SH("sleep 0.2; exit 137"));
    run_result_init(&r);
    (void)client_exec(&c, &parent);
    set_kills(fd, 5);
    client_wait_exit(&c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
    assert_int_equal(r.exit.code, 137);
    assert_int_equal(r.exit.oom_kills, 1);
    run_result_done(&r);

    /* Our own SIGKILL is ours even when the counter moves. */
    struct atoll_am_exec_start ours = client_command(5, CLIENT_SH("sleep 100"));
    run_result_init(&r);
    (void)client_exec(&c, &ours);
    set_kills(fd, 6);
    send_signal(&c, 5, SIGKILL, false, "me");
    client_wait_exit(&c, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_KILLED_BY);
    run_result_done(&r);

    client_stop(&c);
    (void)close(fd);
    (void)unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(a_signal_by_request_names_who_sent_it),
        TEST(a_handled_signal_is_an_ordinary_exit),
        TEST(another_signal_than_the_one_sent_is_not_ours),
        TEST(bad_signals_are_refused),
        TEST(tree_kill_finds_sessions_and_orphans),
        TEST(a_timeout_kills_the_whole_tree),
        TEST(tree_kill_works_after_the_command_ended),
        TEST(tree_kill_leaves_other_commands_alone),
        TEST(a_fork_bomb_is_stopped),
        TEST(a_command_in_time_is_not_timed_out),
        TEST(a_background_child_does_not_hold_the_end),
        TEST(a_chatty_background_child_gets_a_second),
        TEST(what_the_command_wrote_is_never_cut_off),
        TEST(orphans_are_reaped),
        cmocka_unit_test(an_oom_kill_is_told_with_its_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
