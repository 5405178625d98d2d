/* The asking side of a connection, against a peer that behaves and one that does not. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "proto/agent_proto.h"
#include "provider/rpc.h"
#include "provider/spawn_client.h"
#include "test.h"

struct fixture {
    struct atoll_loop *loop;
    struct atoll_rpc *rpc;
    struct atoll_channel peer;
    int events, losses, answers, parts;
    struct atoll_error last;
    bool close_on_answer, paused, silent;
    int silences;
    uint16_t late;
};

static int decode_error(const struct atoll_frame *frame, struct atoll_error *ret,
                        struct atoll_error *err)
{
    struct atoll_am_error msg;
    int r = atoll_msg_decode(&atoll_am_error_desc, frame->payload, frame->len, &msg, err);

    if (r == 0)
        (void)atoll_fail(ret, (enum atoll_error_kind)msg.kind, msg.errnum, "%s", msg.text);
    return r;
}

static const uint16_t lists[] = {ATOLL_AGENT_FILE_LIST, 0};

static int64_t limit_ms(uint16_t type)
{
    return type == ATOLL_AGENT_USAGE        ? 1000
           : type == ATOLL_AGENT_EXEC_STDIN ? ATOLL_LIMIT_SILENCE
                                            : 60000;
}

static const struct atoll_rpc_protocol protocol = {.reply = ATOLL_AGENT_REPLY,
                                                   .part = ATOLL_AGENT_PART,
                                                   .error = ATOLL_AGENT_ERROR,
                                                   .lists = lists,
                                                   .decode_error = decode_error,
                                                   .silence_ms = 3000,
                                                   .limit_ms = limit_ms,
                                                   .ping = ATOLL_AGENT_PING};

static int on_event(void *arg, struct atoll_frame *frame)
{
    (void)frame;
    ((struct fixture *)arg)->events++;
    return 0;
}

static void on_lost(void *arg, const char *why)
{
    struct fixture *f = arg;
    (void)why;
    f->losses++;
    f->rpc = atoll_rpc_close(f->rpc);
}

static bool expects(const void *arg)
{
    return !((const struct fixture *)arg)->paused;
}

static bool heartbeat(const void *arg)
{
    (void)arg;
    return false;
}

static void on_silence(void *arg, bool silent)
{
    struct fixture *f = arg;

    f->silent = silent;
    f->silences++;
}

static void on_late(void *arg, uint16_t type, const struct atoll_frame *frame)
{
    (void)frame;
    ((struct fixture *)arg)->late = type;
}

static const struct atoll_rpc_events events = {on_event,  on_lost,    expects,
                                               heartbeat, on_silence, on_late};

static void on_answer(void *arg, const struct atoll_reply *answer)
{
    struct fixture *f = arg;

    if (answer->more) {
        f->parts++;
        return;
    }
    f->answers++;
    f->last = answer->error ? *answer->error : (struct atoll_error){0};
    if (f->close_on_answer)
        f->rpc = atoll_rpc_close(f->rpc);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct atoll_error err;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(atoll_loop_new(&f->loop, &err), 0);
    assert_int_equal(atoll_rpc_open(f->loop, pair[0], &protocol, &events, f, &f->rpc, &err), 0);
    assert_int_equal(atoll_channel_init(&f->peer, pair[1], 1024 * 1024), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->rpc = atoll_rpc_close(f->rpc);
    atoll_channel_done(&f->peer);
    f->loop = atoll_loop_free(f->loop);
    free(f);
    return 0;
}

static void step(struct fixture *f)
{
    struct atoll_error err;
    assert_int_equal(atoll_loop_step(f->loop, 50, &err), 0);
}

static void ask(struct fixture *f)
{
    struct atoll_error err;
    assert_int_equal(atoll_rpc_ask(f->rpc, ATOLL_AGENT_USAGE, NULL, NULL, on_answer, f, &err), 0);
}

static int take_id(void *arg, struct atoll_frame *frame)
{
    *(uint32_t *)arg = frame->id;
    return 0;
}

static uint32_t receive_id(struct fixture *f)
{
    uint32_t id = 0;
    assert_int_equal(atoll_channel_receive(&f->peer, take_id, &id), 0);
    return id;
}

static void answer(struct fixture *f, uint16_t type, uint32_t id, const struct atoll_msg_desc *desc,
                   const void *msg)
{
    assert_int_equal(atoll_channel_send(&f->peer, type, id, desc, msg, NULL, 0), 0);
    assert_int_equal(atoll_channel_flush(&f->peer), 1);
    step(f);
}

static void parts_then_one_reply(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    uint32_t id;

    assert_int_equal(atoll_rpc_ask(f->rpc, ATOLL_AGENT_FILE_LIST, NULL, NULL, on_answer, f, &err),
                     0);
    id = receive_id(f);
    assert_int_not_equal(id, 0);
    answer(f, ATOLL_AGENT_PART, id, NULL, NULL);
    answer(f, ATOLL_AGENT_PART, id, NULL, NULL);
    answer(f, ATOLL_AGENT_REPLY, id, NULL, NULL);
    assert_int_equal(f->parts, 2);
    assert_int_equal(f->answers, 1);
    /* A second reply is one nobody asked for: the connection ends. */
    answer(f, ATOLL_AGENT_REPLY, id, NULL, NULL);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->losses, 1);
}

