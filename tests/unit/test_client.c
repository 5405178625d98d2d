/* libatoll against a daemon that says what the test tells it to, on a thread of its own. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "test.h"

#include <atoll/atoll.h>
#include "client/compose.h"
#include "client/result.h"
#include "net/http_server.h"
#include "net/websocket.h"

#define BOX "box0"
#define RESULT "{\"result\":{\"kind\":\"exited\",\"exit_code\":3,\"usage\":{\"max_rss_bytes\":7}}}"

struct fake {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    struct atoll_watch stop;
    int stop_fd;
    pthread_t thread;
    char dir[64], path[100];
    struct atoll_ws *ws;
    bool hangs_up; /* after the first output */
    /* Of the last request; read after its answer. */
    char method[16], target[512], body[4096], idempotency_key[64];
    size_t input; /* bytes of standard input */
};

static void say(struct fake *f, bool binary, const char *bytes, size_t n)
{
    assert_int_equal(atoll_ws_send(f->ws, binary, bytes, n), 0);
}

static void end_command(struct fake *f)
{
    say(f, false, RESULT, strlen(RESULT));
    atoll_ws_close(f->ws, ATOLL_WS_NORMAL, NULL);
}

/* The first message is the command; what follows is its input. */
static void ws_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    static const char gap[] = "{\"truncated\":{\"stream\":\"stderr\",\"from\":2,\"to\":9}}";
    struct fake *f = arg;

    if (!binary && !*f->body) {
        snprintf(f->body, sizeof(f->body), "%.*s", (int)n, (const char *)bytes);
        say(f, false, "{\"exec_id\":\"exec1\"}", 19);
        say(f, true, "\1hello ", 7);
        if (f->hangs_up) {
            f->ws = atoll_ws_free(ws);
            return;
        }
        say(f, true, "\2oh", 3);
        say(f, false, gap, strlen(gap));
        if (!strstr(f->body, "\"stdin\":true"))
            end_command(f);
        return;
    }
    f->input += binary && n > 1 ? n - 1 : 0;
    if (binary && n == 1 && bytes[0] == 0) {
        say(f, true, "\1world", 6);
        end_command(f);
    }
}

static void ws_close(void *arg, struct atoll_ws *ws, uint16_t code)
{
    struct fake *f = arg;

    (void)code;
    f->ws = atoll_ws_free(ws);
}

/* Answers by method and path. */
static const struct {
    const char *method, *path;
    int status;
    const char *answer;
} answers[] = {
    {"POST", "/api/sandboxes", 201,
     "{\"id\":\"" BOX "\",\"state\":\"running\",\"limits\":{\"memoryMB\":64,\"cpuCores\":0.5}}"},
    {"GET", "/api/sandboxes", 200, "{\"sandboxes\":[{\"id\":\"a\"},{\"id\":\"b\"}]}"},
    {"GET", "/api/sandboxes/" BOX, 404,
     "{\"error\":{\"code\":\"not_found\",\"message\":\"there is no sandbox\",\"hint\":\"make one\","
     "\"request_id\":\"r-1\"}}"},
    {"DELETE", "/api/sandboxes/" BOX, 204, ""},
    {"POST", "/api/sandboxes/" BOX "/pause", 200, "{}"},
    {"POST", "/api/sandboxes/" BOX "/timeout", 200, "{}"},
    {"GET", "/api/sandboxes/" BOX "/files", 200, "content"},
    {"PUT", "/api/sandboxes/" BOX "/files", 200, "{}"},
    {"GET", "/api/sandboxes/" BOX "/files/list", 200,
     "{\"entries\":[{\"name\":\"x\",\"type\":\"file\",\"mode\":\"0640\",\"size\":5}]}"},
    {"GET", "/api/sandboxes/" BOX "/execs/exec1/output", 200,
     "{\"stream\":\"stdout\",\"offset\":6,\"data_base64\":\"d29ybGQ=\"}\n" RESULT "\n"},
    {"POST", "/api/sessions/s1/execute", 200,
     "{\"execution_id\":\"x\",\"stdout\":\"?\",\"stdout_base64\":\"/w==\",\"stderr\":\"e\","
     "\"error\":{\"name\":\"ValueError\",\"value\":\"v\"},\"exit_code\":1,\"duration_ms\":1500}"},
    {"POST", "/api/sandboxes/" BOX "/previews", 201,
     "{\"port\":80,\"public\":true,\"url\":null,\"path_url\":\"/p\",\"token\":\"t\"}"},
};

