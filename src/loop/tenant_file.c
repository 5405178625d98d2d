#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/memory.h"
#include "loop/offload_internal.h"

#define PIECE_BYTES ((size_t)256 * 1024)
/* Gathered before it is written, and gathered at most while a worker writes. */
#define GATHER_BYTES ((size_t)256 * 1024)
#define GATHER_MAX ((size_t)512 * 1024)

struct atoll_tenant_file {
    struct atoll_job job; /* the one under way while busy */
    struct atoll_offload *offload;
    struct atoll_lane lane;
    int fd; /* W: owned; ATOLL_NO_FD after run_last */
    struct stat st;
    bool busy;       /* a worker has the fields marked W */
    bool closed;     /* by its owner: what is under way is the last */
    bool waiting;    /* the owner waits for on_ready */
    bool flushing;   /* for all of it */
    bool finishing;  /* flushing, and for the close */
    bool filled;     /* `back` has what the last job read */
    bool ended;      /* there is nothing behind what was read */
    int error;       /* -errno, for good */
    int64_t result;  /* W: bytes, or -errno */
    uint64_t offset; /* W: of the next byte */
    uint64_t left;   /* reading: of the part; UINT64_MAX until the end */
    /* Reading: what the owner has, and what the worker fills (W). Writing: what is being gathered, and
     * what the worker writes (W). */
    struct atoll_buf front, back;
    uint8_t *tail; /* W: where to read to */
    size_t want;   /* W: bytes to read */
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

static void run_write(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    f->result = 0;
    while (f->result == 0 && atoll_buf_size(&f->back) > 0) {
        ssize_t n =
            pwrite(f->fd, atoll_buf_head(&f->back), atoll_buf_size(&f->back), (off_t)f->offset);
        if (n >= 0) {
            atoll_buf_consume(&f->back, (size_t)n);
            f->offset += (uint64_t)n;
        } else if (errno != EINTR) {
            f->result = -errno;
        }
    }
}

/* The last bytes, and the close. */
static void run_last(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    run_write(job);
    if (f->result == 0)
        atoll_offload_close_now(ATOLL_TAKE_FD(f->fd));
}

static void run_close(struct atoll_job *job)
{
    struct atoll_tenant_file *f = ATOLL_CONTAINER_OF(job, struct atoll_tenant_file, job);

    atoll_offload_close_now(ATOLL_TAKE_FD(f->fd));
}

/* On the loop. */

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
    if (f->fd < 0) {
        close_done(&f->job);
        return;
    }
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
    f = atoll_alloc(sizeof(*f));
    f->offload = o;
    f->lane = *lane;
    f->fd = fd;
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
    if (f->offload) /* else there is no gain in it */
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

    if (f->busy || f->error < 0)
        return;
    if (f->finishing ? f->fd < 0 : n == 0 || (n < GATHER_BYTES && !f->flushing))
        return;
    f->front = f->back;
    f->back = swap;
    start(f, f->finishing ? run_last : run_write, write_done);
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

int atoll_tenant_file_finish(struct atoll_tenant_file *f)
{
    f->finishing = true;
    return atoll_tenant_file_flush(f);
}
