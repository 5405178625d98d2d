/*
 * Code run in contexts over HTTP, as a stream of lines, for clients that do not take them. The test
 * is the interpreter, too.
 */
#include <sys/stat.h>
#include "api/api_internal.h"
#include "fake_engine.h"
#include "interpreter/contexts.h"
#include "sys/tree.h"
#include "test_http_util.h"

#define LINE_BYTES ((size_t)2 * 1024 * 1024)

static struct rig slow, rig; /* one server; `slow` never reads */
static struct atoll_api *api;
static struct atoll_contexts *contexts;
static char dir[40];
static char made[2][ATOLL_ID_LEN + 1]; /* contexts of box0 and box1, which are two tenants' */

static void serve(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_api_serve(api, req);
}

static void write_file(const char *name, const char *text)
{
    char path[100];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void say(size_t i, const char *text)
{
    fake_output(&fake.execs[i], ATOLL_STREAM_STDOUT, text, strlen(text));
}

static void on_made(void *arg, const struct atoll_context_view *view,
                    const struct atoll_error *error)
{
    assert_null(error);
    (void)snprintf(arg, ATOLL_ID_LEN + 1, "%s", view->id);
}

static void ignore_sandbox(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    (void)arg;
    (void)s;
    assert_null(error);
}

static void make(size_t i, const char *owner)
{
    const char *const boxes[] = {"box0", "box1"};
    const struct atoll_context_create c = {.sandbox_id = boxes[i], .language = "toy"};

    atoll_engine_create(&fake, &(struct atoll_options){.owner = owner}, ignore_sandbox, NULL);
    atoll_contexts_create(contexts, &c, on_made, made[i]);
    say(i, "{\"type\":\"ready\"}\n");
    assert_true(made[i][0]);
}

static int set_up(void **state)
{
    struct atoll_contexts_config around = {.engine = &fake, .drivers_dir = dir};
    struct atoll_api_config config = {.engine = &fake};

    (void)state;
    fake_reset();
    memset(made, 0, sizeof(made));
    (void)snprintf(dir, sizeof(dir), "/tmp/atoll-contexts-XXXXXX");
    assert_non_null(mkdtemp(dir));
    write_file("toy.py", "print('driver')\n");
    write_file("manifest.json", "{\"toy\":{\"file\":\"toy.py\",\"run\":[\"toy\",\"{driver}\"],"
                                "\"requires\":[],\"aliases\":[],\"install\":\"get toy\"}}");
    rig_open(&rig, NULL, serve, NULL);
    slow = (struct rig){.loop = rig.loop, .server = rig.server, .fd = -1};
    rig_connect(&slow);
    config.loop = around.loop = rig.loop;
    assert_int_equal(atoll_contexts_new(&around, &contexts, NULL), 0);
    config.contexts = contexts;
    api = atoll_api_new(&config);
    make(0, "somebody");
    make(1, "neighbour");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(slow.fd);
    rig.server = atoll_http_server_free(rig.server);
    api = atoll_api_free(api);
    contexts = atoll_contexts_free(contexts);
    rig_close(&rig);
    fake_done();
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
    return 0;
}

static void ask(struct rig *r, size_t i)
{
    char text[300];

    (void)snprintf(text, sizeof(text),
                   "POST /api/sandboxes/box%zu/contexts/%s/execute HTTP/1.1\r\nHost: x\r\n"
                   "Accept: application/x-ndjson\r\nContent-Type: application/json\r\n"
                   "Content-Length: 12\r\n\r\n{\"code\":\"a\"}",
                   i, made[i]);
    rig_send(r, text, strlen(text));
    while (!atoll_buf_size(&fake.execs[i].input))
        assert_int_equal(atoll_loop_step(r->loop, 1, NULL), 0);
}

/* The interpreter of a sandbox answers with one long line. */
static void answer(size_t i, size_t size)
{
    const char *id = strstr(atoll_buf_str(&fake.execs[i].input), "{\"id\":");
    char *line = malloc(size);
    int n;

    assert_non_null(id);
    n = snprintf(line, size, "{\"id\":%llu,\"type\":\"stdout\",\"text\":\"",
                 strtoull(id + 6, NULL, 10));
    memset(line + n, 'x', size - (size_t)n);
    memcpy(line + size - 3, "\"}\n", 3);
    fake_output(&fake.execs[i], ATOLL_STREAM_STDOUT, line, size);
    (void)snprintf(line, size, "{\"id\":%llu,\"type\":\"end_of_execution\"}\n",
                   strtoull(id + 6, NULL, 10));
    say(i, line);
    free(line);
}

static void a_neighbours_slow_clients(void **state)
{
    (void)state;
    api->waiting.max = 2 * LINE_BYTES;
    ask(&slow, 0);
    answer(0, LINE_BYTES);
    assert_true(api->waiting.used > 0);
    api->waiting.max = api->waiting.used; /* nothing is left */
    ask(&rig, 1);
    answer(1, LINE_BYTES / 8);
    rig_turn(&rig);
    assert_false(rig.ended);
    assert_non_null(strstr(rig_text(&rig), "{\"type\":\"end_of_execution\"}"));
    close(slow.fd);
    slow.fd = -1;
    rig_turn(&rig);
    assert_int_equal(api->waiting.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_neighbours_slow_clients, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("api_contexts", tests, NULL, NULL);
}
