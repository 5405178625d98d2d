#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "loop/offload.h"
#include "proto/frame.h"

/* A tenant's sandbox. */
static const struct atoll_lane lane = {"tenant", "sandbox"};

struct rig {
    struct atoll_loop *loop;
    struct atoll_offload *offload;
    int ready;
};

static void rig_open(struct rig *r)
{
    struct atoll_error err;

    *r = (struct rig){0};
    assert_int_equal(atoll_loop_new(&r->loop, &err), 0);
    assert_int_equal(atoll_offload_new(r->loop, &r->offload, &err), 0);
}

static void turn(struct rig *r)
{
    struct atoll_error err;
    assert_int_equal(atoll_loop_step(r->loop, 2000, &err), 0);
}

static void rig_close(struct rig *r)
{
    while (atoll_offload_count(r->offload).held > 0)
        turn(r);
    r->offload = atoll_offload_free(r->offload);
    r->loop = atoll_loop_free(r->loop);
}

static void on_ready(void *arg)
{
    struct rig *r = arg;
    r->ready++;
}

static int memory_file(size_t n)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i += 4096) {
        uint8_t page[4096];
        memset(page, (int)(i / 4096), sizeof(page));
        assert_int_equal(pwrite(fd, page, ATOLL_MIN(n - i, sizeof(page)), (off_t)i),
                         ATOLL_MIN(n - i, sizeof(page)));
    }
    return fd;
}

/* Reads all of it, by workers or at once. */
static size_t read_all(struct rig *r, struct atoll_tenant_file *f, size_t from)
{
    const uint8_t *bytes;
    size_t got = 0;
    ssize_t n;

    while ((n = atoll_tenant_file_read(f, &bytes)) != 0) {
        if (n == -EAGAIN) {
            int before = r->ready;
            while (r->ready == before)
                turn(r);
            continue;
        }
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], (uint8_t)((from + got + (size_t)i) / 4096));
        got += (size_t)n;
    }
    return got;
}

static void files_are_read_by_workers(void **state)
{
    const size_t sizes[] = {0, 1, 4096, 300 * 1024, 3 * 1024 * 1024 + 17};
    struct atoll_tenant_file *f;
    struct rig r;

    (void)state;
    rig_open(&r);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sizes); i++)
        for (int at_once = 0; at_once < 2; at_once++) {
            assert_int_equal(atoll_tenant_file_open(at_once ? NULL : r.offload, &lane,
                                                    memory_file(sizes[i]), &f),
                             0);
            atoll_tenant_file_on_ready(f, on_ready, &r);
            assert_int_equal(read_all(&r, f, 0), sizes[i]);
            assert_null(atoll_tenant_file_close(f));
        }
    assert_int_equal(atoll_tenant_file_open(r.offload, &lane, memory_file(2 * 1024 * 1024), &f), 0);
    atoll_tenant_file_on_ready(f, on_ready, &r);
    atoll_tenant_file_cut(f, 5000, 1000 * 1000);
    assert_int_equal(read_all(&r, f, 5000), 1000 * 1000);
    assert_null(atoll_tenant_file_close(f));
    rig_close(&r);
}

static void writes_come_in_order_and_stop_the_writer(void **state)
{
    static uint8_t piece[64 * 1024];
    struct atoll_tenant_file *f;
    struct rig r;
    int fd, copy, full = 0, s;
    uint8_t byte;

    (void)state;
    rig_open(&r);
    fd = memory_file(0);
    copy = dup(fd);
    assert_int_equal(atoll_tenant_file_open(r.offload, &lane, fd, &f), 0);
    atoll_tenant_file_on_ready(f, on_ready, &r);
    for (int i = 0; i < 200; i++) {
        memset(piece, i, sizeof(piece));
        s = atoll_tenant_file_write(f, piece, sizeof(piece));
        assert_in_range(s, 0, 1);
        for (int before = r.ready; s == 1 && r.ready == before; full++)
            turn(&r);
    }
    while ((s = atoll_tenant_file_flush(f)) == 1)
        turn(&r);
    assert_int_equal(s, 0);
    assert_null(atoll_tenant_file_close(f));
    assert_int_equal(lseek(copy, 0, SEEK_END), 200 * (off_t)sizeof(piece));
    for (int i = 0; i < 200; i++) {
        assert_int_equal(pread(copy, &byte, 1, i * (off_t)sizeof(piece)), 1);
        assert_int_equal(byte, i);
    }
    (void)close(copy);
    rig_close(&r);
}

