/*
 * Requests of a hostile client against the whole HTTP API, ours and E2B's, with an engine made of
 * memory: targets, hosts, headers, queries, bodies and WebSocket messages as the routes read them. The
 * first byte says in which pieces they arrive; its highest bit holds the engine's answers back until
 * all of them have.
 */
#include <sys/socket.h>
#include "../unit/fake_engine.h"
#include "api/api.h"
#include "api/preview.h"
#include "base/log.h"
#include "fuzz.h"
#include "interpreter/contexts.h"
#include "loop/loop.h"
#include "registry/registry.h"
#include "session/sessions.h"

static struct {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    struct atoll_api *api;
    struct atoll_previews *previews;
    struct atoll_registry *registry;
    struct atoll_sessions *sessions;
    struct atoll_contexts *contexts;
    int fd; /* the client's */
    bool closed;
    int pieces; /* of output that commands have written */
} world;

static void serve(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    if (strstr(atoll_http_path(req), "artifacts")) /* the engine made of memory has none */
        atoll_http_respond(req, 404, "text/plain", "", 0);
    else
        atoll_api_serve(world.api, req);
}

static void ignore_sandbox(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    (void)arg;
    (void)s;
    FUZZ_CHECK(!error);
}

static void ignore_exec(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    (void)arg;
    FUZZ_CHECK(!error);
    fake_output(exec, ATOLL_STREAM_STDOUT, "out\xff", 4);
}

/* One sandbox, "box0", open to everybody, with a command that has ended and one that runs. */
static void fill_engine(void)
{
    static const char *const argv[] = {"cmd", NULL};
    const struct atoll_exec_start start = {.argv = argv, .stdin_open = true};
    const struct atoll_options create = {
        .facade_json = "{\"facade\":\"e2b\",\"secure\":false,\"public_traffic\":true}"};

    fake_reset();
    memcpy(fake.file, "content", 7);
    fake.file_len = fake.file_size = 7;
    atoll_engine_create(&fake, &create, ignore_sandbox, NULL);
    atoll_engine_exec(&fake, "box0", &start, ignore_exec, NULL);
    atoll_engine_exec(&fake, "box0", &start, ignore_exec, NULL);
    fake_end(&fake.execs[0], ATOLL_END_EXITED, 3);
}

static void open_around(void)
{
    const struct atoll_contexts_config config = {.loop = world.loop, .engine = &fake};
    struct atoll_preview_view view;

    FUZZ_CHECK(atoll_previews_new(NULL, &world.previews, NULL) == 0);
    FUZZ_CHECK(atoll_previews_add(world.previews, "box0", 80, true, &view, NULL) == 0);
    FUZZ_CHECK(atoll_registry_open(world.loop, "", &world.registry, NULL) == 0);
    FUZZ_CHECK(atoll_sessions_new(&fake, world.registry, NULL, &world.sessions, NULL) == 0);
    FUZZ_CHECK(atoll_contexts_new(&config, &world.contexts, NULL) == 0);
}

static void open_world(void)
{
    static const char *const names[] = {"x", NULL};
    static const struct atoll_preview_site site = {.domain = "p.test", .port = 80, .names = names};
    static const struct atoll_http_limits limits = {.header_bytes = 8192, .header_count = 40};
    struct atoll_api_config config = {.engine = &fake, .site = &site};
    int pair[2];

    atoll_log_set_level(ATOLL_LOG_ERROR);
    fill_engine();
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    FUZZ_CHECK(atoll_loop_new(&world.loop, NULL) == 0);
    open_around();
    config.loop = world.loop;
    config.previews = world.previews;
    config.sessions = world.sessions;
    config.contexts = world.contexts;
    world.api = atoll_api_new(&config);
    FUZZ_CHECK(atoll_http_server_new(world.loop, &limits, serve, NULL, &world.server, NULL) == 0);
    FUZZ_CHECK(atoll_http_server_adopt(world.server, pair[0], NULL) == 0);
    world.fd = pair[1];
    world.closed = false;
    world.pieces = 0;
}

static void close_world(void)
{
    (void)close(world.fd);
    FUZZ_CHECK(atoll_loop_step(world.loop, 0, NULL) == 0);
    FUZZ_CHECK(atoll_loop_step(world.loop, 0, NULL) == 0);
    world.server = atoll_http_server_free(world.server);
    fake_release();
    for (int i = 0; i < FAKE_MAX; i++) /* whoever waits for the end of a command gets it */
        if (fake.execs[i].used)
            fake_end(&fake.execs[i], ATOLL_END_KILLED_BY, 0);
    world.api = atoll_api_free(world.api);
    world.contexts = atoll_contexts_free(world.contexts);
    world.sessions = atoll_sessions_free(world.sessions);
    world.registry = atoll_registry_close(world.registry);
    world.previews = atoll_previews_free(world.previews);
    world.loop = atoll_loop_free(world.loop);
    FUZZ_CHECK(fake.readers == 0);
    fake_done();
}

/* Turns the loop, reads what the client gets, and lets commands go on. */
static void turn(void)
{
    char sink[16384];

    for (int i = 0; i < 3; i++) {
        ssize_t n;
        FUZZ_CHECK(atoll_loop_step(world.loop, 0, NULL) == 0);
        while ((n = recv(world.fd, sink, sizeof(sink), MSG_DONTWAIT)) > 0)
            ;
        world.closed = world.closed || n == 0;
    }
    /* They write while somebody follows them, and then end. */
    for (int i = 1; i < 4 && world.pieces < 8; i++)
        if (fake.execs[i].used && !fake.execs[i].ended) {
            fake_output(&fake.execs[i], ATOLL_STREAM_STDERR, "\xe4\xb8", 2);
            if (++world.pieces == 7)
                fake_end(&fake.execs[i], ATOLL_END_EXITED, 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece;

    if (size < 1)
        return 0;
    piece = (data[0] & 0x7f) == 0 ? size : (size_t)(data[0] & 0x7f) * 16;
    open_world();
    fake.hold = data[0] & 0x80;
    for (size_t at = 1; at < size && !world.closed; at += piece) {
        size_t n = ATOLL_MIN(size - at, piece);
        if (send(world.fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        turn();
        if (fake.later_count > 50)
            fake_release();
    }
    fake_release();
    turn();
    close_world();
    return 0;
}
