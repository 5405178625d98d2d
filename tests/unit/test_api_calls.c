/*
 * The API over a real HTTP server, with an engine made of memory: what happens when clients go
 * away, are slow, or send what they should not.
 */
#include "test_api_util.h"

/* One request, its answer. */
static const char *ask(const char *method, const char *target, const char *body)
{
    char *text;
    const char *answer;

    assert_true(asprintf(&text, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s",
                         method, target, strlen(body), body) > 0);
    answer = rig_ask(&rig, text);
    free(text);
    return answer;
}

/* Leaves a request of that kind under way. */
static void ask_and_vanish(const char *method, const char *target, const char *body)
{
    fake.hold = true;
    (void)ask(method, target, body);
    close(rig.fd);
    rig.fd = -1;
    rig_connect(&rig);
    rig_turn(&rig);
}

static void make_box(void)
{
    assert_has(ask("POST", "/api/sandboxes", ""), "HTTP/1.1 201 ");
}

static struct atoll_exec *start_exec(void)
{
    assert_has(ask("POST", "/api/sandboxes/box0/execs", "{\"cmd\":[\"x\"]}"),
               "\"exec_id\":\"exec0\"");
    return &fake.execs[0];
}

static void create_and_look(void **state)
{
    const char *text;

    (void)state;
    text = ask("POST", "/api/sandboxes",
               "{\"limits\":{\"memoryMB\":64,\"cpuCores\":0.5},\"metadata\":{\"k\":\"v\"},"
               "\"waive\":[\"disk\"]}");
    assert_has(text, "HTTP/1.1 201 ");
    assert_has(text, "\"id\":\"box0\"");
    assert_has(text, "\"memoryMB\":64,\"cpuCores\":0.5");
    assert_has(text, "\"metadata\":{\"k\":\"v\"},\"waived\":[\"disk\"]");
    assert_has(text, "X-Request-Id: ");
    assert_has(ask("GET", "/api/sandboxes", ""), "{\"sandboxes\":[{\"id\":\"box0\"");
    assert_has(ask("GET", "/api/sandboxes/box9", ""), "HTTP/1.1 404 ");
    assert_has(ask("GET", "/api/stats", ""), "{\"sandboxes\":[{\"id\":\"box0\",\"memory\":");
    assert_has(ask("DELETE", "/api/sandboxes/box0", ""), "HTTP/1.1 204 ");
    make_box();
    make_box();
    assert_has(ask("DELETE", "/api/sandboxes", ""), "{\"destroyed\":2}");
}

static void a_client_that_vanishes_leaves_no_sandbox(void **state)
{
    (void)state;
    ask_and_vanish("POST", "/api/sandboxes", "{}");
    assert_int_equal(fake.destroyed, 0);
    fake_release();
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.destroyed, 1);
}

/* Also when its end comes in the same round as the sandbox, behind it. */
static void a_client_that_just_vanished_leaves_no_sandbox(void **state)
{
    (void)state;
    fake.hold = true;
    (void)ask("POST", "/api/sandboxes", "{}");
    close(rig.fd);
    rig.fd = -1;
    fake_release();
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.destroyed, 1);
    rig_connect(&rig);
    rig_turn(&rig);
}

static void an_exec_survives_its_client(void **state)
{
    (void)state;
    make_box();
    ask_and_vanish("POST", "/api/sandboxes/box0/execs?wait=true",
                   "{\"cmd\":[\"cat\"],\"stdin\":\"hello\"}");
    fake_release();
    assert_true(fake.execs[0].used);
    assert_false(fake.execs[0].ended);
    assert_int_equal(fake.execs[0].signo, 0);
    assert_string_equal(atoll_buf_str(&fake.execs[0].input), "hello");
    assert_true(fake.execs[0].stdin_closed);
    assert_int_equal(fake.destroyed, 0);
}