static void answer(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct fake *f = arg;

    snprintf(f->body, sizeof(f->body), "%.*s", (int)n, n ? (const char *)bytes : "");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(answers); i++)
        if (strcmp(answers[i].method, f->method) == 0 &&
            strcmp(answers[i].path, atoll_http_path(req)) == 0) {
            atoll_http_respond(req, answers[i].status, NULL, answers[i].answer,
                               strlen(answers[i].answer));
            return;
        }
    atoll_http_respond_error(req, 501, "unimplemented", "not in this test", NULL);
}

static void on_request(void *arg, struct atoll_http_request *req)
{
    static const struct atoll_ws_callbacks callbacks = {ws_message, NULL, ws_close};
    struct fake *f = arg;
    const char *key = atoll_http_header(req, "idempotency-key");

    snprintf(f->method, sizeof(f->method), "%s", atoll_http_method_name(atoll_http_method(req)));
    snprintf(f->target, sizeof(f->target), "%s", atoll_http_target(req));
    snprintf(f->idempotency_key, sizeof(f->idempotency_key), "%s", key ? key : "");
    f->body[0] = '\0';
    if (atoll_ws_wanted(req))
        assert_int_equal(atoll_ws_accept(req, &callbacks, f, 1 << 20, &f->ws, NULL), 0);
    else
        atoll_http_body_collect(req, sizeof(f->body) - 1, answer, NULL, f);
}

static void on_stop(void *arg, uint32_t events)
{
    (void)events;
    atoll_loop_stop(((struct fake *)arg)->loop);
}

static void *serve(void *arg)
{
    assert_int_equal(atoll_loop_run(((struct fake *)arg)->loop, NULL), 0);
    return NULL;
}

static struct atoll_client *open_client(const char *address)
{
    struct atoll_client_options options = {.size = sizeof(options), .address = address};
    struct atoll_client *client;

    assert_int_equal(atoll_client_open(&options, &client, NULL), 0);
    return client;
}

static struct atoll_client *fake_open(struct fake *f)
{
    *f = (struct fake){.stop_fd = eventfd(0, EFD_CLOEXEC)};
    snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
    assert_int_equal(atoll_loop_new(&f->loop, NULL), 0);
    assert_int_equal(atoll_watch_open(&f->stop, f->loop, f->stop_fd, EPOLLIN, on_stop, f), 0);
    assert_int_equal(atoll_http_server_new(f->loop, NULL, on_request, f, &f->server, NULL), 0);
    assert_int_equal(atoll_http_server_listen_unix(f->server, f->path, 0600, NULL), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
    return open_client(f->path);
}

static void fake_close(struct fake *f, struct atoll_client *client)
{
    uint64_t one = 1;

    atoll_client_close(client);
    assert_int_equal(write(f->stop_fd, &one, sizeof(one)), sizeof(one));
    pthread_join(f->thread, NULL);
    f->ws = atoll_ws_free(f->ws);
    atoll_watch_close(&f->stop);
    close(f->stop_fd);
    f->server = atoll_http_server_free(f->server);
    f->loop = atoll_loop_free(f->loop);
    unlink(f->path);
    assert_int_equal(rmdir(f->dir), 0);
}

/* Tests. */

static void structs_may_be_older_or_newer(void **state)
{
    struct {
        struct atoll_client_options known;
        int more;
    } newer = {.known = {.size = sizeof(newer), .address = "/x/y"}};
    struct atoll_client_options own;
    struct atoll_client_error error;
    struct atoll_client *client;
    struct atoll_error err;
    (void)state;

    assert_int_equal(atoll_client_open(&newer.known, &client, &error), 0);
    assert_string_equal(atoll_client_address(client), "/x/y");
    atoll_client_close(client);
    newer.more = 1;
    assert_true(atoll_client_open(&newer.known, &client, &error) < 0);
    assert_int_equal(error.code, ATOLL_CLIENT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "too old"));
    newer.known.size = 0;
    assert_true(atoll_client_open(&newer.known, &client, &error) < 0);
    assert_non_null(strstr(error.message, "size"));
    /* Older: it ends before the last member. */
    newer.known.size = offsetof(struct atoll_client_options, timeout_ms);
    newer.known.timeout_ms = 5;
    assert_int_equal(atoll_link_import(&own, sizeof(own), &newer.known, &err), 0);
    assert_int_equal(own.timeout_ms, 0);
    assert_string_equal(own.address, "/x/y");
}

