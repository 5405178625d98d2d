/*
 * Frames on a socket: whole ones only, with their descriptors, within bounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "proto/agent_proto.h"

struct pair {
    struct atoll_channel a, b;
    int raw; /* instead of a: the bare socket */
};

static int setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    p->raw = fds[0];
    assert_int_equal(atoll_channel_init(&p->a, dup(fds[0]), 4096), 0);
    assert_int_equal(atoll_channel_init(&p->b, fds[1], 4096), 0);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;

    atoll_channel_done(&p->a);
    atoll_channel_done(&p->b);
    (void)close(p->raw);
    free(p);
    return 0;
}

/* What fn saw. */
struct seen {
    int count;
    uint16_t type;
    uint32_t id;
    uint32_t handle;
    int fd;
    int answer; /* what fn returns */
};

static int see(void *arg, struct atoll_frame *frame)
{
    struct seen *s = arg;
    struct atoll_am_handle msg = {0};

    if (s->answer < 0)
        return s->answer;
    assert_int_equal(
        atoll_msg_decode(&atoll_am_handle_desc, frame->payload, frame->len, &msg, NULL), 0);
    s->count++;
    s->type = frame->type;
    s->id = frame->id;
    s->handle = msg.handle;
    for (size_t i = 0; i < frame->nfds; i++) {
        if (s->fd > 0)
            (void)close(s->fd);
        s->fd = frame->fds[i];
    }
    return s->answer;
}

static void send_handle(struct atoll_channel *c, uint32_t id, uint32_t handle, const int *fds,
                        size_t nfds)
{
    struct atoll_am_handle msg = {handle};
    assert_int_equal(atoll_channel_send(c, 7, id, &atoll_am_handle_desc, &msg, fds, nfds), 0);
}

static void frames_arrive_in_order(void **state)
{
    struct pair *p = *state;
    struct seen s = {0};

    for (uint32_t i = 1; i <= 20; i++)
        send_handle(&p->a, i, i * 10, NULL, 0);
    assert_int_equal(atoll_channel_flush(&p->a), 1);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0);
    assert_int_equal(s.count, 20);
    assert_int_equal(s.type, 7);
    assert_int_equal(s.id, 20);
    assert_int_equal(s.handle, 200);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0); /* nothing there */
    assert_int_equal(s.count, 20);
}

static void a_frame_in_single_bytes_is_one_frame(void **state)
{
    struct pair *p = *state;
    struct seen s = {0};
    size_t n;

    send_handle(&p->a, 3, 99, NULL, 0);
    n = atoll_channel_pending(&p->a);
    assert_int_equal(n, ATOLL_FRAME_HEADER + 4);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s.count, 0);
        assert_int_equal(write(p->raw, atoll_buf_head(&p->a.out) + i, 1), 1);
        assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0);
    }
    assert_int_equal(s.count, 1);
    assert_int_equal(s.handle, 99);
    atoll_buf_clear(&p->a.out);
}

static void descriptors_come_with_their_frame(void **state)
{
    struct pair *p = *state;
    struct seen s = {0};
    int pipes[2][2];
    char byte;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
        send_handle(&p->a, 1, 1, NULL, 0);
        send_handle(&p->a, 2, 2, &pipes[i][0], 1);
        (void)close(pipes[i][0]); /* the channel has its own copy */
    }
    assert_int_equal(atoll_channel_flush(&p->a), 1);
    while (s.count < 4)
        assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0);
    assert_int_equal(write(pipes[1][1], "z", 1), 1);
    assert_int_equal(read(s.fd, &byte, 1), 1);
    assert_int_equal(byte, 'z');
    assert_int_equal(fcntl(s.fd, F_GETFD), FD_CLOEXEC);
    (void)close(s.fd);
    (void)close(pipes[0][1]);
    (void)close(pipes[1][1]);
}

static void a_full_queue_takes_nothing_of_a_frame(void **state)
{
    struct pair *p = *state;
    static uint8_t data[5000];
    struct atoll_am_data big = {.data = {data, sizeof(data)}};
    struct seen s = {0};

    send_handle(&p->a, 1, 1, NULL, 0);
    assert_int_equal(atoll_channel_send(&p->a, 7, 2, &atoll_am_data_desc, &big, NULL, 0), -ENOBUFS);
    send_handle(&p->a, 3, 3, NULL, 0);
    assert_int_equal(atoll_channel_flush(&p->a), 1);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.handle, 3);
}

static void a_receiver_that_stops_gets_the_frame_again(void **state)
{
    struct pair *p = *state;
    struct seen s = {.answer = -EAGAIN};
    size_t held;

    for (uint32_t i = 1; i <= 3; i++)
        send_handle(&p->a, i, i, NULL, 0);
    assert_int_equal(atoll_channel_flush(&p->a), 1);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), -EAGAIN);
    held = atoll_buf_size(&p->b.in);
    /* Meanwhile more comes; it stays in the socket. */
    send_handle(&p->a, 4, 4, NULL, 0);
    assert_int_equal(atoll_channel_flush(&p->a), 1);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), -EAGAIN);
    assert_int_equal(atoll_buf_size(&p->b.in), held);
    s.answer = 0;
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0);
    assert_int_equal(s.count, 3);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), 0);
    assert_int_equal(s.count, 4);
}

static void garbage_and_the_end_are_told_apart(void **state)
{
    struct pair *p = *state;
    struct seen s = {0};
    /* four gigabytes of payload; nine descriptors; one descriptor that did not come */
    static const uint8_t long_payload[12] = {255, 255, 255, 255, 1, 0, 0, 0, 1, 0, 0, 0};
    static const uint8_t many_fds[12] = {0, 0, 0, 0, 1, 0, 9, 0, 1, 0, 0, 0};
    static const uint8_t absent_fd[12] = {0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0};
    const uint8_t *const bad[] = {long_payload, many_fds, absent_fd};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_int_equal(write(p->raw, bad[i], 12), 12);
        assert_int_equal(atoll_channel_receive(&p->b, see, &s), -EBADMSG);
        assert_int_equal(atoll_channel_receive(&p->b, see, &s), -EBADMSG); /* and stays so */
        (void)teardown(state);
        (void)setup(state);
        p = *state;
    }
    assert_int_equal(s.count, 0);
    assert_int_equal(shutdown(p->raw, SHUT_RDWR), 0);
    assert_int_equal(atoll_channel_receive(&p->b, see, &s), -EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
        TEST(frames_arrive_in_order),
        TEST(a_frame_in_single_bytes_is_one_frame),
        TEST(descriptors_come_with_their_frame),
        TEST(a_full_queue_takes_nothing_of_a_frame),
        TEST(a_receiver_that_stops_gets_the_frame_again),
        TEST(garbage_and_the_end_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
