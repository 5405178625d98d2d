/*
 * The agent runs commands: how they end, what they print, who they are.
 */
#include "agent_client.h"

static void reports_exit_codes(void **state)
{
    struct agent_client *c = *state;
    static const int codes[] = {0, 1, 3, 127, 255};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(codes); i++) {
        char script[32];
        struct run_result r;
        struct atoll_am_exec_start msg = client_command(i + 1, CLIENT_SH(script));

        (void)snprintf(script, sizeof(script), "exit %d", codes[i]);
        client_run(c, &msg, &r);
        assert_int_equal(r.exit.exec, i + 1);
        assert_int_equal(r.exit.kind, ATOLL_END_EXITED);
        assert_int_equal(r.exit.code, codes[i]);
        assert_int_equal(r.exit.oom_kills, 0);
        run_result_done(&r);
    }
}

static void keeps_stdout_and_stderr_apart(void **state)
{
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("printf out1; printf err1 >&2; sleep 0.05; printf out2; printf err2 >&2"));
    struct run_result r;

    client_run(*state, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.out), "out1out2");
    assert_string_equal(atoll_buf_str(&r.err), "err1err2");
    run_result_done(&r);
}

static void says_which_signal_killed(void **state)
{
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("kill -SEGV $$"));
    struct run_result r;

    client_run(*state, &msg, &r);
    assert_int_equal(r.exit.kind, ATOLL_END_SIGNALED);
    assert_int_equal(r.exit.signal, SIGSEGV);
    run_result_done(&r);
}

static void usage_of_the_command_is_reported(void **state)
{
    struct atoll_am_exec_start msg =
        client_command(1, CLIENT_SH("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"));
    struct run_result r;

    client_run(*state, &msg, &r);
    assert_true(r.exit.user_us + r.exit.system_us > 1000);
    assert_true(r.exit.max_rss_bytes > 100 * 1024);
    run_result_done(&r);
}

static void default_environment_and_overrides(void **state)
{
    struct agent_client *c = *state;
    const char *env[] = {"LANG=xx", "MINE=a b=c", "ATOLL_EXEC=forged"};
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("echo $PATH; echo $LANG; echo $MINE; echo ${TERM-none}; echo ${#ATOLL_EXEC}; "
                     "echo $HOME; pwd; echo $USER $LOGNAME; umask"));
    struct run_result r;
    char want[512];

    msg.env.items = env;
    msg.env.len = ATOLL_ARRAY_LEN(env);
    client_run(c, &msg, &r);
    (void)snprintf(want, sizeof(want),
                   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nxx\na b=c\nnone\n"
                   "16\n%s\n%s\n%s %s\n0022\n",
                   c->dir, c->dir, is_root() ? "nobody" : "me", is_root() ? "nobody" : "me");
    assert_string_equal(atoll_buf_str(&r.out), want);
    run_result_done(&r);
}

static void path_of_the_request_is_searched(void **state)
{
    struct agent_client *c = *state;
    char path[128], script[256];
    const char *env[] = {path};
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("mytool", "x"));
    struct run_result r;

    /* Without #!: the shell runs it. */
    (void)snprintf(script, sizeof(script),
                   "mkdir bin && printf 'echo ran \"$1\"' > bin/mytool && "
                   "chmod +x bin/mytool");
    client_expect(c, script, "");
    (void)snprintf(path, sizeof(path), "PATH=/nonexistent:%s/bin:/usr/bin:/bin", c->dir);
    msg.env.items = env;
    msg.env.len = 1;
    client_run(c, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.out), "ran x\n");
    run_result_done(&r);
}

/* Each row: what is wrong with the request, and what the answer says about it. */
static void failures_to_start_are_explained(void **state)
{
    struct agent_client *c = *state;
    const struct {
        const char *command, *cwd, *user, *env;
        enum atoll_error_kind kind;
        const char *text;
    } rows[] = {
        {"nosuchcommand", "", "", NULL, ATOLL_ERR_NOT_FOUND, "command not found: nosuchcommand"},
        {"/no/such/file", "", "", NULL, ATOLL_ERR_NOT_FOUND, "command not found: /no/such/file"},
        {"", "", "", NULL, ATOLL_ERR_NOT_FOUND, "command not found: "},
        {"/etc/passwd", "", "", NULL, ATOLL_ERR_PERMISSION_DENIED,
         "/etc/passwd: permission denied"},
        {"/", "", "", NULL, ATOLL_ERR_PERMISSION_DENIED, "permission denied"},
        {"./bad", "", "", NULL, ATOLL_ERR_INVALID_ARGUMENT, "interpreter or loader does not exist"},
        {"true", "/no/where", "", NULL, ATOLL_ERR_INVALID_ARGUMENT, "cwd /no/where does not exist"},
        {"true", "/etc/passwd", "", NULL, ATOLL_ERR_INVALID_ARGUMENT,
         "cwd /etc/passwd is not a directory"},
        {"true", "", "bob", NULL,
         is_root() ? ATOLL_ERR_INVALID_ARGUMENT : ATOLL_ERR_FAILED_PRECONDITION,
         is_root() ? "unknown user bob" : "only one user id is mapped"},
        {"true", "", "", "NOVALUE", ATOLL_ERR_INVALID_ARGUMENT, "NAME=VALUE"},
    };

    client_expect(c, "printf '#!/no/interpreter\\n' > bad; chmod +x bad", "");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV(rows[i].command));
        const char *env[] = {rows[i].env};
        msg.cwd = rows[i].cwd;
        msg.user = rows[i].user;
        msg.env.items = env;
        msg.env.len = rows[i].env ? 1 : 0;
        client_call_fails(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg, rows[i].kind,
                          rows[i].text);
    }
    client_expect(c, "echo fine", "fine\n"); /* nothing was left half-made */
}

