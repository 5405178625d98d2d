/*
 * What strangers and neighbours can use up of the sandbox plane of the E2B facade, with an engine made
 * of memory.
 */
#include "api/e2b/process.h"
#include "test_api_util.h"

static void send_head(const char *sandbox, const char *method, const char *type, size_t length)
{
    char token[ATOLL_TOKEN_LEN + 1], text[1024];

    atoll_e2b_envd_token(api, sandbox, token);
    (void)snprintf(text, sizeof(text),
                   "POST /%s HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\n"
                   "X-Access-Token: %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                   method, sandbox, ATOLL_E2B_ENVD_PORT, token, type, length);
    rig_send(&rig, text, strlen(text));
}

/* A call about files in a sandbox. */
static const char *call_in(const char *sandbox, const char *method, const char *body)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "filesystem.Filesystem/%s", method);
    send_head(sandbox, path, "application/json", strlen(body));
    return rig_ask(&rig, body);
}

/* Starts a process there. */
static void start_in(const char *sandbox, const char *body)
{
    uint8_t head[ATOLL_CONNECT_HEAD] = {0};
    size_t n = strlen(body);

    for (int i = 1; i < ATOLL_CONNECT_HEAD; i++)
        head[i] = (uint8_t)(n >> (8 * (ATOLL_CONNECT_HEAD - 1 - i)));
    send_head(sandbox, "process.Process/Start", "application/connect+json", n + sizeof(head));
    rig_send(&rig, head, sizeof(head));
    (void)rig_ask(&rig, body);
}

/* Among envelopes, which have NUL bytes. */
static void assert_got(const char *what)
{
    if (!memmem(atoll_buf_head(&rig.got), atoll_buf_size(&rig.got), what, strlen(what)))
        fail_msg("no \"%s\" in what came", what);
}

static void make_box(void)
{
    assert_has(
        rig_ask(&rig, "POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"),
        "HTTP/1.1 201 ");
}

static void one_sandbox_does_not_take_the_watchers_of_another(void **state)
{
    const char *answer = "";
    char id[18], body[64];
    int made = 0;

    (void)state;
    make_box();
    make_box();
    while (made < 2000 && strstr(answer = call_in("box0", "CreateWatcher", "{}"), "watcherId")) {
        assert_int_equal(sscanf(strstr(answer, "watcherId"), "watcherId\":\"%17[a-z0-9]", id), 1);
        made++;
    }
    assert_int_equal(made, 32);
    assert_has(answer, "HTTP/1.1 429 ");
    assert_has(answer, "{\"code\":\"resource_exhausted\",\"message\":"
                       "\"the sandbox has 32 watchers already, remove one first\"}");
    assert_has(call_in("box1", "CreateWatcher", "{}"), "watcherId");
    (void)snprintf(body, sizeof(body), "{\"watcherId\":\"%s\"}", id);
    assert_has(call_in("box0", "RemoveWatcher", body), "HTTP/1.1 200 ");
    assert_has(call_in("box0", "CreateWatcher", "{}"), "watcherId");
}

static const char *ask_signed(const char *signature)
{
    char text[256] = "GET /files?path=/f&signature=";
    size_t n = strlen(text);

    for (; *signature; signature++) /* "+" would be a space */
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%%%02x", (unsigned)*signature);
    (void)snprintf(text + n, sizeof(text) - n, " HTTP/1.1\r\nHost: x\r\n\r\n");
    return rig_ask(&rig, text);
}

static void looking_for_a_signature_is_limited(void **state)
{
    struct atoll_api_config config = {
        .engine = &fake, .loop = rig.loop, .wrong_key_rate = {.per_second = 1, .burst = 2}};
    char token[ATOLL_TOKEN_LEN + 1], right[ATOLL_E2B_SIGNATURE_MAX];
    const char *answer = "";

    (void)state;
    api = atoll_api_free(api);
    api = atoll_api_new(&config);
    make_box();
    atoll_e2b_envd_token(api, "box0", token);
    atoll_e2b_sign(&(struct atoll_e2b_signed){"/f", "read", "", ""}, token, right);
    for (int i = 0; i < 10; i++) /* right ones cost nothing */
        assert_has(ask_signed(right), "HTTP/1.1 200 ");
    assert_has(ask_signed("v1_x"), "HTTP/1.1 401 ");
    /* None is looked for while too many were wrong, which a slow machine may have to try again. */
    for (int i = 0; i < 1000 && !strstr(answer, "HTTP/1.1 429 "); i++) {
        while (!strstr(ask_signed("v1_x"), "HTTP/1.1 429 "))
            ;
        answer = ask_signed(right);
    }
    assert_has(answer, "HTTP/1.1 429 ");
    assert_has(answer, "too many requests with invalid signatures");
}

/* Their clients would take what came for all of it. */
static void missing_output_is_no_success(void **state)
{
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    make_box();
    start_in("box0", "{\"process\":{\"cmd\":\"x\"}}");
    fake_output(x, 1, "abc", 3);
    fake_gap(x, 1, 40);
    fake_output(x, 1, "def", 3);
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_got("{\"event\":{\"data\":{\"stdout\":\"YWJj\"}}}");
    assert_got(
        "{\"error\":{\"code\":\"data_loss\",\"message\":\"40 bytes of stdout from offset 3 on "
        "were not kept\"");
    assert_null(memmem(atoll_buf_head(&rig.got), atoll_buf_size(&rig.got), "\"exitCode\"", 10));
}