static void a_failed_write_stays_failed(void **state)
{
    struct atoll_tenant_file *f;
    struct rig r;
    int s;

    (void)state;
    rig_open(&r);
    assert_int_equal(
        atoll_tenant_file_open(r.offload, &lane, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &f),
        0);
    atoll_tenant_file_on_ready(f, on_ready, &r);
    assert_int_equal(atoll_tenant_file_write(f, "x", 1), 0);
    while ((s = atoll_tenant_file_flush(f)) == 1)
        turn(&r);
    assert_int_equal(s, -EBADF);
    assert_int_equal(atoll_tenant_file_write(f, "x", 1), -EBADF);
    assert_null(atoll_tenant_file_close(f));
    rig_close(&r);
}

static void a_finished_file_is_closed(void **state)
{
    static const size_t sizes[] = {0, 1, 600 * 1024};
    static uint8_t bytes[600 * 1024];
    struct atoll_tenant_file *f;
    struct rig r;
    int fd, copy, s;

    (void)state;
    rig_open(&r);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sizes); i++)
        for (int at_once = 0; at_once < 2; at_once++) {
            fd = memory_file(0);
            copy = dup(fd);
            assert_int_equal(atoll_tenant_file_open(at_once ? NULL : r.offload, &lane, fd, &f), 0);
            atoll_tenant_file_on_ready(f, on_ready, &r);
            assert_in_range(atoll_tenant_file_write(f, bytes, sizes[i]), 0, 1);
            while ((s = atoll_tenant_file_finish(f)) == 1)
                turn(&r);
            assert_int_equal(s, 0);
            assert_int_equal(fcntl(fd, F_GETFD), -1);
            assert_int_equal(lseek(copy, 0, SEEK_END), sizes[i]);
            assert_null(atoll_tenant_file_close(f));
            (void)close(copy);
        }
    rig_close(&r);
}

static void only_regular_files_are_taken(void **state)
{
    struct atoll_tenant_file *f;
    struct rig r;
    int ends[2];
    char byte;

    (void)state;
    rig_open(&r);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(atoll_tenant_file_open(r.offload, &lane, ends[1], &f), -EINVAL);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* it is closed all the same */
    (void)close(ends[0]);
    rig_close(&r);
}

static void a_tenant_has_its_share(void **state)
{
    const struct atoll_lane other = {"other", "sandbox2"};
    struct atoll_tenant_file *files[ATOLL_OFFLOAD_MAX];
    struct atoll_error err;
    struct rig r;
    size_t n = 0;

    (void)state;
    rig_open(&r);
    while (n < ATOLL_OFFLOAD_MAX && atoll_offload_check(r.offload, &lane, &err) == 0)
        assert_int_equal(
            atoll_tenant_file_open(r.offload, &lane, open("/proc/self/exe", O_RDONLY), &files[n++]),
            0);
    assert_int_equal(n, ATOLL_OFFLOAD_MAX);
    assert_true(atoll_offload_check(r.offload, &lane, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(atoll_offload_check(r.offload, &other, &err), 0);
    while (n > 0)
        assert_null(atoll_tenant_file_close(files[--n]));
    rig_close(&r);
}

/* A TCP connection whose peer takes nothing, with bytes on their way and an hour to wait for them. */
static int lingering_socket(int *ret_peer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger hour = {1, 3600};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static uint8_t bytes[65536];

    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, len), 0);
    *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_peer >= 0);
    (void)close(listener);
    assert_int_equal(atoll_fd_set_nonblock(fd, true), 0);
    while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
        ;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
    return fd;
}

static void a_socket_that_lingers_does_not(void **state)
{
    struct rig r;
    int peer;

    (void)state;
    rig_open(&r);
    atoll_offload_close(r.offload, &lane, lingering_socket(&peer));
    while (atoll_offload_count(r.offload).held > 0)
        turn(&r); /* the hour would be the test's time limit */
    (void)close(peer);
    rig_close(&r);
}

static void discard(void *arg, int fd)
{
    ++*(int *)arg;
    (void)close(fd);
}

static int no_frame(void *arg, struct atoll_frame *frame)
{
    (void)arg;
    (void)frame;
    return 0;
}