static void address_and_key_come_from_the_environment(void **state)
{
    struct atoll_client *client;
    (void)state;

    setenv("ATOLL_SOCKET", "/some/where.sock", 1);
    setenv("ATOLL_URL", "http://127.0.0.1:1", 1);
    assert_int_equal(atoll_client_open(NULL, &client, NULL), 0);
    assert_string_equal(atoll_client_address(client), "/some/where.sock");
    atoll_client_close(client);
    unsetenv("ATOLL_SOCKET");
    assert_int_equal(atoll_client_open(NULL, &client, NULL), 0);
    assert_string_equal(atoll_client_address(client), "http://127.0.0.1:1");
    atoll_client_close(client);
    setenv("ATOLL_URL", "ftp://x", 1);
    assert_true(atoll_client_open(NULL, &client, NULL) < 0);
    unsetenv("ATOLL_URL");
}

static void nobody_there_is_unavailable_with_advice(void **state)
{
    struct atoll_client *client = open_client("/nonexistent/s");
    struct atoll_client_error error;
    (void)state;

    assert_true(atoll_client_sandbox_destroy(client, BOX, &error) < 0);
    assert_int_equal(error.code, ATOLL_CLIENT_UNAVAILABLE);
    assert_int_equal(error.errnum, ENOENT);
    assert_non_null(strstr(error.hint, "atoll up"));
    assert_true(atoll_client_sandbox_destroy(client, "../x", &error) < 0);
    assert_int_equal(error.code, ATOLL_CLIENT_INVALID_ARGUMENT);
    assert_true(atoll_client_sandbox_destroy(client, NULL, NULL) < 0);
    atoll_client_close(client);
}

static void options_become_a_body(void **state)
{
    static const char expected[] =
        "{\"artifacts\":[\"*.png\"],\"env\":{\"A\":\"b=c\"},\"lifetime\":{\"cpuSeconds\":1.5,"
        "\"idleSeconds\":30,\"leaseSeconds\":10,\"onDeadline\":\"pause\",\"outputBytes\":4096},"
        "\"limits\":{\"cpuCores\":0.5,\"memoryMB\":2,\"timeoutSeconds\":60},"
        "\"metadata\":{\"k\":\"v\"},\"persistent\":true,\"template\":\"t\",\"waive\":[\"cpu\"]}";
    struct atoll_client_sandbox_options o = {
        .size = sizeof(o),
        .template_name = "t",
        .memory_bytes = (1 << 20) + 1,
        .cpus = 0.5,
        .timeout_seconds = 60,
        .env = (const char *const[]){"A=b=c", NULL},
        .metadata = (const char *const[]){"k=v", NULL},
        .waive = (const char *const[]){"cpu", NULL},
        .idle_seconds = 30,
        .lease_seconds = 10,
        .cpu_budget_seconds = 1.5,
        .output_budget_bytes = 4096,
        .at_deadline = ATOLL_CLIENT_AT_DEADLINE_PAUSE,
        .persistent = true,
        .artifacts = (const char *const[]){"*.png", NULL},
    };
    ATOLL_AUTOJSON json_t *body = json_object();
    ATOLL_AUTOFREE char *text = NULL;
    struct atoll_error err;
    (void)state;

    assert_int_equal(atoll_compose_sandbox(body, &o, &err), 0);
    text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    assert_string_equal(text, expected);
    o.env = (const char *const[]){"no value", NULL};
    assert_true(atoll_compose_sandbox(body, &o, &err) < 0);
    o.env = (const char *const[]){"A=\xff", NULL};
    assert_true(atoll_compose_sandbox(body, &o, &err) < 0);
}