static int take_descriptor(void *arg, struct atoll_frame *frame)
{
    *(int *)arg = frame->nfds == 1 ? frame->fds[0] : ATOLL_NO_FD;
    return 0;
}

static void a_request_carries_descriptors(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    int sent[2], got = ATOLL_NO_FD;
    char byte = 0;

    assert_int_equal(pipe2(sent, O_CLOEXEC), 0);
    assert_int_equal(
        atoll_rpc_ask_with(f->rpc, ATOLL_AGENT_USAGE, NULL, NULL, &sent[1], 1, on_answer, f, &err),
        0);
    assert_int_equal(close(sent[1]), 0);
    assert_int_equal(atoll_channel_receive(&f->peer, take_descriptor, &got), 0);
    assert_int_equal(write(got, "x", 1), 1);
    assert_int_equal(read(sent[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(close(got), 0);
    assert_int_equal(read(sent[0], &byte, 1), 0); /* no other copy is left */
    assert_int_equal(close(sent[0]), 0);
}

/* Its callback would take a part for the whole, and be called again for what it has freed. */
static void parts_are_for_lists_only(void **state)
{
    struct fixture *f = *state;
    uint32_t id;

    ask(f);
    id = receive_id(f);
    answer(f, ATOLL_AGENT_PART, id, NULL, NULL);
    assert_int_equal(f->parts, 0);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->last.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(f->losses, 1);
}

/* atoll-spawn is asked to remove as many sandboxes as a host can have, at once. */
static void spawn_takes_a_removal_of_each_sandbox(void **state)
{
    struct fixture *f = *state;
    struct atoll_sm_remove msg = {.id = "abcdefghijklmnopqrstuvwxyz"};
    struct atoll_rpc *spawn;
    struct atoll_error err;
    int pair[2], answers = f->answers;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(
        atoll_rpc_open(f->loop, pair[0], &atoll_spawn_protocol, &events, f, &spawn, &err), 0);
    for (int i = 0; i < 57344; i++)
        assert_int_equal(atoll_rpc_ask(spawn, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg,
                                       on_answer, f, &err),
                         0);
    assert_int_equal(f->answers, answers);
    (void)atoll_rpc_close(spawn);
    (void)close(pair[1]);
}

static void errors_arrive_with_their_kind(void **state)
{
    struct fixture *f = *state;
    struct atoll_am_error msg = {ATOLL_ERR_NOT_FOUND, ENOENT, "no such thing"};

    ask(f);
    answer(f, ATOLL_AGENT_ERROR, receive_id(f), &atoll_am_error_desc, &msg);
    assert_int_equal(f->last.kind, ATOLL_ERR_NOT_FOUND);
    assert_string_equal(f->last.text, "no such thing");
}

static void everybody_is_told_when_the_peer_goes(void **state)
{
    struct fixture *f = *state;

    ask(f);
    ask(f);
    ask(f);
    atoll_channel_done(&f->peer);
    f->peer.fd = ATOLL_NO_FD;
    step(f);
    assert_int_equal(f->answers, 3);
    assert_int_equal(f->last.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(f->losses, 1);
}

static void closing_inside_a_callback_is_fine(void **state)
{
    struct fixture *f = *state;

    f->close_on_answer = true;
    ask(f);
    ask(f);
    answer(f, ATOLL_AGENT_REPLY, receive_id(f), NULL, NULL);
    assert_null(f->rpc);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->losses, 0);
}

static int count_frame(void *arg, struct atoll_frame *frame)
{
    *(size_t *)arg += frame->type != ATOLL_AGENT_PING; /* comes when the others take long */
    return 0;
}

static void what_comes_in_does_not_hold_up_what_goes_out(void **state)
{
    static const uint8_t zeros[ATOLL_AGENT_DATA_MAX];
    struct fixture *f = *state;
    struct atoll_am_write msg = {.data = {zeros, sizeof(zeros)}};
    struct atoll_error err;
    size_t got = 0;

    for (int i = 0; i < 16; i++)
        assert_int_equal(atoll_rpc_ask(f->rpc, ATOLL_AGENT_FILE_WRITE, &atoll_am_write_desc, &msg,
                                       on_answer, f, &err),
                         0);
    answer(f, ATOLL_AGENT_EXEC_OUTPUT, 0, NULL, NULL); /* while the socket is full */
    assert_int_equal(f->events, 1);
    for (int i = 0; i < 1000 && got < 16; i++) {
        assert_int_equal(atoll_channel_receive(&f->peer, count_frame, &got), 0);
        step(f);
    }
    assert_int_equal(got, 16);
}

static void numbers_are_not_reused_at_once(void **state)
{
    struct fixture *f = *state;
    uint32_t first, second;

    ask(f);
    first = receive_id(f);
    answer(f, ATOLL_AGENT_REPLY, first, NULL, NULL);
    ask(f);
    second = receive_id(f);
    assert_int_not_equal(first, second);
}

static void garbage_ends_the_connection(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(write(f->peer.fd, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), 12);
    step(f);
    assert_int_equal(f->losses, 1);
}

/* Runs the loop until then, or for so long. */
static void run_until(struct fixture *f, const int *count, int value, int64_t most_ms)
{
    int64_t until = atoll_clock_ms() + most_ms;

    while (*count != value && atoll_clock_ms() < until)
        step(f);
}

static void ask_type(struct fixture *f, uint16_t type)
{
    struct atoll_error err;
    assert_int_equal(atoll_rpc_ask(f->rpc, type, NULL, NULL, on_answer, f, &err), 0);
}

struct frames {
    uint32_t ids[16];
    uint16_t types[16];
    size_t count;
};

static int take_frame(void *arg, struct atoll_frame *frame)
{
    struct frames *all = arg;

    all->ids[all->count] = frame->id;
    all->types[all->count++] = frame->type;
    return 0;
}

static void receive_all(struct fixture *f, struct frames *all)
{
    int r = atoll_channel_receive(&f->peer, take_frame, all);
    assert_true(r == 0 || r == -EAGAIN);
}

static void a_silent_peer_fails_requests_and_is_heard_again(void **state)
{
    struct fixture *f = *state;
    struct frames sent = {0};
    struct atoll_error err;

    ask_type(f, ATOLL_AGENT_FILE_STAT);
    ask_type(f, ATOLL_AGENT_EXEC_STDIN);
    assert_int_equal(atoll_rpc_silent_ms(f->rpc), 0);
    run_until(f, &f->answers, 2, 20000);
    assert_int_equal(f->answers, 2);
    assert_int_equal(f->last.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_true(f->silent);
    assert_true(atoll_rpc_silent_ms(f->rpc) >= 3000);
    assert_int_equal(atoll_rpc_ask(f->rpc, ATOLL_AGENT_FILE_STAT, NULL, NULL, on_answer, f, &err),
                     -ETIMEDOUT);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    /* Both and a ping arrived; the late answers do not reach those who asked. */
    receive_all(f, &sent);
    assert_int_equal(sent.count, 3);
    assert_int_equal(sent.types[2], ATOLL_AGENT_PING);
    for (size_t i = 0; i < sent.count; i++)
        answer(f, ATOLL_AGENT_REPLY, sent.ids[i], NULL, NULL);
    assert_false(f->silent);
    assert_int_equal(f->silences, 2);
    assert_int_equal(f->answers, 2);
    assert_int_equal(f->late, ATOLL_AGENT_EXEC_STDIN);
    assert_int_equal(f->losses, 0);
    ask(f);
    answer(f, ATOLL_AGENT_REPLY, receive_id(f), NULL, NULL);
    assert_int_equal(f->answers, 3);
    assert_int_equal(f->last.kind, ATOLL_ERR_NONE);
}

static void a_peer_that_answers_pings_is_not_silent(void **state)
{
    struct fixture *f = *state;
    int64_t until = atoll_clock_ms() + 6000;

    ask_type(f, ATOLL_AGENT_EXEC_STDIN);
    while (atoll_clock_ms() < until) {
        struct frames sent = {0};
        receive_all(f, &sent);
        for (size_t i = 0; i < sent.count; i++)
            if (sent.types[i] == ATOLL_AGENT_PING)
                answer(f, ATOLL_AGENT_REPLY, sent.ids[i], NULL, NULL);
        step(f);
    }
    assert_int_equal(f->silences, 0);
    assert_int_equal(f->answers, 0); /* the command just does not read */
}

static void one_request_has_its_own_limit(void **state)
{
    struct fixture *f = *state;

    ask(f);
    run_until(f, &f->answers, 1, 10000);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->last.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(f->silences, 0);
}

static void a_paused_peer_is_not_silent(void **state)
{
    struct fixture *f = *state;

    f->paused = true;
    ask_type(f, ATOLL_AGENT_EXEC_STDIN);
    run_until(f, &f->answers, 1, 5000);
    assert_int_equal(f->answers, 0);
    assert_int_equal(f->silences, 0);
}

static void closing_from_a_deadline_is_fine(void **state)
{
    struct fixture *f = *state;

    f->close_on_answer = true;
    ask(f);
    ask(f);
    run_until(f, &f->answers, 1, 10000);
    assert_int_equal(f->answers, 1);
    assert_null(f->rpc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_then_one_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_carries_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_are_for_lists_only, setup, teardown),
        cmocka_unit_test_setup_teardown(spawn_takes_a_removal_of_each_sandbox, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_arrive_with_their_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(everybody_is_told_when_the_peer_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_inside_a_callback_is_fine, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_in_does_not_hold_up_what_goes_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(numbers_are_not_reused_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_ends_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(a_silent_peer_fails_requests_and_is_heard_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_answers_pings_is_not_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(one_request_has_its_own_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_paused_peer_is_not_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_from_a_deadline_is_fine, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