static void nobody_takes_the_tags_of_others(void **state)
{
    char id[17] = "", sandbox[] = "box0";
    const struct atoll_exec_view view = {.id = id, .sandbox_id = sandbox};

    (void)state;
    make_box();
    make_box();
    start_in("box1", "{\"process\":{\"cmd\":\"x\"},\"tag\":\"mine\"}");
    assert_got("{\"event\":{\"start\":");
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof(id), "other%d", i);
        atoll_process_note(atoll_e2b_plane_of(api), &view, "theirs", NULL);
    }
    assert_non_null(atoll_process_noted(atoll_e2b_plane_of(api), "exec0"));
}

static void what_is_kept_of_a_process_is_bounded(void **state)
{
    char body[40000], big[20000];

    (void)state;
    make_box();
    memset(big, 'x', sizeof(big));
    big[257] = '\0';
    (void)snprintf(body, sizeof(body), "{\"process\":{\"cmd\":\"x\"},\"tag\":\"%s\"}", big);
    start_in("box0", body);
    assert_got("\"error\":{\"code\":\"invalid_argument\",\"message\":\"tag must have at most 256 ");
    rig_connect(&rig);
    big[257] = 'x';
    big[sizeof(big) - 1] = '\0';
    (void)snprintf(body, sizeof(body),
                   "{\"process\":{\"cmd\":\"x\",\"envs\":{\"A\":\"%s\"}},\"tag\":\"t\"}", big);
    start_in("box0", body);
    assert_got("{\"event\":{\"start\":");
    assert_string_equal(atoll_process_noted(atoll_e2b_plane_of(api), "exec0")->tag, "t");
    assert_null(atoll_process_noted(atoll_e2b_plane_of(api), "exec0")->envs);
}

static void an_end_that_nobody_saw_is_no_signal(void **state)
{
    (void)state;
    make_box();
    start_in("box0", "{\"process\":{\"cmd\":\"x\"}}");
    (void)snprintf(fake.execs[0].result.reason, sizeof(fake.execs[0].result.reason), "a crash");
    fake_end(&fake.execs[0], ATOLL_END_LOST, 0);
    rig_turn(&rig);
    assert_got("{\"error\":{\"code\":\"data_loss\",\"message\":"
               "\"the result of the process is unknown: a crash\"}}");
}

static void a_terminal_has_a_size_that_fits(void **state)
{
    (void)state;
    make_box();
    start_in("box0",
             "{\"process\":{\"cmd\":\"x\"},\"pty\":{\"size\":{\"cols\":65537,\"rows\":5}}}");
    assert_got(
        "\"error\":{\"code\":\"invalid_argument\",\"message\":\"a terminal has at most 65535 ");
}

#define FORM "multipart/form-data; boundary=b"
#define PART(filename) \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" filename "\"\r\n\r\n"

static const char *post_files(const char *type, const char *body, size_t length)
{
    send_head("box0", "files", type, length);
    return rig_ask(&rig, body);
}

static void a_form_is_written_file_by_file(void **state)
{
    static const char two[] = PART("/a") "first\r\n" PART("/b") "second\r\n--b--\r\n";
    static const char twice[] = PART("/a") "first\r\n" PART("/a") "second\r\n--b--\r\n";
    static const char cut[] = PART("/a") "first";
    const char *answer;

    (void)state;
    make_box();
    answer = post_files(FORM, two, strlen(two));
    assert_has(answer, "HTTP/1.1 200 ");
    assert_int_equal(count_of(answer, "\"type\":\"file\""), 2);
    assert_int_equal(fake.uploads_finished, 2);
    assert_string_equal(fake.path, "/b");
    assert_int_equal(atoll_buf_size(&fake.stored), 6);
    assert_memory_equal(atoll_buf_head(&fake.stored), "second", 6);
    assert_has(post_files(FORM, twice, strlen(twice)),
               "you cannot upload multiple files to the same path '/a' in one request");
    rig_connect(&rig);
    assert_has(post_files(FORM, cut, strlen(cut)), "malformed multipart: unexpected end");
    assert_int_equal(fake.uploads_dropped, 1);
    rig_connect(&rig);
    assert_has(post_files("text/plain", "x", 1), "the content type must be multipart/form-data");
}

static void an_upload_that_is_left_leaves_nothing(void **state)
{
    static const char some[] = PART("/a") "first";

    (void)state;
    make_box();
    assert_string_equal(post_files(FORM, some, 10000), "");
    rig_connect(&rig); /* closes the connection before */
    rig_turn(&rig);
    assert_int_equal(fake.uploads_dropped, 1);
    assert_int_equal(fake.uploads_finished, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_sandbox_does_not_take_the_watchers_of_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(looking_for_a_signature_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_output_is_no_success, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_takes_the_tags_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_of_a_process_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_nobody_saw_is_no_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_terminal_has_a_size_that_fits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_form_is_written_file_by_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_upload_that_is_left_leaves_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