static void no_argv_is_refused(void **state)
{
    struct atoll_am_exec_start msg = {.exec = 1};

    client_call_fails(*state, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg,
                      ATOLL_ERR_INVALID_ARGUMENT, "no command");
}

static void an_exec_id_is_used_once(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(7, CLIENT_ARGV("sleep", "100"));

    (void)client_exec(c, &msg);
    client_call_fails(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg,
                      ATOLL_ERR_ALREADY_EXISTS, "command 7 already");
}

static void the_number_of_commands_is_bounded(void **state)
{
    struct agent_client *c = *state;
    struct run_result r;

    for (uint64_t i = 1; i <= 16; i++) {
        struct atoll_am_exec_start msg = client_command(i, CLIENT_ARGV("true"));
        run_result_init(&r);
        (void)client_exec(c, &msg);
        client_wait_exit(c, &r);
        run_result_done(&r);
    }
    struct atoll_am_exec_start more = client_command(17, CLIENT_ARGV("true"));
    client_call_fails(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &more,
                      ATOLL_ERR_RESOURCE_EXHAUSTED, "16 commands already");
    client_forget(c, 1);
    client_run(c, &more, &r);
    run_result_done(&r);
}

static void users_get_their_ids_and_no_capabilities(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("id -u; id -g; grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | "
                     "cut -f2 | sort -u; grep NoNewPrivs /proc/self/status | cut -f2"));
    struct run_result r;

    if (!is_root())
        skip();
    client_run(c, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.out), "65534\n65534\n0000000000000000\n1\n");
    run_result_done(&r);

    /* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID */
    msg = client_command(2, CLIENT_SH("id -u; grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status | "
                                      "cut -f2 | sort -u; grep -E 'Cap(Inh|Amb)' /proc/self/status "
                                      "| cut -f2 | sort -u"));
    msg.user = "root";
    client_run(c, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.out), "0\n00000000000000fb\n0000000000000000\n");
    run_result_done(&r);
}

static void numeric_users_work(void **state)
{
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("id -u; id -g; id -G; pwd"));
    struct run_result r;

    if (!is_root())
        skip();
    msg.user = "12345";
    client_run(*state, &msg, &r);
    assert_string_equal(atoll_buf_str(&r.out), "12345\n12345\n12345\n/\n");
    run_result_done(&r);
}

static void children_get_nothing_of_the_agent(void **state)
{
    struct atoll_am_exec_start msg = client_command(
        1, CLIENT_SH("sleep 0.1; ls /proc/self/fd | tr '\\n' ' '; cut -d' ' -f6 /proc/$$/stat | "
                     "grep -qx $$ && echo leader; grep -E '^Sig(Blk|Ign)' "
                     "/proc/self/status | cut -f2; cat /proc/self/oom_score_adj"));
    struct run_result r;

    client_run(*state, &msg, &r);
    /* 3 is ls's own descriptor of the directory */
    assert_string_equal(atoll_buf_str(&r.out),
                        "0 1 2 3 leader\n0000000000000000\n0000000000000000\n500\n");
    run_result_done(&r);
}

static void stdin_is_empty_unless_asked_for(void **state)
{
    client_expect(*state, "cat; readlink /proc/self/fd/0", "/dev/null\n");
}

static void send_stdin(struct agent_client *c, uint64_t offset, const char *text)
{
    struct atoll_am_stdin in = {
        .exec = 1, .offset = offset, .data = {(const uint8_t *)text, strlen(text)}};
    client_call(c, ATOLL_AGENT_EXEC_STDIN, &atoll_am_stdin_desc, &in, NULL, NULL, NULL);
}

static void close_stdin(struct agent_client *c)
{
    struct atoll_am_exec_ref ref = {.exec = 1};
    client_call(c, ATOLL_AGENT_EXEC_STDIN_CLOSE, &atoll_am_exec_ref_desc, &ref, NULL, NULL, NULL);
}

static void stdin_offsets_make_resending_safe(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("cat"));
    struct atoll_am_stdin gap = {.exec = 1, .offset = 100, .data = {(const uint8_t *)"x", 1}};
    struct run_result r;

    msg.flags = ATOLL_EXEC_STDIN;
    run_result_init(&r);
    (void)client_exec(c, &msg);
    send_stdin(c, 0, "hello ");
    send_stdin(c, 0, "hello ");       /* the answer was lost */
    send_stdin(c, 0, "hello world "); /* half of it is known */
    client_call_fails(c, ATOLL_AGENT_EXEC_STDIN, &atoll_am_stdin_desc, &gap, ATOLL_ERR_OUT_OF_RANGE,
                      "byte 12");
    send_stdin(c, 12, "end");
    close_stdin(c);
    close_stdin(c);
    client_wait_exit(c, &r);
    assert_string_equal(atoll_buf_str(&r.out), "hello world end");
    run_result_done(&r);
}