/* As many as the kernel lets pass in one message: none is left to the kernel to close. */
static void descriptors_nobody_asked_for_are_discarded(void **state)
{
    union {
        char buf[CMSG_SPACE(200 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {"x", 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    struct atoll_channel channel;
    int pair[2], fds[200], discarded = 0;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++)
        fds[i] = pair[1];
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    assert_int_equal(sendmsg(pair[1], &msg, 0), 1);
    assert_int_equal(atoll_channel_init(&channel, pair[0], 4096), 0);
    channel.discard = discard;
    channel.discard_arg = &discarded;
    assert_int_equal(atoll_channel_receive(&channel, no_frame, NULL), -EBADMSG);
    assert_int_equal(discarded, 200);
    atoll_channel_done(&channel);
    assert_int_equal(discarded, 201); /* and the connection */
    (void)close(pair[1]);
}

struct blocked {
    struct atoll_job job;
    atomic_bool *gate;
    atomic_int *running, *most;
    int *ended;
};

static void run_blocked(struct atoll_job *job)
{
    struct blocked *b = ATOLL_CONTAINER_OF(job, struct blocked, job);
    int now = atomic_fetch_add(b->running, 1) + 1;

    if (now > atomic_load(b->most))
        atomic_store(b->most, now);
    while (!atomic_load(b->gate))
        (void)usleep(1000);
    (void)atomic_fetch_sub(b->running, 1);
}

static void blocked_ended(struct atoll_job *job)
{
    ++*ATOLL_CONTAINER_OF(job, struct blocked, job)->ended;
}

static void of_one_lane_one_runs(void **state)
{
    atomic_bool shut = false, open = true;
    atomic_int running = 0, most = 0, others = 0, others_most = 0;
    struct blocked jobs[20], other;
    struct atoll_workers *w;
    struct atoll_loop *loop;
    struct atoll_error err;
    int ended = 0, other_ended = 0;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(atoll_workers_new(loop, 8, 100, &w, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(jobs); i++) {
        jobs[i] = (struct blocked){{.run = run_blocked, .done = blocked_ended, .lane = "sandbox"},
                                   &shut,
                                   &running,
                                   &most,
                                   &ended};
        assert_int_equal(atoll_workers_submit(w, &jobs[i].job, &err), 0);
    }
    other = (struct blocked){{.run = run_blocked, .done = blocked_ended, .lane = "sandbox2"},
                             &open,
                             &others,
                             &others_most,
                             &other_ended};
    assert_int_equal(atoll_workers_submit(w, &other.job, &err), 0);
    while (other_ended == 0)
        assert_int_equal(atoll_loop_step(loop, 5000, &err), 0);
    assert_int_equal(ended, 0);
    atomic_store(&shut, true);
    while (ended < (int)ATOLL_ARRAY_LEN(jobs))
        assert_int_equal(atoll_loop_step(loop, 5000, &err), 0);
    assert_int_equal(atomic_load(&most), 1);
    assert_null(atoll_workers_free(w));
    assert_null(atoll_loop_free(loop));
}

/* The watchdog of the loop. */

static struct atoll_loop_turn slowest;

static void measured(void *arg, const struct atoll_loop_turn *measured_turn)
{
    (void)arg;
    if (measured_turn->us > slowest.us)
        slowest = *measured_turn;
}

static void dawdle(void *arg)
{
    (void)arg;
    atoll_loop_note("GET /slow");
    (void)usleep(30000);
}

static void hurry(void *arg)
{
    ++*(int *)arg;
}

static void a_slow_callback_is_named(void **state)
{
    struct atoll_timer slow = {0}, quick = {0};
    struct atoll_loop *loop;
    struct atoll_error err;
    int ran = 0;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    atoll_loop_measure(loop, measured, NULL);
    atoll_timer_set(&slow, loop, 0, dawdle, NULL);
    atoll_timer_set(&quick, loop, 1, hurry, &ran);
    while (ran == 0)
        assert_int_equal(atoll_loop_step(loop, 1000, &err), 0);
    assert_true(slowest.us >= 30000 && slowest.worst_us >= 30000);
    assert_non_null(strstr(slowest.file, "test_offload.c"));
    assert_string_equal(slowest.fn, "dawdle");
    assert_string_equal(slowest.note, "GET /slow");
    assert_null(atoll_loop_free(loop));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_by_workers),
        cmocka_unit_test(writes_come_in_order_and_stop_the_writer),
        cmocka_unit_test(a_failed_write_stays_failed),
        cmocka_unit_test(a_finished_file_is_closed),
        cmocka_unit_test(only_regular_files_are_taken),
        cmocka_unit_test(a_tenant_has_its_share),
        cmocka_unit_test(a_socket_that_lingers_does_not),
        cmocka_unit_test(descriptors_nobody_asked_for_are_discarded),
        cmocka_unit_test(of_one_lane_one_runs),
        cmocka_unit_test(a_slow_callback_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
