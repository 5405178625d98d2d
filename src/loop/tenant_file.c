#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "loop/offload_internal.h"

#define PIECE_BYTES ((size_t)256 * 1024)
/* Gathered before it is written, and gathered at most while a worker writes. */
#define GATHER_BYTES ((size_t)256 * 1024)
#define GATHER_MAX ((size_t)512 * 1024)

/* A turn waits only for a client that takes WAIT_MS at most for WAIT_BYTES, and ends at its first wait
 * after TURN_MS. */
#define RECEIVE_BYTES ((size_t)64 * 1024)
#define WAIT_BYTES ((uint64_t)64 * 1024)
#define WAIT_MS 5
#define TURN_MS 50

struct atoll_tenant_file {
    struct atoll_job job; /* the one under way while busy */
    struct atoll_offload *offload;
    struct atoll_lane lane;
    int fd; /* owned */
    struct stat st;
    bool busy;       /* a worker has the fields marked W */
    bool closed;     /* by its owner: what is under way is the last */
    bool waiting;    /* the owner waits for on_ready */
    bool flushing;   /* for all of it */
    bool filled;     /* `back` has what the last job read */
    bool ended;      /* there is nothing behind what was read */
    int error;       /* -errno, for good */
    int64_t result;  /* W: bytes, or -errno */
    uint64_t offset; /* W: of the next byte */
    uint64_t left;   /* reading: of the part; UINT64_MAX until the end */
    /* Reading: what the owner has, and what the worker fills (W). Writing: what is being gathered, and
     * what the worker writes (W). */
    struct atoll_buf front, back;
    uint8_t *tail;  /* W: where to read to */
    size_t want;    /* W: bytes to read */
    bool one_piece; /* reading: not ahead of what is asked for */
    int peer;       /* W, owned: the socket of the client, for turns; -EBADF before the first */
    bool unfit;     /* W: the file system knows no sendfile() */
    uint64_t most;  /* W: of this turn */
    uint64_t moved; /* W: in turns that the owner was not told of */
    void (*ready)(void *arg);
    void *arg;
};

/* On a worker. */

static void run_read(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    do
        f->result = pread(f->fd, f->tail, f->want, (off_t)f->offset);
    while (f->result < 0 && errno == EINTR);
    if (f->result < 0)
        f->result = -errno;
}

static int write_all(struct atoll_tenant_file *f, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t r = pwrite(f->fd, bytes, n, (off_t)f->offset);
        if (r < 0 && errno != EINTR)
            return -errno;
        r = ATOLL_MAX(r, (ssize_t)0);
        bytes += r;
        n -= (size_t)r;
        f->offset += (uint64_t)r;
    }
    return 0;
}

static void run_write(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    f->result = write_all(f, atoll_buf_head(&f->back), atoll_buf_size(&f->back));
    atoll_buf_clear(&f->back);
}

struct turn {
    int64_t end_ms;
    uint64_t before; /* moved when it last waited */
};

static struct turn begin_turn(void)
{
    return (struct turn){.end_ms = atoll_clock_ms() + TURN_MS};
}

/* Waits for the client, if it is a fast one. False ends the turn. */
static bool wait_for_peer(const struct atoll_tenant_file *f, struct turn *turn, short events)
{
    struct pollfd p = {.fd = f->peer, .events = events};

    if (f->moved - turn->before < WAIT_BYTES || atoll_clock_ms() >= turn->end_ms)
        return false;
    turn->before = f->moved;
    return poll(&p, 1, WAIT_MS) > 0;
}

/* The end of the client, or an error of its socket, ends the turn: the loop finds it there again. */
static void run_receive(struct atoll_job *job)
{
    static _Thread_local uint8_t piece[RECEIVE_BYTES];
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);
    struct turn turn = begin_turn();

    run_write(job);
    while (f->result == 0 && f->moved < f->most) {
        size_t want = (size_t)ATOLL_MIN(f->most - f->moved, (uint64_t)sizeof(piece));
        ssize_t n = recv(f->peer, piece, want, MSG_DONTWAIT);
        if (n > 0) {
            f->moved += (uint64_t)n;
            f->result = write_all(f, piece, (size_t)n);
        } else if (n == 0 || errno != EAGAIN || !wait_for_peer(f, &turn, POLLIN)) {
            break;
        }
    }
}