static void stdin_waits_for_a_slow_reader(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("sleep 0.3; wc -c"));
    static uint8_t data[100 * 1024];
    struct atoll_am_stdin in = {.exec = 1, .data = {data, sizeof(data)}};
    struct run_result r;
    struct kept_frame k;
    uint32_t id = 0;
    int quick = 0;

    msg.flags = ATOLL_EXEC_STDIN;
    run_result_init(&r);
    (void)client_exec(c, &msg);
    for (int i = 0; i < 10; i++, in.offset += sizeof(data)) {
        id = client_send(c, ATOLL_AGENT_EXEC_STDIN, &atoll_am_stdin_desc, &in);
        if (!client_take(c, id, 0, &k) && (client_receive(c, 50), !client_take(c, id, 0, &k)))
            k = client_wait(c, id, 0); /* answered when there is room */
        else
            quick++;
        assert_int_equal(k.type, ATOLL_AGENT_REPLY);
        kept_done(&k);
    }
    assert_true(quick < 10);
    close_stdin(c);
    client_wait_exit(c, &r);
    assert_string_equal(atoll_buf_str(&r.out), "1024000\n");
    run_result_done(&r);
}

static void input_for_one_who_does_not_read_is_refused(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("exec <&-; sleep 100"));
    struct atoll_am_stdin in = {.exec = 1, .data = {(const uint8_t *)"x", 1}};

    msg.flags = ATOLL_EXEC_STDIN;
    (void)client_exec(c, &msg);
    (void)usleep(200 * 1000);
    client_call_fails(c, ATOLL_AGENT_EXEC_STDIN, &atoll_am_stdin_desc, &in,
                      ATOLL_ERR_FAILED_PRECONDITION, "no longer reads");
}

static void a_terminal_is_one_and_can_be_resized(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(
        1,
        CLIENT_SH("stty size; tty | grep -q /dev/pts && echo tty; echo $TERM; stat -c %u $(tty); "
                  "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done"));
    struct atoll_am_resize resize = {.exec = 1, .cols = 120, .rows = 50};
    struct run_result r;
    char want[128];

    msg.flags = ATOLL_EXEC_PTY;
    msg.cols = 100;
    msg.rows = 30;
    run_result_init(&r);
    (void)client_exec(c, &msg);
    while (!strstr(atoll_buf_str(&r.out), "ready")) {
        struct kept_frame k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
        client_collect(c, &r, &k);
        kept_done(&k);
    }
    client_call(c, ATOLL_AGENT_EXEC_RESIZE, &atoll_am_resize_desc, &resize, NULL, NULL, NULL);
    client_wait_exit(c, &r);
    (void)snprintf(want, sizeof(want),
                   "30 100\r\ntty\r\nxterm-256color\r\n%u\r\nready\r\n50 120\r\n",
                   is_root() ? 65534 : geteuid());
    assert_string_equal(atoll_buf_str(&r.out), want);
    assert_int_equal(r.exit.code, 4);
    run_result_done(&r);
}

static void terminal_input_and_its_end(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg =
        client_command(1, CLIENT_SH("stty -echo; echo go; cat; echo end"));
    struct run_result r;
    struct kept_frame k;

    msg.flags = ATOLL_EXEC_PTY | ATOLL_EXEC_STDIN;
    run_result_init(&r);
    (void)client_exec(c, &msg);
    k = client_wait(c, 0, ATOLL_AGENT_EXEC_OUTPUT);
    client_collect(c, &r, &k);
    kept_done(&k);
    send_stdin(c, 0, "line\npart");
    close_stdin(c);
    client_wait_exit(c, &r);
    assert_string_equal(atoll_buf_str(&r.out), "go\r\nline\r\npartend\r\n");
    run_result_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(reports_exit_codes),
        TEST(keeps_stdout_and_stderr_apart),
        TEST(says_which_signal_killed),
        TEST(usage_of_the_command_is_reported),
        TEST(default_environment_and_overrides),
        TEST(path_of_the_request_is_searched),
        TEST(failures_to_start_are_explained),
        TEST(no_argv_is_refused),
        TEST(an_exec_id_is_used_once),
        TEST(the_number_of_commands_is_bounded),
        TEST(users_get_their_ids_and_no_capabilities),
        TEST(numeric_users_work),
        TEST(children_get_nothing_of_the_agent),
        TEST(stdin_is_empty_unless_asked_for),
        TEST(stdin_offsets_make_resending_safe),
        TEST(stdin_waits_for_a_slow_reader),
        TEST(input_for_one_who_does_not_read_is_refused),
        TEST(a_terminal_is_one_and_can_be_resized),
        TEST(terminal_input_and_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
