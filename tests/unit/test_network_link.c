/* The engine's end of atoll-egress, against one that this test plays. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "proto/egress_proto.h"
#include "test.h"

#define SEEN_MAX 32

/* What the played atoll-egress was sent. */
struct seen {
    uint16_t type;
    uint32_t id;
    size_t nfds;
    char name[ATOLL_ID_LEN + 1]; /* of the sandbox */
};

static struct atoll_engine engine;

struct fixture {
    char dir[64];
    int listen_fd;
    struct atoll_channel peer;
    bool connected;
    struct seen seen[SEEN_MAX];
    size_t count, answered;
    struct atoll_sandbox boxes[2];
    int done, failed;
};

static void sockets(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_sockets_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    done(arg, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
         socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), NULL);
}

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    static const struct atoll_provider_caps all = {.sockets = true};

    (void)p;
    return &all;
}

static const struct atoll_provider_ops ops = {.name = "some", .caps = caps, .sockets = sockets};
static struct atoll_provider provider = {.ops = &ops};

static void listen_at(struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", f->dir,
                   ATOLL_EGRESS_SOCKET);
    f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f->listen_fd, 4), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct atoll_error err;

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-test-link-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    listen_at(f);
    engine = (struct atoll_engine){.state_dir = f->dir};
    atoll_map_init(&engine.sandboxes);
    assert_int_equal(atoll_loop_new(&engine.loop, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(f->boxes); i++) {
        struct atoll_sandbox *s = &f->boxes[i];

        *s = (struct atoll_sandbox){.engine = &engine, .provider = &provider};
        s->spec.network = ATOLL_NETWORK_BRIDGE;
        (void)snprintf(s->spec.id, sizeof(s->spec.id), "box%zu", i);
        (void)snprintf(s->spec.tenant, sizeof(s->spec.tenant), "default");
        assert_int_equal(atoll_map_put(&engine.sandboxes, s->spec.id, s), 0);
    }
    assert_int_equal(atoll_network_open(&engine, "/bin/false", &err), 0);
    *state = f;
    return 0;
}

static void disconnect(struct fixture *f)
{
    if (f->connected)
        atoll_channel_done(&f->peer);
    f->connected = false;
    f->count = f->answered = 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char path[128];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(f->boxes); i++)
        f->boxes[i].attachment = atoll_attachment_free(f->boxes[i].attachment);
    engine.network = atoll_network_free(engine.network);
    disconnect(f);
    (void)close(f->listen_fd);
    atoll_map_done(&engine.sandboxes);
    engine.loop = atoll_loop_free(engine.loop);
    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, ATOLL_EGRESS_SOCKET);
    (void)unlink(path);
    (void)rmdir(f->dir);
    free(f);
    return 0;
}

static int note(void *arg, struct atoll_frame *frame)
{
    struct fixture *f = arg;
    struct seen *seen = &f->seen[f->count++];
    struct atoll_em_put put;
    struct atoll_em_ref ref;
    struct atoll_error err;

    assert_true(f->count < SEEN_MAX);
    *seen = (struct seen){.type = frame->type, .id = frame->id, .nfds = frame->nfds};
    if (frame->type == ATOLL_EGRESS_PUT || frame->type == ATOLL_EGRESS_POLICY) {
        assert_int_equal(
            atoll_msg_decode(&atoll_em_put_desc, frame->payload, frame->len, &put, &err), 0);
        (void)snprintf(seen->name, sizeof(seen->name), "%s", put.id);
    } else if (frame->type == ATOLL_EGRESS_DROP) {
        assert_int_equal(
            atoll_msg_decode(&atoll_em_ref_desc, frame->payload, frame->len, &ref, &err), 0);
        (void)snprintf(seen->name, sizeof(seen->name), "%s", ref.id);
    }
    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    return 0;
}

/* Lets both sides work until nothing more comes; requests are not answered. */
static void work(struct fixture *f)
{
    struct atoll_error err;

    for (int i = 0; i < 20; i++) {
        int fd;
        int r;

        assert_int_equal(atoll_loop_step(engine.loop, 5, &err), 0);
        fd = f->connected ? -1 : accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            assert_int_equal(atoll_channel_init(&f->peer, fd, 1024 * 1024), 0);
            f->connected = true;
        }
        r = f->connected ? atoll_channel_receive(&f->peer, note, f) : 0;
        assert_true(r == 0 || r == -EAGAIN);
    }
}

/* Answers what was not answered yet. */
static void answer_all(struct fixture *f)
{
    static const struct atoll_em_hello hello = {.version = ATOLL_EGRESS_VERSION, .pid = 7};

    for (; f->answered < f->count; f->answered++) {
        bool greets = f->seen[f->answered].type == ATOLL_EGRESS_HELLO;

        assert_int_equal(atoll_channel_send(&f->peer, ATOLL_EGRESS_REPLY, f->seen[f->answered].id,
                                            greets ? &atoll_em_hello_desc : NULL,
                                            greets ? &hello : NULL, NULL, 0),
                         0);
    }
    assert_int_equal(atoll_channel_flush(&f->peer), 1);
    work(f);
}