/* As run_receive(); so does the end of the file, which the next read finds. */
static void run_send(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);
    off_t offset = (off_t)f->offset;
    struct turn turn = begin_turn();

    f->result = 0;
    while (f->moved < f->most) {
        ssize_t n = sendfile(f->peer, f->fd, &offset, (size_t)(f->most - f->moved));
        if (n > 0) {
            f->moved += (uint64_t)n;
        } else if (n == 0 || errno != EAGAIN || !wait_for_peer(f, &turn, POLLOUT)) {
            f->unfit = n < 0 && (errno == EINVAL || errno == ENOSYS);
            break;
        }
    }
    f->offset = (uint64_t)offset;
}

static void run_close(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    atoll_offload_close_now(ATOLL_TAKE_FD(f->fd));
}

/* On the loop. */

static void drop_peer(struct atoll_tenant_file *f)
{
    if (f->peer >= 0)
        (void)close(ATOLL_TAKE_FD(f->peer));
}

static void close_done(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    atoll_offload_drop(f->offload, &f->lane);
    atoll_buf_done(&f->front);
    atoll_buf_done(&f->back);
    free(f);
}

static void start_close(struct atoll_tenant_file *f)
{
    drop_peer(f);
    f->job = (struct atoll_job){.run = run_close, .done = close_done};
    atoll_offload_submit(f->offload, &f->lane, &f->job);
}

static void start(struct atoll_tenant_file *f, void (*run)(struct atoll_job *job),
                  void (*done)(struct atoll_job *job))
{
    f->busy = true;
    f->result = -ECANCELED; /* where it never runs */
    f->job = (struct atoll_job){.run = run, .done = done};
    atoll_offload_submit(f->offload, &f->lane, &f->job);
}

/* True when the file is still its owner's. */
static bool settle(struct atoll_tenant_file *f)
{
    f->busy = false;
    if (f->result < 0 && f->error == 0)
        f->error = (int)f->result;
    if (f->closed)
        start_close(f);
    return !f->closed;
}

/* Last in every callback: the owner may close the file in it. */
static void tell(struct atoll_tenant_file *f)
{
    if (f->waiting) {
        f->waiting = false;
        f->ready(f->arg);
    }
}

int atoll_tenant_file_open(struct atoll_offload *o, const struct atoll_lane *lane, int fd,
                           struct atoll_tenant_file **ret)
{
    struct atoll_tenant_file *f;
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        atoll_offload_close(o, lane, fd);
        return -EINVAL;
    }
    f = calloc(1, sizeof(*f));
    if (!f)
        abort(); /* a small fixed object: the daemon is crash-only */
    f->offload = o;
    f->lane = *lane;
    f->fd = fd;
    f->peer = -EBADF;
    f->st = st;
    f->left = UINT64_MAX;
    /* The writer stops at a piece when it is told to; one message may come whole. */
    atoll_buf_init(&f->front, SIZE_MAX / 2);
    atoll_buf_init(&f->back, SIZE_MAX / 2);
    atoll_offload_add(o, lane);
    *ret = f;
    return 0;
}

struct atoll_tenant_file *atoll_tenant_file_close(struct atoll_tenant_file *f)
{
    if (f) {
        f->closed = true;
        f->waiting = false;
        if (!f->busy)
            start_close(f);
    }
    return NULL;
}

int atoll_tenant_file_release(struct atoll_tenant_file *f)
{
    int fd = ATOLL_TAKE_FD(f->fd);

    assert(!f->busy);
    drop_peer(f);
    close_done(&f->job);
    return fd;
}

const struct stat *atoll_tenant_file_stat(const struct atoll_tenant_file *f)
{
    return &f->st;
}

void atoll_tenant_file_on_ready(struct atoll_tenant_file *f, void (*fn)(void *arg), void *arg)
{
    f->ready = fn;
    f->arg = arg;
}

/* Reading. */

void atoll_tenant_file_cut(struct atoll_tenant_file *f, uint64_t offset, uint64_t length)
{
    f->offset = offset;
    f->left = length;
}

static void read_done(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    if (!settle(f))
        return;
    f->filled = true;
    f->ended = f->result <= 0;
    if (!f->ended) {
        atoll_buf_commit(&f->back, (size_t)f->result);
        f->offset += (uint64_t)f->result;
        f->left -= f->left == UINT64_MAX ? 0 : (uint64_t)f->result;
    }
    tell(f);
}

