/*
 * What the agent must take without harm: garbage from the daemon's side, traps from the tenant's.
 */
#include "agent_client.h"

#include <sched.h>
#include <sys/mount.h>

static void send_raw(struct agent_client *c, const void *bytes, size_t n)
{
    assert_int_equal(atoll_fd_write_all(c->ch.fd, bytes, n), 0);
}

/* The agent closes this connection, and only that. */
static void expect_closed(struct agent_client *c)
{
    while (c->connected)
        assert_true(client_receive(c, CLIENT_WAIT_MS));
    (void)client_connect(c);
    client_expect(c, "echo alive", "alive\n");
}

static void header(uint8_t out[12], uint32_t len, uint16_t type, uint16_t nfds, uint32_t id)
{
    const uint8_t bytes[12] = {
        (uint8_t)len,  (uint8_t)(len >> 8),  (uint8_t)(len >> 16), (uint8_t)(len >> 24),
        (uint8_t)type, (uint8_t)(type >> 8), (uint8_t)nfds,        (uint8_t)(nfds >> 8),
        (uint8_t)id,   (uint8_t)(id >> 8),   (uint8_t)(id >> 16),  (uint8_t)(id >> 24),
    };
    memcpy(out, bytes, 12);
}

static void nothing_works_before_hello(void **state)
{
    struct agent_client *c = *state;

    client_connect_raw(c);
    assert_false(client_receive(c, 100));
    (void)client_send(c, ATOLL_AGENT_USAGE, NULL, NULL);
    expect_closed(c);
}

static void a_malformed_frame_ends_the_connection_only(void **state)
{
    struct agent_client *c = *state;
    const struct {
        uint32_t len;
        uint16_t type, nfds;
        uint32_t id;
        const char *payload;
    } rows[] = {
        {0xffffffff, ATOLL_AGENT_USAGE, 0, 1, ""},                  /* too long */
        {ATOLL_FRAME_PAYLOAD_MAX + 1, ATOLL_AGENT_USAGE, 0, 1, ""}, /* a little too long */
        {0, ATOLL_AGENT_USAGE, 9, 1, ""},                           /* too many descriptors */
        {0, ATOLL_AGENT_USAGE, 1, 1, ""},                           /* one that never came */
        {0, ATOLL_AGENT_USAGE, 0, 0, ""},                           /* a request without number */
        {4, ATOLL_AGENT_FILE_STAT, 0, 1, "\xff\xff\xff\xff"},       /* a string without end */
        {7, ATOLL_AGENT_FILE_STAT, 0, 1, "\x02\0\0\0\0x\0"},        /* with a NUL inside */
        {24, ATOLL_AGENT_EXEC_START, 0, 1,
         "\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff"}, /* half a vector */
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        uint8_t frame[12 + 64];
        size_t n = rows[i].len <= 64 ? rows[i].len : 0;

        header(frame, rows[i].len, rows[i].type, rows[i].nfds, rows[i].id);
        memcpy(frame + 12, rows[i].payload, n);
        send_raw(c, frame, 12 + n);
        expect_closed(c);
    }
}

static void unknown_requests_are_answered(void **state)
{
    struct agent_client *c = *state;

    client_call_fails(c, 12345, NULL, NULL, ATOLL_ERR_UNIMPLEMENTED, "request type 12345");
    client_call_fails(c, ATOLL_AGENT_REPLY, NULL, NULL, ATOLL_ERR_UNIMPLEMENTED, "request type 1");
    client_expect(c, "echo alive", "alive\n");
}

static void noise_does_no_harm(void **state)
{
    struct agent_client *c = *state;
    uint32_t random = 12345;

    for (int round = 0; round < 50; round++) {
        uint8_t noise[512];
        for (size_t i = 0; i < sizeof(noise); i++) {
            random = random * 1103515245 + 12345;
            noise[i] = (uint8_t)(random >> 16);
        }
        /* Half of the time with a plausible header, so that payloads are reached. */
        if (round % 2)
            header(noise, 200, (uint16_t)(32 + random % 64), 0, random | 1);
        (void)send(c->ch.fd, noise, sizeof(noise), MSG_NOSIGNAL);
        (void)client_connect(c);
    }
    client_expect(c, "echo alive", "alive\n");
}

static void empty_payloads_are_requests_with_defaults(void **state)
{
    struct agent_client *c = *state;

    /* Every type there is, with nothing in it: an answer, or silence where there is none. */
    for (uint16_t type = 40; type < 100; type++) {
        struct kept_frame k;
        uint32_t id = client_send(c, type, NULL, NULL);
        if (type == ATOLL_AGENT_EXEC_ACK || type == ATOLL_AGENT_EXEC_FORGET)
            continue;
        do
            k = client_wait(c, id, 0), kept_done(&k);
        while (k.type == ATOLL_AGENT_PART);
    }
}

static void unasked_descriptors_are_not_kept(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_usage u;
    int fds[2];
    char byte;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(
        atoll_channel_send(&c->ch, ATOLL_AGENT_USAGE, ++c->last_id, NULL, NULL, &fds[1], 1), 0);
    client_flush(c);
    struct kept_frame k = client_wait(c, c->last_id, ATOLL_AGENT_REPLY);
    kept_done(&k);
    (void)close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 0); /* nobody else holds the other end */
    (void)close(fds[0]);
    client_call(c, ATOLL_AGENT_USAGE, NULL, NULL, &atoll_am_usage_desc, &u, NULL);
}

/* The tenant owns /etc: here in a mount namespace of the test's own. */
static void private_etc(const char *name, const char *file)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/etc/%s", name);
    assert_int_equal(mount(file, path, NULL, MS_BIND, NULL), 0);
}