static void sandboxes(void **state)
{
    struct fake f;
    struct atoll_client *client = fake_open(&f);
    struct atoll_client_sandbox_options o = {.size = sizeof(o), .idempotency_key = "once"};
    struct atoll_client_sandbox *one, **all;
    struct atoll_client_error error;
    (void)state;

    assert_int_equal(atoll_client_sandbox_create(client, &o, &one, &error), 0);
    assert_string_equal(f.idempotency_key, "once");
    assert_string_equal(one->id, BOX);
    assert_string_equal(one->expires_at, "");
    assert_true(one->memory_bytes == 64 << 20 && one->cpus > 0.49 && one->cpus < 0.51);
    assert_non_null(strstr(one->json, "\"running\""));
    atoll_client_sandbox_free(one);
    assert_int_equal(atoll_client_sandbox_list(client, true, &all, &error), 2);
    assert_string_equal(f.target, "/api/sandboxes?all=true");
    assert_string_equal(all[1]->id, "b");
    assert_null(all[2]);
    atoll_client_sandbox_list_free(all);
    assert_true(atoll_client_sandbox_get(client, BOX, &one, &error) < 0);
    assert_int_equal(error.code, ATOLL_CLIENT_NOT_FOUND);
    assert_int_equal(error.errnum, EREMOTEIO);
    assert_string_equal(error.message, "there is no sandbox");
    assert_string_equal(error.hint, "make one");
    assert_string_equal(error.request_id, "r-1");
    assert_int_equal(atoll_client_sandbox_pause(client, BOX, false, &error), 0);
    assert_string_equal(f.body, "{\"keepProcesses\":false}");
    assert_int_equal(atoll_client_sandbox_set_timeout(client, BOX, 0, &error), 0);
    assert_string_equal(f.body, "{\"seconds\":0}");
    assert_int_equal(atoll_client_sandbox_destroy(client, BOX, &error), 0);
    assert_string_equal(f.method, "DELETE");
    fake_close(&f, client);
}

static void commands_run_to_their_end(void **state)
{
    static char input[3000000];
    struct fake f;
    struct atoll_client *client = fake_open(&f);
    const char *const argv[] = {"cat", NULL};
    struct atoll_client_command c = {
        .size = sizeof(c), .argv = argv, .input = input, .input_size = sizeof(input)};
    struct atoll_client_result *r;
    struct atoll_client_error error;
    (void)state;

    assert_int_equal(atoll_client_exec(client, BOX, &c, &r, &error), 0);
    assert_int_equal(f.input, sizeof(input));
    assert_int_equal(r->end, ATOLL_CLIENT_EXITED);
    assert_true(r->exit_code == 3 && r->status == 3 && r->max_rss_bytes == 7);
    assert_string_equal(r->exec_id, "exec1");
    assert_string_equal(r->output[ATOLL_CLIENT_STDOUT].bytes, "hello world");
    assert_int_equal(r->output[ATOLL_CLIENT_STDOUT].size, 11);
    assert_string_equal(r->output[ATOLL_CLIENT_STDERR].bytes, "oh");
    assert_true(r->output[ATOLL_CLIENT_STDERR].truncated);
    assert_false(r->output[ATOLL_CLIENT_STDOUT].truncated);
    atoll_client_result_free(r);
    c.output_max_bytes = 4;
    assert_int_equal(atoll_client_run(client, NULL, &c, &r, &error), 0);
    assert_string_equal(f.target, "/api/run");
    assert_string_equal(r->output[ATOLL_CLIENT_STDOUT].bytes, "hell");
    assert_true(r->output[ATOLL_CLIENT_STDOUT].truncated);
    atoll_client_result_free(r);
    c.argv = (const char *const[]){NULL};
    assert_true(atoll_client_exec(client, BOX, &c, &r, &error) < 0);
    assert_int_equal(error.code, ATOLL_CLIENT_INVALID_ARGUMENT);
    fake_close(&f, client);
}