static void waiting_collects_output(void **state)
{
    static const char big[1200000] = {0};
    const char *text;

    (void)state;
    make_box();
    text = ask("POST", "/api/sandboxes/box0/execs?wait=true", "{\"cmd\":[\"x\"]}");
    assert_string_equal(text, "");
    fake_output(&fake.execs[0], 1, "h\xc3", 2);
    fake_output(&fake.execs[0], 2, "\xff", 1);
    fake_output(&fake.execs[0], 1, "\xa4", 1);
    fake_end(&fake.execs[0], ATOLL_END_EXITED, 3);
    rig_turn(&rig);
    text = rig_text(&rig);
    assert_has(text,
               "\"stdout\":\"h\xc3\xa4\",\"stderr\":\"\xef\xbf\xbd\",\"stderr_base64\":\"/w==\"");
    assert_has(text, "\"kind\":\"exited\",\"exit_code\":3");
    (void)ask("POST", "/api/sandboxes/box0/execs?wait=true", "{\"cmd\":[\"x\"]}");
    fake_output(&fake.execs[1], 1, big, sizeof(big));
    fake_end(&fake.execs[1], ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_has(rig_text(&rig), "\"stdout_truncated\":true");
    assert_has(rig_text(&rig), "\"stdout_bytes\":1200000");
}

static void one_who_stops_waiting_costs_nothing(void **state)
{
    (void)state;
    make_box();
    (void)ask("POST", "/api/sandboxes/box0/execs?wait=true", "{\"cmd\":[\"x\"]}");
    assert_int_equal(fake.readers, 1);
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(fake.readers, 0);
    fake_end(&fake.execs[0], ATOLL_END_EXITED, 0);
}

static void output_keeps_characters_whole(void **state)
{
    struct atoll_exec *x;
    const char *text;

    (void)state;
    make_box();
    x = start_exec();
    fake_output(x, 1, "a\xe2\x82", 3);
    fake_output(x, 2, "\xf0\x9f", 2);
    fake_output(x, 1, "\xac", 1);
    fake_gap(x, 2, 10);
    fake_output(x, 1, "\xfe\xff", 2);
    text = ask("GET", "/api/sandboxes/box0/execs/exec0/output?follow=true", "");
    assert_has(text, "Content-Type: application/x-ndjson");
    assert_has(text, "{\"stream\":\"stdout\",\"offset\":0,\"data\":\"a\"}\n");
    assert_has(text, "{\"stream\":\"stdout\",\"offset\":1,\"data\":\"\xe2\x82\xac\"}\n");
    /* Its other half is lost for good. */
    assert_has(text, "{\"stream\":\"stderr\",\"offset\":0,\"data_base64\":\"8J8=\"}\n");
    assert_has(text, "{\"truncated\":{\"stream\":\"stderr\",\"from\":2,\"to\":12}}\n");
    assert_has(text, "{\"stream\":\"stdout\",\"offset\":4,\"data_base64\":\"/v8=\"}\n");
    assert_null(strstr(text, "\"result\""));
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_has(rig_text(&rig), "{\"result\":{\"kind\":\"exited\"");
}

static void output_without_follow_ends(void **state)
{
    struct atoll_exec *x;
    const char *text;

    (void)state;
    make_box();
    x = start_exec();
    fake_output(x, 1, "a\xe2", 2);
    text = ask("GET", "/api/sandboxes/box0/execs/exec0/output", "");
    assert_has(text, "{\"stream\":\"stdout\",\"offset\":1,\"data_base64\":\"4g==\"}\n");
    assert_has(text, "\r\n0\r\n\r\n");
    assert_has(ask("GET", "/api/sandboxes/box0/execs/exec0/output?stdout=-1", ""), "HTTP/1.1 400 ");
    assert_has(ask("GET", "/api/sandboxes/box0/execs/nope/output", ""), "HTTP/1.1 404 ");
}

static void a_slow_reader_holds_the_journal_back(void **state)
{
    static const char request[] =
        "GET /api/sandboxes/box0/execs/exec0/output HTTP/1.1\r\nHost: x\r\n\r\n";
    static char piece[60000];
    struct atoll_exec *x;

    (void)state;
    memset(piece, 'x', sizeof(piece));
    make_box();
    x = start_exec();
    for (int i = 0; i < 200; i++)
        fake_output(x, 1, piece, sizeof(piece));
    fake_end(x, ATOLL_END_EXITED, 0);
    atoll_buf_clear(&rig.got);
    rig_send(&rig, request, sizeof(request) - 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    /* The socket's buffer and the high-water mark, not the 12 MB there are. */
    assert_true(fake.pulled < 2000000);
    rig_turn(&rig);
    assert_int_equal(fake.pulled, 200 * sizeof(piece));
    assert_has(rig_text(&rig), "{\"result\":");
}

static void what_was_not_sent_is_not_let_go(void **state)
{
    static const char request[] =
        "GET /api/sandboxes/box0/execs/exec0/output?follow=true HTTP/1.1\r\nHost: x\r\n\r\n";
    static char piece[60000];
    struct atoll_exec *x;

    (void)state;
    memset(piece, 'x', sizeof(piece));
    make_box();
    x = start_exec();
    for (int i = 0; i < 50; i++)
        fake_output(x, 1, piece, sizeof(piece));
    fake_output(x, 1, "\xe2\x82", 2);
    rig_send(&rig, request, sizeof(request) - 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    assert_true(fake.pulled > 0);
    assert_int_equal(fake.let_go, 0);
    rig_turn(&rig);
    /* But for the beginning of a character. */
    assert_int_equal(fake.pulled, 50 * sizeof(piece) + 2);
    assert_int_equal(fake.let_go, 50 * sizeof(piece));
    fake_output(x, 1, "\xac", 1);
    rig_turn(&rig);
    assert_int_equal(fake.let_go, 50 * sizeof(piece) + 3);
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
}

static void run_destroys_what_it_made(void **state)
{
    (void)state;
    (void)ask("POST", "/api/run",
              "{\"cmd\":[\"x\"],\"user\":\"root\",\"files\":[{\"path\":\"f\",\"mode\":\"0755\","
              "\"data_base64\":\"aGFsbG8=\"}]}");
    assert_string_equal(atoll_buf_str(&fake.stored), "hallo");
    assert_int_equal(fake.mode, 0755);
    assert_string_equal(fake.execs[0].user, "root");
    fake_output(&fake.execs[0], 1, "out", 3);
    assert_int_equal(fake.destroyed, 0);
    fake_end(&fake.execs[0], ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_int_equal(fake.destroyed, 1);
    assert_has(rig_text(&rig), "{\"sandbox_id\":\"box0\",\"exec_id\":\"exec0\",\"stdout\":\"out\"");
}

static void run_that_fails_leaves_nothing(void **state)
{
    (void)state;
    assert_has(ask("POST", "/api/run",
                   "{\"cmd\":[\"x\"],\"keep\":true,\"files\":[{\"path\":\"full\","
                   "\"data_base64\":\"aGFsbG8=\"}]}"),
               "HTTP/1.1 507 ");
    assert_int_equal(fake.made, 1);
    assert_int_equal(fake.destroyed, 1);
    assert_int_equal(fake.uploads_dropped, 1);
    assert_has(ask("POST", "/api/run",
                   "{\"cmd\":[\"x\"],\"files\":[{\"path\":\"f\","
                   "\"data_base64\":\"a\"}]}"),
               "files[0].data_base64 is not valid base64");
    assert_int_equal(fake.made, 1);
}

static void run_without_client_is_destroyed(void **state)
{
    (void)state;
    /* While the sandbox is made … */
    ask_and_vanish("POST", "/api/run", "{\"cmd\":[\"x\"],\"keep\":true}");
    fake_release();
    assert_int_equal(fake.destroyed, 1);
    assert_false(fake.execs[0].used);
    /* … and while the command runs. */
    (void)ask("POST", "/api/run", "{\"cmd\":[\"x\"],\"keep\":true}");
    assert_true(fake.execs[0].used);
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(fake.destroyed, 2);
    assert_has(fake.who, "went away");
}

static void run_keeps_when_asked(void **state)
{
    (void)state;
    (void)ask("POST", "/api/run", "{\"cmd\":[\"x\"],\"keep\":true}");
    fake_end(&fake.execs[0], ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_has(rig_text(&rig), "HTTP/1.1 200 ");
    assert_int_equal(fake.destroyed, 0);
}

static void uploads_are_whole_or_nothing(void **state)
{
    (void)state;
    make_box();
    assert_has(ask("PUT", "/api/sandboxes/box0/files?path=a&mode=600", "bytes"), "HTTP/1.1 200 ");
    assert_string_equal(atoll_buf_str(&fake.stored), "bytes");
    assert_int_equal(fake.mode, 0600);
    assert_has(rig_text(&rig), "\"mtime\":\"9999-12-31T");
    assert_has(ask("PUT", "/api/sandboxes/box0/files?path=full", "bytes"), "HTTP/1.1 507 ");
    assert_has(rig_text(&rig), "\"code\":\"resource_exhausted\"");
    assert_has(rig_text(&rig), "limits.diskMB");
    assert_int_equal(fake.uploads_dropped, 1);
    /* Half a body. */
    rig_connect(&rig);
    (void)rig_ask(&rig, "PUT /api/sandboxes/box0/files?path=a HTTP/1.1\r\nHost: x\r\n"
                        "Content-Length: 100\r\n\r\nhalf");
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(fake.uploads_dropped, 2);
    assert_int_equal(fake.uploads_finished, 1);
    assert_has(ask("PUT", "/api/sandboxes/box0/files?mode=600", "x"), "?path= is missing");
    assert_has(ask("PUT", "/api/sandboxes/box0/files?path=a&mode=rw", "x"), "HTTP/1.1 400 ");
}

static void downloads_have_their_length_or_break(void **state)
{
    const char *text;

    (void)state;
    make_box();
    memcpy(fake.file, "contents", 8);
    fake.file_len = fake.file_size = 8;
    text = ask("GET", "/api/sandboxes/box0/files?path=/x/a%22%0db.txt", "");
    assert_has(text, "Content-Length: 8\r\n");
    assert_has(text, "Content-Disposition: attachment; filename*=UTF-8''a%22%0Db.txt\r\n");
    assert_has(text, "X-Content-Type-Options: nosniff\r\n");
    assert_has(text, "\r\n\r\ncontents");
    text = ask("HEAD", "/api/sandboxes/box0/files?path=a", "");
    assert_has(text, "Content-Length: 8\r\n");
    assert_null(strstr(text, "contents"));
    /* It grew: no more than announced. */
    fake.file_size = 3;
    text = ask("GET", "/api/sandboxes/box0/files?path=a", "");
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\ncon");
    /* It shrank: the connection is cut. */
    fake.file_size = 20;
    text = ask("GET", "/api/sandboxes/box0/files?path=a", "");
    assert_true(rig.ended);
}

static void a_download_nobody_takes_is_closed(void **state)
{
    (void)state;
    make_box();
    fake.file_len = 4000;
    fake.file_size = 4000;
    ask_and_vanish("GET", "/api/sandboxes/box0/files?path=a", "");
    fake_release();
}

static void imports_go_through_piece_by_piece(void **state)
{
    (void)state;
    assert_has(ask("PUT", "/api/templates/made", "archive"), "HTTP/1.1 201 ");
    assert_string_equal(atoll_buf_str(&fake.stored), "archive");
    /* A write that is not taken stops the reading. */
    (void)rig_ask(&rig, "PUT /api/templates/made HTTP/1.1\r\nHost: x\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    fake.hold = true;
    (void)rig_ask(&rig, "1\r\nb\r\n");
    (void)rig_ask(&rig, "1\r\nc\r\n0\r\n\r\n");
    assert_string_equal(atoll_buf_str(&fake.stored), "ab");
    fake_release();
    rig_turn(&rig);
    assert_string_equal(atoll_buf_str(&fake.stored), "abc");
    assert_has(rig_text(&rig), "HTTP/1.1 201 ");
}

static void a_broken_import_is_dropped(void **state)
{
    (void)state;
    (void)rig_ask(&rig, "PUT /api/templates/made HTTP/1.1\r\nHost: x\r\n"
                        "Content-Length: 100\r\n\r\nhalf");
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(fake.imports_dropped, 1);
    /* Gone while a piece is under way. */
    (void)rig_ask(&rig, "PUT /api/templates/made HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
    fake.hold = true;
    (void)rig_ask(&rig, "half");
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(fake.imports_dropped, 1);
    fake_release();
    assert_int_equal(fake.imports_dropped, 2);
    /* Refused by the engine. */
    (void)rig_ask(&rig, "PUT /api/templates/made HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "this is no archive");
    assert_has(rig_ask(&rig, "junk"), "this is no archive");
    assert_int_equal(fake.imports_dropped, 3);
}

static void stdin_flows_and_closes(void **state)
{
    struct atoll_exec *x;

    (void)state;
    make_box();
    x = start_exec();
    assert_has(ask("POST", "/api/sandboxes/box0/execs/exec0/stdin", "one"), "HTTP/1.1 204 ");
    assert_false(x->stdin_closed);
    assert_has(ask("POST", "/api/sandboxes/box0/execs/exec0/stdin?close=true", "two"),
               "HTTP/1.1 204 ");
    assert_true(x->stdin_closed);
    assert_string_equal(atoll_buf_str(&x->input), "onetwo");
    assert_has(ask("POST", "/api/sandboxes/box0/execs/exec0/signal", "{\"signal\":\"SIGTERM\"}"),
               "HTTP/1.1 204 ");
    assert_int_equal(x->signo, 15);
    (void)ask("POST", "/api/sandboxes/box0/execs/exec0/signal", "{\"signal\":9,\"tree\":true}");
    assert_int_equal(x->signo, -9);
    assert_has(ask("POST", "/api/sandboxes/box0/execs/exec0/signal", "{\"signal\":\"SIGNOPE\"}"),
               "signal must be a name such as");
    assert_has(ask("POST", "/api/sandboxes/box0/execs/exec0/resize", "{\"cols\":100,\"rows\":40}"),
               "HTTP/1.1 204 ");
    assert_int_equal(x->cols, 100);
    assert_has(ask("POST", "/api/sandboxes/box0/execs/exec0/resize", "{\"cols\":0,\"rows\":40}"),
               "HTTP/1.1 400 ");
}

static void files_are_listed_and_changed(void **state)
{
    const char *text;

    (void)state;
    make_box();
    text = ask("GET", "/api/sandboxes/box0/files/list?path=/&depth=2", "");
    assert_int_equal(count_of(text, "\"path_base64\":\"L2Ev/w==\""), 2);
    assert_has(text, "\"type\":\"symlink\"");
    assert_has(text, "\"target\":\"b\"");
    assert_has(ask("GET", "/api/sandboxes/box0/files/list?path=/&depth=0", ""), "HTTP/1.1 400 ");
    assert_has(ask("POST", "/api/sandboxes/box0/files/move?path=a&to=b", ""),
               "\"path\":\"/home/user/b\",\"name\":\"b\"");
    assert_has(ask("POST", "/api/sandboxes/box0/files/move?path=a", ""), "?to= is missing");
    assert_has(ask("POST", "/api/sandboxes/box0/files/chmod?path=a&mode=0755", ""),
               "HTTP/1.1 204 ");
    assert_int_equal(fake.mode, 0755);
    assert_has(ask("POST", "/api/sandboxes/box0/files/chmod?path=a", ""), "?mode= is missing");
    assert_has(ask("DELETE", "/api/sandboxes/box0/files?path=a&recursive=maybe", ""),
               "?recursive= must be true or false");
}

static void requests_are_checked_before_the_engine_sees_them(void **state)
{
    static const struct {
        const char *method, *target, *body, *answer;
    } cases[] = {
        {"GET", "/nowhere", "", "HTTP/1.1 404 "},
        {"PATCH", "/api/sandboxes", "", "Allow: POST, GET, HEAD, DELETE\r\n"},
        {"PATCH", "/api/sandboxes", "", "HTTP/1.1 405 "},
        {"GET", "/api/sandboxes/-UPPER", "", "HTTP/1.1 400 "},
        {"POST", "/api/sandboxes", "{\"memory\":1}", "there is no field \\\"memory\\\""},
        {"POST", "/api/sandboxes", "{\"networkMode\":\"moon\"}", "HTTP/1.1 400 "},
        {"POST", "/api/sandboxes", "{\"image\":\"../x\"}", "HTTP/1.1 400 "},
        {"POST", "/api/sandboxes", "{\"image\":\"a\",\"template\":\"b\"}", "HTTP/1.1 400 "},
        {"POST", "/api/sandboxes", "{\"networkMode\":\"lan\"}", "HTTP/1.1 400 "},
        {"POST", "/api/sandboxes", "{\"waive\":[\"gpu\"]}", "HTTP/1.1 400 "},
        {"POST", "/api/sandboxes", "{\"metadata\":{\"a\":1}}", "metadata.a must be a string"},
        {"POST", "/api/sandboxes", "{\"template\":\"../x\"}", "HTTP/1.1 400 "},
        {"POST", "/api/run", "{}", "cmd is missing"},
        {"POST", "/api/run", "{\"cmd\":[\"\"]}", "cmd[0] must not be empty"},
        {"POST", "/api/run", "{\"cmd\":[\"x\"],\"stdin\":true}", "HTTP/1.1 400 "},
        {"POST", "/api/run", "{\"cmd\":[\"x\"],\"stdin\":7}",
         "stdin must be a string, true or false"},
        {"POST", "/api/run", "{\"cmd\":[\"x\"],\"files\":[{\"path\":\"a\"}]}",
         "files[0] needs path"},
        {"GET", "/api/run", "", "this is not a valid WebSocket upgrade"},
        {"GET", "/api/sandboxes/box0/execs/stream", "", "HTTP/1.1 404 "},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        assert_has(ask(cases[i].method, cases[i].target, cases[i].body), cases[i].answer);
    assert_int_equal(fake.made, 0);
}

static void request_ids_come_back(void **state)
{
    const char *text;

    (void)state;
    text = rig_ask(&rig,
                   "GET /api/sandboxes/box9 HTTP/1.1\r\nHost: x\r\nX-Request-Id: my-1.id\r\n\r\n");
    assert_has(text, "X-Request-Id: my-1.id\r\n");
    assert_has(text, "\"request_id\":\"my-1.id\"");
    text = rig_ask(&rig, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: a b\"c\r\n\r\n");
    assert_null(strstr(text, "a b"));
    assert_has(text, "\"status\":\"ok\"");
}

static void a_draining_api_refuses_work(void **state)
{
    (void)state;
    atoll_api_drain(api);
    assert_has(ask("POST", "/api/sandboxes", ""), "HTTP/1.1 503 ");
    assert_has(ask("GET", "/healthz", ""), "HTTP/1.1 200 ");
}

#define PUT_ARCHIVE                                       \
    "PUT /api/sandboxes/box0/archive?path=d HTTP/1.1\r\n" \
    "Host: x\r\nContent-Length: 8\r\n\r\n"

/* tar may take the beginning of an archive for the whole: what it was given decides. */
static void an_archive_that_is_not_delivered(void **state)
{
    struct atoll_exec *x = &fake.execs[0];

    (void)state;
    make_box();
    (void)rig_ask(&rig, PUT_ARCHIVE);
    assert_true(x->used);
    (void)rig_ask(&rig, "half");
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_UNAVAILABLE, EPIPE, "out of reach");
    (void)rig_ask(&rig, "rest");
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_starts(rig_text(&rig), "HTTP/1.1 503 ");
    assert_int_equal(x->signo, -9);
    assert_false(x->stdin_closed);
    /* One that has all it wants is done. */
    x++;
    (void)rig_ask(&rig, PUT_ARCHIVE);
    (void)atoll_fail(&fake.fail_next, ATOLL_ERR_FAILED_PRECONDITION, EPIPE, "it does not read");
    (void)rig_ask(&rig, "archived");
    fake_end(x, ATOLL_END_EXITED, 0);
    rig_turn(&rig);
    assert_starts(rig_text(&rig), "HTTP/1.1 204 ");
}

/* A directory with nothing in it that an archive could hold is an empty archive. */
static void an_archive_of_pipes_and_sockets(void **state)
{
    const char *text;

    (void)state;
    make_box();
    fake.entry_type = ATOLL_ENTRY_DIRECTORY;
    fake.listed_type = ATOLL_ENTRY_OTHER;
    text = ask("GET", "/api/sandboxes/box0/archive?path=d", "");
    assert_starts(text, "HTTP/1.1 200 ");
    assert_has(text, "Content-Type: application/x-tar\r\n");
    assert_has(text, "\r\n\r\n400\r\n");
    /* And the connection goes on. */
    assert_has(ask("GET", "/api/sandboxes", ""), "HTTP/1.1 200 ");
}

/* One that ends meanwhile is no sandbox whose files have all vanished. */
static void an_archive_of_a_sandbox_that_ends(void **state)
{
    (void)state;
    make_box();
    fake.entry_type = ATOLL_ENTRY_DIRECTORY;
    fake.listed_type = ATOLL_ENTRY_FILE;
    fake.file_size = fake.file_len = 3;
    fake.hold = true;
    (void)ask("GET", "/api/sandboxes/box0/archive?path=d", "");
    fake_step(); /* it is there */
    fake_step(); /* and listed */
    fake_step(); /* its first file is opened, and the next one asked for */
    fake.sandboxes[0].used = false;
    atoll_buf_clear(&rig.got);
    fake_release();
    rig_turn(&rig);
    assert_true(rig.ended);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(create_and_look),
        TEST(a_client_that_vanishes_leaves_no_sandbox),
        TEST(a_client_that_just_vanished_leaves_no_sandbox),
        TEST(an_exec_survives_its_client),
        TEST(waiting_collects_output),
        TEST(one_who_stops_waiting_costs_nothing),
        TEST(output_keeps_characters_whole),
        TEST(output_without_follow_ends),
        TEST(a_slow_reader_holds_the_journal_back),
        TEST(what_was_not_sent_is_not_let_go),
        TEST(run_destroys_what_it_made),
        TEST(run_that_fails_leaves_nothing),
        TEST(run_without_client_is_destroyed),
        TEST(run_keeps_when_asked),
        TEST(uploads_are_whole_or_nothing),
        TEST(downloads_have_their_length_or_break),
        TEST(a_download_nobody_takes_is_closed),
        TEST(an_archive_that_is_not_delivered),
        TEST(an_archive_of_pipes_and_sockets),
        TEST(an_archive_of_a_sandbox_that_ends),
        TEST(imports_go_through_piece_by_piece),
        TEST(a_broken_import_is_dropped),
        TEST(stdin_flows_and_closes),
        TEST(files_are_listed_and_changed),
        TEST(requests_are_checked_before_the_engine_sees_them),
        TEST(request_ids_come_back),
        TEST(a_draining_api_refuses_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
