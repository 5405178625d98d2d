/*
 * The E2B provider against a real service. ATOLL_TEST_E2B is its URL, ATOLL_TEST_E2B_KEY a key of it;
 * tests/integration/test_provider_e2b.py starts one and runs this. Without them every test is skipped.
 */
#include "live_provider.h"

#include "provider/e2b/e2b.h"

static const char *url, *key;
static char agent_path[512];

static struct atoll_sync_provider *provider(const char *name)
{
    char daemon_id[64]; /* of this run */
    struct atoll_e2b_provider_config config = {.common.api_url = url,
                                               .sandbox_url = url,
                                               .common.api_key = key,
                                               .common.ca_file = getenv("ATOLL_TEST_E2B_CA"),
                                               .common.daemon_id = daemon_id,
                                               .common.agent_path = agent_path};
    struct atoll_sync_provider *p = NULL;
    struct atoll_error err = {0};

    (void)snprintf(daemon_id, sizeof(daemon_id), "%s-%d", name, getpid());
    if (atoll_e2b_provider_new(&config, &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static void make(struct atoll_sync_provider *p, struct atoll_spec *spec, struct agent_client *c)
{
    *spec = (struct atoll_spec){.waived = ATOLL_LIMIT_ALL};
    atoll_rand_id(spec->id, ATOLL_ID_LEN);
    create(p, spec, c);
    assert_true(spec->handle[0]);
}

typedef int plain_fn(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                     const struct atoll_spec *spec, struct atoll_error *err);

static void ask(struct atoll_sync_provider *p, plain_fn *fn, const struct atoll_spec *spec)
{
    struct atoll_sync_call call = call_for(20000);
    struct atoll_error err = {0};

    if (fn(p, &call, spec, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_life(void **state)
{
    struct atoll_sync_provider *p = provider("life"), *other = provider("other");
    struct atoll_sync_call call = call_for(10000);
    struct atoll_provider_stats stats;
    struct atoll_spec spec;
    struct agent_client c;
    struct atoll_error err;
    char detail[200];

    (void)state;
    assert_int_equal(p->ops->health(p, &call, detail, sizeof(detail), &err), 0);
    make(p, &spec, &c);
    expect_as(&c, "", "id -un; pwd", "user\n/home/user\n");
    expect_as(&c, "root", "id -u", "0\n");
    /* What is ours is ours alone. */
    expect_as(&c, "", "ls /run/atoll-agent 2>/dev/null || echo no", "no\n");
    assert_int_equal(look(p, &spec).state, ATOLL_INSPECT_ALIVE);
    assert_int_equal(count(p), 1);
    assert_int_equal(count(other), 0);
    assert_int_equal(p->ops->stats(p, &call, &spec, &stats, &err), 0);
    assert_true(stats.memory_limit_bytes > 0 && stats.disk_limit_bytes > 0);
    assert_true(stats.has_cpu_percent && stats.cpu_limit_millis > 0);
    ask(p, p->ops->destroy, &spec);
    ask(p, p->ops->destroy, &spec);
    /* The stream ends with it. */
    while (c.connected)
        assert_true(client_receive(&c, CLIENT_WAIT_MS));
    assert_int_equal(look(p, &spec).state, ATOLL_INSPECT_GONE);
    assert_int_equal(count(p), 0);
    leave(&c);
    p->ops->free(p);
    other->ops->free(other);
}

/* More than any buffer on the way, in both directions. */
static void test_bulk(void **state)
{
    enum { SIZE = 8 << 20 };
    struct atoll_sync_provider *p = provider("bulk");
    struct atoll_am_exec_start msg =
        client_command(7, CLIENT_SH("head -c 8388608 /dev/zero | tr '\\0' x"));
    struct run_result r;
    struct atoll_spec spec;
    struct agent_client c;

    (void)state;
    make(p, &spec, &c);
    client_run(&c, &msg, &r);
    assert_int_equal(atoll_buf_size(&r.out), SIZE);
    for (size_t i = 0; i < SIZE; i++)
        if (atoll_buf_head(&r.out)[i] != 'x')
            fail_msg("byte %zu", i);
    run_result_done(&r);

    msg = client_command(8, CLIENT_SH("cksum"));
    msg.flags = ATOLL_EXEC_STDIN;
    run_result_init(&r);
    (void)client_exec(&c, &msg);
    for (uint64_t at = 0; at < 1 << 20; at += 32768) {
        static uint8_t piece[32768];
        struct atoll_am_stdin in = {.exec = 8, .offset = at, .data = {piece, sizeof(piece)}};
        client_call(&c, ATOLL_AGENT_EXEC_STDIN, &atoll_am_stdin_desc, &in, NULL, NULL, NULL);
    }
    client_call(&c, ATOLL_AGENT_EXEC_STDIN_CLOSE, &atoll_am_exec_ref_desc,
                &(struct atoll_am_exec_ref){.exec = 8}, NULL, NULL, NULL);
    client_wait_exit(&c, &r);
    assert_string_equal(atoll_buf_str(&r.out), "3018728591 1048576\n");
    run_result_done(&r);
    ask(p, p->ops->destroy, &spec);
    leave(&c);
    p->ops->free(p);
}

/* A daemon is replaced: the next one knows the handle, and the agent what it said before. */
static void test_adopt(void **state)
{
    struct atoll_sync_provider *p = provider("adopt");
    struct atoll_am_exec_start msg = client_command(
        9, CLIENT_SH("echo one; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo two"));
    struct atoll_spec spec;
    struct agent_client c;
    struct run_result r;

    (void)state;
    make(p, &spec, &c);
    (void)client_exec(&c, &msg);
    leave(&c);
    p->ops->free(p);

    p = provider("adopt");
    assert_int_equal(count(p), 1);
    dial(p, &spec, &c);
    expect_as(&c, "root", "touch /tmp/go", "");
    run_result_init(&r);
    client_call(&c, ATOLL_AGENT_EXEC_RESUME, &atoll_am_resume_desc,
                &(struct atoll_am_resume){.exec = 9}, NULL, NULL, NULL);
    client_wait_exit(&c, &r);
    assert_string_equal(atoll_buf_str(&r.out), "one\ntwo\n");
    run_result_done(&r);
    ask(p, p->ops->destroy, &spec);
    leave(&c);
    p->ops->free(p);
}

/* What is closed here ends there: as many relays as streams. */
static void test_relays(void **state)
{
    static const char one[] = "for i in $(seq 100); do n=$(pgrep -cf '[-]-relay'); "
                              "[ $n -le 2 ] && break; sleep 0.05; done; echo $((n <= 2))";
    struct atoll_sync_provider *p = provider("relays");
    struct atoll_spec spec;
    struct agent_client c;

    (void)state;
    make(p, &spec, &c);
    for (int i = 0; i < 5; i++) {
        struct atoll_sync_call call = call_for(10000);
        struct atoll_error err;
        int fd;
        assert_int_equal(p->ops->dial(p, &call, &spec, &fd, &err), 0);
        (void)close(fd);
    }
    expect_as(&c, "root", one, "1\n");
    ask(p, p->ops->destroy, &spec);
    leave(&c);
    p->ops->free(p);
}

static void test_pause(void **state)
{
    struct atoll_sync_provider *p = provider("pause");
    struct atoll_sync_call call = call_for(5000);
    struct atoll_error err;
    struct atoll_spec spec;
    struct agent_client c;
    int fd;

    (void)state;
    make(p, &spec, &c);
    leave(&c);
    ask(p, p->ops->pause, &spec);
    ask(p, p->ops->pause, &spec);
    assert_int_equal(look(p, &spec).state, ATOLL_INSPECT_PAUSED);
    assert_int_equal(count(p), 1);
    assert_true(p->ops->dial(p, &call, &spec, &fd, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    ask(p, p->ops->resume, &spec);
    ask(p, p->ops->resume, &spec);
    dial(p, &spec, &c);
    expect_as(&c, "", "echo here", "here\n");
    leave(&c);
    ask(p, p->ops->destroy, &spec);
    p->ops->free(p);
}

/* Root inside can end the agent; that is the end of the sandbox, and it is said so. */
static void test_agent_gone(void **state)
{
    struct atoll_sync_provider *p = provider("gone");
    struct atoll_am_exec_start msg = client_command(3, CLIENT_SH("pkill -KILL -f agent.--listen"));
    struct atoll_provider_inspection seen;
    struct atoll_spec spec;
    struct agent_client c;
    int fd = -1;

    (void)state;
    make(p, &spec, &c);
    msg.user = "root";
    (void)client_send(&c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg);
    while (c.connected)
        assert_true(client_receive(&c, CLIENT_WAIT_MS));
    for (int i = 0; i < 100 && (seen = look(p, &spec)).state == ATOLL_INSPECT_ALIVE; i++) {
        struct atoll_sync_call call = call_for(5000);
        struct atoll_error err;
        char byte;
        /* Whoever dials gets a stream that ends at once. */
        if (p->ops->dial(p, &call, &spec, &fd, &err) == 0) {
            (void)!read(fd, &byte, 1);
            (void)close(fd);
        }
    }
    assert_int_equal(seen.state, ATOLL_INSPECT_EXITED);
    assert_non_null(strstr(seen.cause, "agent"));
    ask(p, p->ops->destroy, &spec);
    leave(&c);
    p->ops->free(p);
}

static void test_wrong_key(void **state)
{
    struct atoll_sync_call call = call_for(5000);
    struct atoll_sync_provider *p;
    struct atoll_error err;
    char detail[200];

    (void)state;
    key = "e2b_00112233445566778899aabbccddeeff";
    p = provider("wrong");
    assert_true(p->ops->health(p, &call, detail, sizeof(detail), &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAUTHENTICATED);
    assert_null(strstr(err.text, "00112233"));
    p->ops->free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),      cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_adopt),     cmocka_unit_test(test_relays),
        cmocka_unit_test(test_pause),     cmocka_unit_test(test_agent_gone),
        cmocka_unit_test(test_wrong_key),
    };
    const char *build = getenv("ATOLL_BUILD_DIR");

    url = getenv("ATOLL_TEST_E2B");
    key = getenv("ATOLL_TEST_E2B_KEY");
    if (!url || !key || !build) {
        (void)puts("test_e2b_live: skipped, ATOLL_TEST_E2B names no service");
        return 77;
    }
    (void)snprintf(agent_path, sizeof(agent_path), "%s/atoll-agent", build);
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (getenv("ATOLL_TEST_E2B_ONLY"))
        cmocka_set_test_filter(getenv("ATOLL_TEST_E2B_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