/* The daemon went away in the middle: the rest is in its journal. */
static void a_lost_connection_loses_nothing(void **state)
{
    struct fake f;
    struct atoll_client *client = fake_open(&f);
    const char *const argv[] = {"true", NULL};
    struct atoll_client_command c = {.size = sizeof(c), .argv = argv};
    struct atoll_client_result *r;
    struct atoll_client_error error;
    (void)state;

    f.hangs_up = true;
    assert_int_equal(atoll_client_exec(client, BOX, &c, &r, &error), 0);
    assert_string_equal(r->output[ATOLL_CLIENT_STDOUT].bytes, "hello world");
    assert_non_null(strstr(f.target, "stdout=6&stderr=0&follow=true"));
    assert_int_equal(r->exit_code, 3);
    atoll_client_result_free(r);
    fake_close(&f, client);
}

static void processes_tell_what_happens(void **state)
{
    struct fake f;
    struct atoll_client *client = fake_open(&f);
    const char *const argv[] = {"true", NULL};
    struct atoll_client_command c = {.size = sizeof(c), .argv = argv, .open_input = true};
    const struct atoll_client_event *e;
    struct atoll_client_process *p;
    struct atoll_client_error error;
    (void)state;

    assert_int_equal(atoll_client_start(client, BOX, &c, &p, &error), 0);
    assert_string_equal(atoll_client_process_exec_id(p), "exec1");
    assert_true(atoll_client_process_fd(p) >= 0);
    assert_true(atoll_client_process_events(p) & POLLIN);
    assert_int_equal(atoll_client_process_next(p, 5000, &e, &error), 1);
    assert_true(e->kind == ATOLL_CLIENT_EVENT_OUTPUT && e->stream == ATOLL_CLIENT_STDOUT);
    assert_memory_equal(e->bytes, "hello ", 6);
    assert_int_equal(atoll_client_process_next(p, 5000, &e, &error), 1);
    assert_true(e->stream == ATOLL_CLIENT_STDERR && e->size == 2);
    assert_int_equal(atoll_client_process_next(p, 5000, &e, &error), 1);
    assert_true(e->kind == ATOLL_CLIENT_EVENT_DROPPED && e->from == 2 && e->to == 9);
    assert_int_equal(atoll_client_process_next(p, 0, &e, &error), 0);
    assert_null(atoll_client_process_result(p));
    assert_int_equal(atoll_client_process_write(p, "xyz", 3, &error), 3);
    assert_int_equal(atoll_client_process_resize(p, 80, 24, &error), 0);
    assert_int_equal(atoll_client_process_close_input(p, &error), 0);
    assert_int_equal(atoll_client_process_wait(p, NULL, NULL, &error), 0);
    assert_int_equal(f.input, 3);
    assert_int_equal(atoll_client_process_result(p)->exit_code, 3);
    assert_int_equal(atoll_client_process_wait(p, NULL, NULL, &error), 0);
    atoll_client_process_free(p);
    fake_close(&f, client);
}

