/* The engine's end of atoll-egress, against one that this test plays. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "proto/egress_proto.h"
#include "sys/tree.h"
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
    uint32_t pid; /* of the worker that is played */
    char listed[4096];
    uint64_t last_line;
    int followed, ended;
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
    engine = (struct atoll_engine){.state_dir = f->dir,
                                   .state_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
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
    assert_int_equal(atoll_operator_networks_open(&engine.operator_networks, &engine.config, &err),
                     0);
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
    atoll_operator_networks_close(&engine.operator_networks);
    disconnect(f);
    (void)close(f->listen_fd);
    atoll_map_done(&engine.sandboxes);
    engine.loop = atoll_loop_free(engine.loop);
    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, ATOLL_EGRESS_SOCKET);
    (void)unlink(path);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(f->boxes); i++) {
        (void)snprintf(path, sizeof(path), "%s/network/box%zu", f->dir, i);
        (void)unlink(path);
        (void)strcat(path, ".1");
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/network", f->dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(f->dir), 0);
    (void)close(engine.state_fd);
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
    } else if (frame->type == ATOLL_EGRESS_SECRETS) {
        struct atoll_em_secrets secrets;

        assert_int_equal(
            atoll_msg_decode(&atoll_em_secrets_desc, frame->payload, frame->len, &secrets, &err),
            0);
        (void)snprintf(seen->name, sizeof(seen->name), "%.*s", (int)secrets.secrets.len,
                       (const char *)secrets.secrets.data);
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
    const struct atoll_em_hello hello = {.version = ATOLL_EGRESS_VERSION, .pid = 7 + f->pid};

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

/* Connections. */

static void report(struct fixture *f, uint64_t number, enum atoll_egress_end end, const char *name,
                   const char *rule)
{
    const struct atoll_em_connection event = {
        .id = "box0",
        .number = number,
        .end = (uint8_t)end,
        .started_unix_ms = 1000,
        .ended_unix_ms = end == ATOLL_EGRESS_OPENED ? 0 : 2000,
        .name = name,
        .address = "203.0.113.1",
        .port = 443,
        .rule = rule,
        .hint = "",
        .rx_bytes = 5,
    };

    assert_int_equal(atoll_channel_send(&f->peer, ATOLL_EGRESS_CONNECTION, 0,
                                        &atoll_em_connection_desc, &event, NULL, 0),
                     0);
    if (atoll_channel_flush(&f->peer) == 0)
        work(f);
}

static void list_one(void *arg, const struct atoll_connection *c)
{
    struct fixture *f = arg;
    size_t at = strlen(f->listed);

    f->last_line = c->line;
    (void)snprintf(f->listed + at, sizeof(f->listed) - at, "%llu %s %s:%u %s;",
                   (unsigned long long)c->number, c->name, c->address, c->port, c->end);
}

static bool list(struct fixture *f, uint64_t before, size_t most)
{
    struct atoll_error err;
    bool more;

    f->listed[0] = '\0';
    assert_int_equal(
        atoll_connections_list(&engine, "box0", before, most, list_one, f, &more, &err), 0);
    return more;
}

static void connections_are_listed_by_their_end(void **state)
{
    struct fixture *f = *state;

    connect_all(f);
    report(f, 1, ATOLL_EGRESS_OPENED, "a.example", "default");
    report(f, 2, ATOLL_EGRESS_DENIED, "b.ex\tample\n", "deny *");
    report(f, 3, ATOLL_EGRESS_OPENED, "c.example", "default");
    report(f, 1, ATOLL_EGRESS_CLOSED, "a.example", "default");
    work(f);
    assert_true(list(f, 0, 1));
    assert_string_equal(f->listed, "1 a.example 203.0.113.1:443 closed;");
    assert_false(list(f, f->last_line, 5));
    assert_string_equal(f->listed, "3 c.example 203.0.113.1:443 open;"
                                   "2 b.ex?ample? 203.0.113.1:443 denied;");
    /* The worker dies, and its connections with it; the next one counts from 1 again. */
    disconnect(f);
    f->pid++;
    work(f);
    answer_all(f);
    answer_all(f);
    report(f, 1, ATOLL_EGRESS_OPENED, "d.example", "default");
    work(f);
    assert_false(list(f, 0, 5));
    assert_string_equal(f->listed, "1 d.example 203.0.113.1:443 open;"
                                   "1 a.example 203.0.113.1:443 closed;"
                                   "3 c.example 203.0.113.1:443 lost;"
                                   "2 b.ex?ample? 203.0.113.1:443 denied;");
}

/* Two files of 1 MiB at most, without a gap in the numbers of lines; also after a restart of the
 * daemon, which may have died in the middle of a line. */
static void the_journal_is_bounded(void **state)
{
    struct fixture *f = *state;
    char rule[301];
    uint64_t newest;
    int fd;

    connect_all(f);
    (void)memset(rule, 'r', 300);
    rule[300] = '\0';
    for (uint64_t i = 1; i <= 6000; i++)
        report(f, i, ATOLL_EGRESS_CLOSED, "a.example", rule);
    work(f);
    assert_int_equal(f->boxes[0].attachment->log.line, 6000);
    assert_true(f->boxes[0].attachment->log.bytes < 1024 * 1024 + 2048);
    assert_true(list(f, 0, 1));
    newest = f->last_line;
    assert_int_equal(newest, 6000);
    assert_true(list(f, 0, 3000)); /* more than one file has */
    fd = f->boxes[0].attachment->log.fd;
    assert_int_equal(write(fd, "6001\t7\thalf", 11), 11);
    f->boxes[0].attachment = atoll_attachment_free(f->boxes[0].attachment);
    atoll_network_attach(&f->boxes[0], NULL, NULL);
    work(f);
    answer_all(f);
    report(f, 6001, ATOLL_EGRESS_CLOSED, "b.example", "default");
    work(f);
    assert_true(list(f, 0, 2));
    assert_int_equal(f->last_line, 6000);
    assert_memory_equal(f->listed, "6001 b.example", 14);
}

static void follow_one(void *arg, const struct atoll_connection *c)
{
    assert_string_equal(c->end, "denied");
    ((struct fixture *)arg)->followed++;
}

static void follow_ended(void *arg)
{
    ((struct fixture *)arg)->ended++;
}

static void followers_get_new_lines(void **state)
{
    struct fixture *f = *state;
    struct atoll_connections_follower *follower;
    struct atoll_error err;

    f->boxes[0].phase = ATOLL_PHASE_RUNNING;
    connect_all(f);
    assert_int_equal(
        atoll_connections_follow(&engine, "box0", follow_one, follow_ended, f, &follower, &err), 0);
    report(f, 1, ATOLL_EGRESS_DENIED, "a.example", "default");
    work(f);
    assert_int_equal(f->followed, 1);
    assert_int_equal(f->ended, 0);
    atoll_network_detach(&f->boxes[0]);
    assert_int_equal(f->ended, 1);
    follower = atoll_connections_unfollow(follower);
    assert_true(atoll_connections_follow(&engine, "box0", follow_one, follow_ended, f, &follower,
                                         &err) < 0);
}

static void set_secret(const char *value)
{
    const struct atoll_secret_request request = {.tenant = "default",
                                                 .name = "key",
                                                 .value = value,
                                                 .value_len = strlen(value),
                                                 .how = ATOLL_SECRET_REPLACE};
    struct atoll_secret_view view;
    struct atoll_error err;

    assert_true(atoll_secrets_put(engine.secrets, &request, &view, &err) >= 0);
}

/* Secrets come before the first policy that names one, once for a tenant, and when they change. */
static void secrets_come_before_policies(void **state)
{
    static const char policy[] = "{\"transforms\":[{\"domain\":\"example.org\",\"headers\":"
                                 "{\"x\":\"${secret.key}\"}}]}";
    struct fixture *f = *state;
    char dir[] = "/tmp/atoll-test-link-XXXXXX";
    struct atoll_error err;
    int dir_fd;

    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(atoll_store_open_sqlite(dir_fd, &engine.config.store, &err), 0);
    assert_int_equal(atoll_secrets_new(engine.config.store, 10, &engine.secrets, &err), 0);
    atoll_network_watch_secrets(engine.network);
    set_secret("one");

    connect_all(f); /* their policies name no secret */
    assert_int_equal(f->count, 4);
    set_secret("two");
    f->boxes[0].options.network_json = f->boxes[1].options.network_json = policy;
    atoll_network_attach(&f->boxes[0], NULL, NULL);
    atoll_network_attach(&f->boxes[1], NULL, NULL);
    work(f);
    expect(f, 4, ATOLL_EGRESS_SECRETS, "{\"key\":\"two\"}", 0);
    expect(f, 5, ATOLL_EGRESS_POLICY, "box0", 0);
    expect(f, 6, ATOLL_EGRESS_POLICY, "box1", 0);
    answer_all(f);
    set_secret("three");
    work(f);
    expect(f, 7, ATOLL_EGRESS_SECRETS, "{\"key\":\"three\"}", 0);
    assert_int_equal(f->count, 8);
    answer_all(f);

    disconnect(f);
    work(f);
    set_secret("four");
    work(f);
    answer_all(f);
    expect(f, 0, ATOLL_EGRESS_HELLO, "", 0);
    expect(f, 1, ATOLL_EGRESS_SECRETS, "{\"key\":\"four\"}", 0);
    assert_int_equal(f->count, 4);
    assert_int_equal(f->seen[2].type, ATOLL_EGRESS_PUT);
    assert_int_equal(f->seen[3].type, ATOLL_EGRESS_PUT);
    answer_all(f);
    assert_int_equal(atoll_secrets_remove(engine.secrets, "default", "key", &err), 0);
    work(f);
    expect(f, f->count - 1, ATOLL_EGRESS_SECRETS, "{}", 0);

    atoll_network_forget_secrets(engine.network);
    engine.secrets = atoll_secrets_free(engine.secrets);
    engine.config.store = atoll_store_close(engine.config.store);
    (void)close(dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
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
        cmocka_unit_test_setup_teardown(connections_are_listed_by_their_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_journal_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(secrets_come_before_policies, setup, teardown),
        cmocka_unit_test_setup_teardown(followers_get_new_lines, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