static void traps_in_etc_passwd(void **state)
{
    /* What is put in the place of /etc/passwd, and the users that work nevertheless. */
    const struct {
        const char *what, *script;
    } rows[] = {
        {"a FIFO", "mkfifo trap"},
        {"an endless file", "truncate -s 8G trap"},
        {"a directory's worth of nothing", ": > trap"},
        {"one line without end", "head -c 900000 /dev/zero | tr '\\0' a > trap"},
        {"colons", "head -c 90000 /dev/zero | tr '\\0' : > trap"},
        {"impossible numbers", "printf 'root:x:99999999999:-1:::\\nx:x:4294967295:0:::\\n' > trap"},
        {"an evil default user", "printf 'nobody:x:0:0::/:/bin/sh\\nroot:x:0:0::/:/bin/sh' > trap"},
    };
    int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    (void)state;

    if (!is_root())
        skip();
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct agent_client c;
        char command[256], trap[96];
        struct run_result r;
        struct atoll_am_exec_start msg = client_command(1, CLIENT_SH("id -u"));

        client_start(&c);
        (void)client_connect(&c);
        (void)snprintf(command, sizeof(command), "cd %s && %s", c.dir, rows[i].script);
        assert_int_equal(system(command), 0);
        (void)snprintf(trap, sizeof(trap), "%s/trap", c.dir);
        private_etc("passwd", trap);
        private_etc("group", trap);

        client_run(&c, &msg, &r);
        assert_string_equal(atoll_buf_str(&r.out), "65534\n");
        run_result_done(&r);
        msg.exec = 2;
        msg.user = "root";
        client_run(&c, &msg, &r);
        assert_string_equal(atoll_buf_str(&r.out), "0\n");
        run_result_done(&r);

        assert_int_equal(umount2("/etc/passwd", MNT_DETACH), 0);
        assert_int_equal(umount2("/etc/group", MNT_DETACH), 0);
        client_stop(&c);
    }
    assert_int_equal(setns(ns, CLONE_NEWNS), 0);
    (void)close(ns);
}

static void a_directory_that_keeps_moving_ends_the_removal(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start mover = client_command(
        1, CLIENT_SH(
               "mkdir -p t/a/b/c/d out; touch go; while [ -e go ]; do mv t/a/b out/ 2>/dev/null; "
               "mkdir -p t/a/b/c/d/e; touch t/a/b/c/d/e/f; rm -rf out/b; done"));

    /* Whatever comes of it, the agent stays where it was told to be and answers. */
    (void)client_exec(c, &mover);
    for (int i = 0; i < 20; i++) {
        struct atoll_am_path msg = {.path = "t", .recursive = 1};
        struct kept_frame k =
            client_wait(c, client_send(c, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &msg), 0);
        kept_done(&k);
    }
}

/* One stream and no way back: the agent ends with it, and under a sanitizer proves that it let go
 * of everything it held. */
static void the_end_of_its_only_stream_is_the_agents_end(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_hello hello = {.version = ATOLL_AGENT_VERSION};
    struct atoll_am_exec_start command = client_command(1, CLIENT_SH("echo out; sleep 100"));
    struct atoll_am_create create = {.path = "unfinished"};
    struct atoll_am_watch watch = {.path = "~", .recursive = 1};
    struct atoll_am_list list = {.path = "/usr", .depth = 100};
    int pair[2], status;
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid = fork();
    if (pid == 0) {
        struct atoll_agent_config config = {.listen_fd = ATOLL_NO_FD,
                                            .conn_fd = pair[0],
                                            .many_ids = is_root(),
                                            .default_uid = is_root() ? 65534 : geteuid(),
                                            .default_gid = is_root() ? 65534 : getegid(),
                                            .default_user = "someone",
                                            .default_home = c->dir,
                                            .oom_fd = ATOLL_NO_FD,
                                            .peak_fd = ATOLL_NO_FD,
                                            .boot_id_fd = ATOLL_NO_FD};
        (void)close(pair[1]);
        client_drop(c);
        status = atoll_agent_run(&config, NULL);
        free(c->frames);
        free(c);
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* a leak checker looks from outside */
        exit(status == -EPIPE ? 0 : 1);
    }
    (void)close(pair[0]);
    client_drop(c);
    assert_int_equal(atoll_channel_init(&c->ch, pair[1], 1024 * 1024), 0);
    c->connected = true;
    client_call(c, ATOLL_AGENT_HELLO, &atoll_am_hello_desc, &hello, NULL, NULL, NULL);
    command.flags = ATOLL_EXEC_STDIN;
    (void)client_exec(c, &command);
    client_call(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &create, NULL, NULL, NULL);
    client_call(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &watch, NULL, NULL, NULL);
    struct atoll_am_connect no_fds = {.port = 80};
    client_call_fails(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &no_fds,
                      ATOLL_ERR_FAILED_PRECONDITION, "cannot pass connections");
    (void)client_send(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &list);
    client_drop(c); /* in the middle of it */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(nothing_works_before_hello),
        TEST(a_malformed_frame_ends_the_connection_only),
        TEST(unknown_requests_are_answered),
        TEST(noise_does_no_harm),
        TEST(empty_payloads_are_requests_with_defaults),
        TEST(unasked_descriptors_are_not_kept),
        cmocka_unit_test(traps_in_etc_passwd),
        TEST(a_directory_that_keeps_moving_ends_the_removal),
        TEST(the_end_of_its_only_stream_is_the_agents_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