static void on_done(void *arg, const struct atoll_error *error)
{
    struct fixture *f = arg;

    f->done++;
    f->failed += error != NULL;
}

static void expect(const struct fixture *f, size_t i, uint16_t type, const char *name, size_t nfds)
{
    assert_true(i < f->count);
    assert_int_equal(f->seen[i].type, type);
    assert_string_equal(f->seen[i].name, name);
    assert_int_equal(f->seen[i].nfds, nfds);
}

static void connect_all(struct fixture *f)
{
    atoll_network_attach(&f->boxes[0], on_done, f);
    atoll_network_attach(&f->boxes[1], NULL, NULL);
    atoll_network_recovered(engine.network);
    work(f);
    answer_all(f);
    answer_all(f);
    assert_int_equal(f->done, 1);
    assert_int_equal(f->failed, 0);
}

/* It is told of the sandboxes once those of an earlier daemon are known, and then that these are
 * all. */
static void sandboxes_are_put_after_hello(void **state)
{
    struct fixture *f = *state;

    atoll_network_attach(&f->boxes[0], on_done, f);
    work(f);
    answer_all(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, ATOLL_EGRESS_HELLO, "", 0);
    atoll_network_attach(&f->boxes[1], NULL, NULL);
    atoll_network_recovered(engine.network);
    work(f);
    assert_int_equal(f->count, 3);
    expect(f, 1, ATOLL_EGRESS_PUT, "box0", 2);
    expect(f, 2, ATOLL_EGRESS_PUT, "box1", 2);
    assert_int_equal(f->done, 0);
    answer_all(f);
    assert_int_equal(f->done, 1);
    assert_int_equal(f->failed, 0);
    expect(f, 3, ATOLL_EGRESS_SYNCED, "", 0);
    assert_null(atoll_network_problem(engine.network));
}

static void a_new_worker_gets_all_sandboxes(void **state)
{
    struct fixture *f = *state;

    connect_all(f);
    disconnect(f);
    work(f);
    assert_non_null(atoll_network_problem(engine.network));
    answer_all(f);
    expect(f, 0, ATOLL_EGRESS_HELLO, "", 0);
    assert_int_equal(f->seen[1].nfds, 2);
    assert_int_equal(f->seen[2].nfds, 2);
    answer_all(f);
    expect(f, 3, ATOLL_EGRESS_SYNCED, "", 0);
}

/* A sandbox that waits when the worker dies is put by the next one. */
static void an_attach_survives_the_worker(void **state)
{
    struct fixture *f = *state;

    atoll_network_recovered(engine.network);
    work(f);
    answer_all(f);
    atoll_network_attach(&f->boxes[0], on_done, f);
    work(f);
    disconnect(f);
    work(f);
    assert_int_equal(f->done, 0);
    answer_all(f);
    answer_all(f);
    assert_int_equal(f->done, 1);
    assert_int_equal(f->failed, 0);
}

static void a_changed_policy_needs_no_sockets(void **state)
{
    struct fixture *f = *state;
    size_t before;

    connect_all(f);
    before = f->count;
    atoll_network_attach(&f->boxes[0], on_done, f);
    work(f);
    expect(f, before, ATOLL_EGRESS_POLICY, "box0", 0);
    assert_int_equal(f->done, 1);
    answer_all(f);
    assert_int_equal(f->done, 2);
}

static void an_ended_sandbox_is_dropped(void **state)
{
    struct fixture *f = *state;
    size_t before;

    connect_all(f);
    before = f->count;
    atoll_network_detach(&f->boxes[1]);
    work(f);
    expect(f, before, ATOLL_EGRESS_DROP, "box1", 0);
    answer_all(f);
    disconnect(f);
    work(f);
    answer_all(f);
    answer_all(f);
    assert_int_equal(f->count, 3);
    expect(f, 1, ATOLL_EGRESS_PUT, "box0", 2);
    expect(f, 2, ATOLL_EGRESS_SYNCED, "", 0);
}

/* The processes that HELLO names have changed: everything is said again on the same connection. */
static void hello_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    size_t before;

    connect_all(f);
    before = f->count;
    atoll_network_greet(engine.network);
    work(f);
    expect(f, before, ATOLL_EGRESS_HELLO, "", 0);
    answer_all(f);
    assert_int_equal(f->count, before + 3);
    assert_int_equal(f->seen[before + 1].type, ATOLL_EGRESS_PUT);
    assert_int_equal(f->seen[before + 2].type, ATOLL_EGRESS_PUT);
    answer_all(f);
    expect(f, before + 3, ATOLL_EGRESS_SYNCED, "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sandboxes_are_put_after_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_worker_gets_all_sandboxes, setup, teardown),
        cmocka_unit_test_setup_teardown(an_attach_survives_the_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_policy_needs_no_sockets, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ended_sandbox_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(hello_can_be_repeated, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