static void read_ahead(struct atoll_tenant_file *f)
{
    if (f->busy || f->filled || f->ended || f->left == 0 || f->error < 0)
        return;
    f->want = (size_t)ATOLL_MIN(f->left, (uint64_t)PIECE_BYTES);
    /* A file that grows is read to its end, but a small one needs no large piece. */
    if ((uint64_t)f->st.st_size > f->offset)
        f->want = (size_t)ATOLL_MIN((uint64_t)f->st.st_size - f->offset, (uint64_t)f->want);
    f->error = atoll_buf_reserve(&f->back, f->want, &f->tail);
    if (f->error == 0)
        start(f, run_read, read_done);
}

ssize_t atoll_tenant_file_peek(struct atoll_tenant_file *f)
{
    read_ahead(f);
    if (f->busy) {
        f->waiting = true;
        return -EAGAIN;
    }
    if (!f->filled || f->error < 0)
        return f->error;
    return (ssize_t)atoll_buf_size(&f->back);
}

ssize_t atoll_tenant_file_read(struct atoll_tenant_file *f, const uint8_t **ret_bytes)
{
    ssize_t n = atoll_tenant_file_peek(f);
    struct atoll_buf swap;

    if (n <= 0)
        return n;
    f->filled = false;
    atoll_buf_clear(&f->front);
    swap = f->front;
    f->front = f->back;
    f->back = swap;
    if (f->offload && !f->one_piece) /* else there is no gain in it */
        read_ahead(f);
    *ret_bytes = atoll_buf_head(&f->front);
    return n;
}

/* Writing. */

static void write_done(struct atoll_job *job);

/* Hands what was gathered to a worker, when it is a piece or all that there is. */
static void pass_on(struct atoll_tenant_file *f)
{
    size_t n = atoll_buf_size(&f->front);
    struct atoll_buf swap = f->front;

    if (f->busy || f->error < 0 || n == 0 || (n < GATHER_BYTES && !f->flushing))
        return;
    f->front = f->back;
    f->back = swap;
    start(f, run_write, write_done);
}

static bool is_full(const struct atoll_tenant_file *f)
{
    return f->error == 0 &&
           (f->flushing ? f->busy : f->busy && atoll_buf_size(&f->front) >= GATHER_MAX);
}

static void write_done(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    if (!settle(f))
        return;
    pass_on(f);
    if (!is_full(f))
        tell(f);
}

int atoll_tenant_file_write(struct atoll_tenant_file *f, const void *bytes, size_t n)
{
    int r = f->error < 0 ? f->error : atoll_buf_append(&f->front, bytes, n);

    if (r < 0)
        return f->error = r;
    pass_on(f);
    f->waiting = is_full(f);
    return f->error < 0 ? f->error : f->waiting;
}

int atoll_tenant_file_flush(struct atoll_tenant_file *f)
{
    f->flushing = true;
    pass_on(f);
    f->waiting = is_full(f);
    return f->error < 0 ? f->error : f->waiting;
}

/* Turns. */

/* The worker has a descriptor of its own: the connection may end while a turn goes on. */
static bool can_turn(struct atoll_tenant_file *f, int socket_fd)
{
    if (!f->offload || f->busy || f->filled || f->ended || f->unfit || f->error < 0)
        return false;
    if (f->peer < 0)
        f->peer = fcntl(socket_fd, F_DUPFD_CLOEXEC, 0);
    return f->peer >= 0;
}

static void start_turn(struct atoll_tenant_file *f, uint64_t most,
                       void (*run)(struct atoll_job *job), void (*done)(struct atoll_job *job))
{
    f->moved = 0;
    f->most = ATOLL_MIN(most, ATOLL_TURN_BYTES);
    f->waiting = true;
    start(f, run, done);
}

bool atoll_tenant_file_receive(struct atoll_tenant_file *f, int socket_fd, uint64_t most)
{
    struct atoll_buf swap = f->front;

    if (!can_turn(f, socket_fd))
        return false;
    f->front = f->back;
    f->back = swap;
    start_turn(f, most, run_receive, write_done);
    return true;
}

static void send_done(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    if (!settle(f))
        return;
    f->left -= f->left == UINT64_MAX ? 0 : f->moved;
    tell(f);
}

bool atoll_tenant_file_send(struct atoll_tenant_file *f, int socket_fd)
{
    f->one_piece = true;
    if (!can_turn(f, socket_fd) || f->left == 0)
        return false;
    start_turn(f, f->left, run_send, send_done);
    return true;
}

uint64_t atoll_tenant_file_moved(struct atoll_tenant_file *f)
{
    uint64_t moved = f->busy ? 0 : f->moved;

    if (!f->busy)
        f->moved = 0;
    return moved;
}