static void records_become_results(void **state)
{
    static const struct {
        const char *record;
        enum atoll_client_end end;
        int status, signal;
    } cases[] = {
        {"{\"kind\":\"exited\",\"exit_code\":0}", ATOLL_CLIENT_EXITED, 0, 0},
        {"{\"kind\":\"signaled\",\"signal\":\"SIGSEGV\"}", ATOLL_CLIENT_SIGNALED, 139, SIGSEGV},
        {"{\"kind\":\"killed_by\",\"who\":\"x\"}", ATOLL_CLIENT_KILLED_BY, 137, 0},
        {"{\"kind\":\"timed_out\",\"signal\":\"SIGKILL\"}", ATOLL_CLIENT_TIMED_OUT, 124, SIGKILL},
        {"{\"kind\":\"oom_killed\"}", ATOLL_CLIENT_OOM_KILLED, 137, 0},
        {"{\"kind\":\"lost\"}", ATOLL_CLIENT_LOST, 125, 0},
        /* What is not understood is never a success. */
        {"{\"kind\":\"exited\"}", ATOLL_CLIENT_LOST, 125, 0},
        {"{\"kind\":\"ascended\",\"exit_code\":0}", ATOLL_CLIENT_LOST, 125, 0},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        ATOLL_AUTOJSON json_t *record =
            atoll_link_parse_json(cases[i].record, strlen(cases[i].record));
        struct atoll_client_result *r;
        assert_int_equal(atoll_result_new(record, "s", "e", NULL, NULL, &r, NULL), 0);
        assert_int_equal(r->end, cases[i].end);
        assert_int_equal(r->status, cases[i].status);
        assert_int_equal(r->signal, cases[i].signal);
        assert_true(r->end == ATOLL_CLIENT_EXITED || r->exit_code == -1);
        atoll_client_result_free(r);
    }
}

static void files_sessions_previews(void **state)
{
    struct fake f;
    struct atoll_client *client = fake_open(&f);
    struct atoll_client_error error;
    struct atoll_client_file **files;
    struct atoll_client_execution *x;
    struct atoll_client_preview *preview;
    void *bytes;
    size_t size;
    char *json;
    (void)state;

    assert_int_equal(atoll_client_file_read(client, BOX, "root", "/a b", &bytes, &size, &error), 0);
    assert_string_equal(f.target, "/api/sandboxes/" BOX "/files?path=%2Fa%20b&user=root");
    assert_int_equal(size, 7);
    assert_string_equal(bytes, "content");
    atoll_client_release(bytes);
    assert_int_equal(atoll_client_file_write(client, BOX, NULL, "x", 0750, "hi", 2, &error), 0);
    assert_string_equal(f.target, "/api/sandboxes/" BOX "/files?path=x&mode=0750");
    assert_string_equal(f.body, "hi");
    assert_int_equal(atoll_client_file_list(client, BOX, NULL, ".", 2, &files, &error), 1);
    assert_true(files[0]->mode == 0640 && files[0]->size == 5);
    atoll_client_file_list_free(files);
    assert_int_equal(atoll_client_session_execute(client, "s1", "raise", NULL, &x, &error), 0);
    assert_int_equal(x->output[ATOLL_CLIENT_STDOUT].size, 1);
    assert_memory_equal(x->output[ATOLL_CLIENT_STDOUT].bytes, "\xff", 1);
    assert_string_equal(x->error_name, "ValueError");
    assert_int_equal(x->exit_code, 1);
    atoll_client_execution_free(x);
    assert_int_equal(atoll_client_preview_open(client, BOX, 80, true, &preview, &error), 0);
    assert_true(preview->is_public && !*preview->url);
    atoll_client_preview_free(preview);
    assert_true(atoll_client_preview_open(client, BOX, 0, true, &preview, &error) < 0);
    assert_int_equal(atoll_client_request(client, "GET", "/api/sandboxes", NULL, &json, &error), 0);
    assert_non_null(strstr(json, "sandboxes"));
    atoll_client_release(json);
    assert_true(atoll_client_request(client, "GET", "/nope", NULL, &json, &error) < 0);
    assert_int_equal(error.code, ATOLL_CLIENT_UNIMPLEMENTED);
    fake_close(&f, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_may_be_older_or_newer),
        cmocka_unit_test(address_and_key_come_from_the_environment),
        cmocka_unit_test(nobody_there_is_unavailable_with_advice),
        cmocka_unit_test(options_become_a_body),
        cmocka_unit_test(sandboxes),
        cmocka_unit_test(commands_run_to_their_end),
        cmocka_unit_test(a_lost_connection_loses_nothing),
        cmocka_unit_test(processes_tell_what_happens),
        cmocka_unit_test(records_become_results),
        cmocka_unit_test(files_sessions_previews),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
