#include "engine/file/inband.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/rand.h"

#define PIECES 4 /* requests in flight per transfer */
#define PIECE_BYTES ATOLL_AGENT_DATA_MAX
#define MEMORY_MAX (1024 * 1024) /* larger files are spooled to disk */
/* Minimum of the largest file, for sandboxes whose disk is small or of unknown size. */
#define FILE_MAX_BYTES ((uint64_t)1 << 30)

/* A piece in flight. */
struct piece {
    struct transfer *transfer; /* NULL: free */
    uint64_t offset;
    size_t len;
};

struct transfer {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1], owner[ATOLL_SHARE_NAME_MAX];
    bool sending;
    uint32_t handle;
    int fd;          /* owned */
    uint64_t size;   /* of the file; reduced if the file turns out to be shorter */
    bool open_end;   /* the size is reported as 0, as by files of /proc: read until a short piece */
    uint64_t offset; /* of the next piece */
    size_t in_flight; /* number of `pieces` in use */
    struct piece pieces[PIECES];
    struct atoll_error error; /* the first one; kind NONE: no error */
    atoll_fetched_fn *fetched;
    atoll_done_fn *sent;
    void *arg;
};

uint64_t atoll_inband_max(const struct atoll_sandbox *s)
{
    return ATOLL_MAX(s->spec.limits.disk_bytes, FILE_MAX_BYTES);
}

int atoll_file_nameless(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char name[40];
    uint64_t random;

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd < 0 ? -errno : fd;
    atoll_rand_bytes(&random, sizeof(random));
    (void)snprintf(name, sizeof(name), ".spool-%016llx", (unsigned long long)random);
    fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    (void)unlinkat(dir_fd, name, 0);
    return fd;
}

int atoll_inband_spool(const struct atoll_sandbox *s, uint64_t size_bytes, struct atoll_error *err)
{
    int fd;

    if (!atoll_shares_fits(&s->engine->transfers, s->spec.tenant, 1))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "%zu files are being transferred already; try again",
                          s->engine->transfers.used);
    if (size_bytes != UINT64_MAX && size_bytes > atoll_inband_max(s))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the file has %llu bytes; at most %llu can be brought out of this kind "
                          "of sandbox at once",
                          (unsigned long long)size_bytes, (unsigned long long)atoll_inband_max(s));
    if (size_bytes <= MEMORY_MAX) {
        fd = memfd_create("atoll-file", MFD_CLOEXEC);
        return fd < 0 ? atoll_fail_errno(err, errno, "memory for a file") : fd;
    }
    fd = atoll_file_nameless(s->engine->state_fd);
    return fd < 0 ? atoll_fail_errno(err, -fd, "a file in the state directory") : fd;
}

static void finish(struct transfer *t)
{
    const struct atoll_error *error = t->error.kind == ATOLL_ERR_NONE ? NULL : &t->error;

    atoll_shares_drop(&t->engine->transfers, t->owner, 1);
    if (t->sending)
        t->sent(t->arg, error);
    else
        t->fetched(t->arg, error ? ATOLL_NO_FD : ATOLL_TAKE_FD(t->fd), t->size, error);
    if (t->fd >= 0)
        (void)close(t->fd);
    free(t);
}

static void go_on(struct transfer *t);

static void fail(struct transfer *t, const struct atoll_error *error)
{
    if (t->error.kind != ATOLL_ERR_NONE)
        return;
    if (error->kind == ATOLL_ERR_NOT_FOUND &&
        error->errnum == EBADF) /* the handle is of an earlier connection */
        (void)atoll_fail(&t->error, ATOLL_ERR_UNAVAILABLE, EPIPE,
                         "the connection to the sandbox was lost in between; try again");
    else
        t->error = *error;
}

/* Stores a piece of the file from the agent, which is not trusted. */
static int store(struct transfer *t, const struct piece *p, const struct atoll_frame *frame,
                 struct atoll_error *err)
{
    struct atoll_am_data msg;
    size_t done = 0;
    int r = atoll_msg_decode(&atoll_am_data_desc, frame->payload, frame->len, &msg, err);

    if (r < 0)
        return r;
    if (msg.data.len > p->len)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "the agent sent more than was asked");
    while (done < msg.data.len) {
        ssize_t n =
            pwrite(t->fd, msg.data.data + done, msg.data.len - done, (off_t)(p->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return atoll_fail_errno(err, errno, "keep a file on its way out of a sandbox");
        done += (size_t)n;
    }
    if (done < p->len) /* the file was truncated meanwhile */
        t->size = ATOLL_MIN(t->size, p->offset + done);
    else if (t->open_end && t->size < MEMORY_MAX)
        t->size += PIECE_BYTES;
    return 0;
}

static void on_piece(void *arg, const struct atoll_reply *answer)
{
    struct piece *p = arg;
    struct transfer *t = ATOLL_TAKE_PTR(p->transfer);
    struct atoll_error err;

    t->in_flight--;
    if (answer->error)
        fail(t, answer->error);
    else if (!t->sending && store(t, p, answer->frame, &err) < 0)
        fail(t, &err);
    go_on(t);
}

static int ask_piece(struct transfer *t, struct piece *p, struct atoll_error *err)
{
    static uint8_t
        bytes[PIECE_BYTES]; /* shared: each message is encoded before the next one is built */
    struct atoll_am_read read_msg = {t->handle, p->offset, (uint32_t)p->len};
    struct atoll_am_write write_msg = {t->handle, p->offset, {bytes, p->len}};
    struct atoll_sandbox *s = atoll_map_get(&t->engine->sandboxes, t->id);
    size_t done = 0;

    if (!s)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESRCH, "sandbox %s is gone", t->id);
    s->life.used_ms = atoll_clock_ms();
    while (t->sending && done < p->len) {
        ssize_t n = pread(t->fd, bytes + done, p->len - done, (off_t)(p->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return atoll_fail_errno(err, n < 0 ? errno : EIO,
                                    "read a file on its way into a sandbox");
        done += (size_t)n;
    }
    return t->sending ? atoll_sandbox_ask(s, ATOLL_AGENT_FILE_WRITE, &atoll_am_write_desc,
                                          &write_msg, on_piece, p, err)
                      : atoll_sandbox_ask(s, ATOLL_AGENT_FILE_READ, &atoll_am_read_desc, &read_msg,
                                          on_piece, p, err);
}

static struct piece *free_piece(struct transfer *t)
{
    for (size_t i = 0; i < PIECES; i++)
        if (!t->pieces[i].transfer)
            return &t->pieces[i];
    return NULL;
}

/* Requests pieces until the transfer is complete or all slots are in use; finishes it when none is
 * in flight. Answers arrive later, never from inside a request. */
static void go_on(struct transfer *t)
{
    struct atoll_error err;
    struct piece *p;

    while (t->error.kind == ATOLL_ERR_NONE && t->offset < t->size && (p = free_piece(t)) != NULL) {
        *p = (struct piece){t, t->offset, (size_t)ATOLL_MIN(t->size - t->offset, PIECE_BYTES)};
        if (ask_piece(t, p, &err) < 0) {
            p->transfer = NULL;
            if (err.kind == ATOLL_ERR_RESOURCE_EXHAUSTED && t->in_flight > 0)
                break; /* the queue is full: continues after a piece in flight is answered */
            fail(t, &err);
            break;
        }
        t->offset += p->len;
        t->in_flight++;
    }
    if (t->in_flight == 0)
        finish(t);
}

static struct transfer *transfer_new(struct atoll_engine *engine, const char *id, const char *owner,
                                     uint32_t handle)
{
    struct transfer *t = atoll_alloc(sizeof(*t));

    t->engine = engine;
    t->handle = handle;
    t->fd = ATOLL_NO_FD;
    (void)snprintf(t->id, sizeof(t->id), "%s", id);
    (void)snprintf(t->owner, sizeof(t->owner), "%s", owner);
    atoll_shares_add(&engine->transfers, t->owner, 1);
    return t;
}

void atoll_inband_fetch(struct atoll_sandbox *s, uint32_t handle, uint64_t size_bytes,
                        atoll_fetched_fn *done, void *arg)
{
    struct atoll_error err;
    int fd = atoll_inband_spool(s, size_bytes, &err);
    struct transfer *t;

    if (fd < 0) {
        done(arg, ATOLL_NO_FD, 0, &err);
        return;
    }
    t = transfer_new(s->engine, s->spec.id, s->spec.tenant, handle);
    t->fd = fd;
    t->open_end = size_bytes == 0;
    t->size = t->open_end ? PIECE_BYTES : size_bytes;
    t->fetched = done;
    t->arg = arg;
    go_on(t);
}

void atoll_inband_send(struct atoll_engine *engine, const char *id, const char *owner,
                       uint32_t handle, int fd, atoll_done_fn *done, void *arg)
{
    struct transfer *t = transfer_new(engine, id, owner, handle);
    struct stat st;

    t->sending = true;
    t->fd = fd;
    t->sent = done;
    t->arg = arg;
    if (fstat(fd, &st) < 0)
        (void)atoll_fail_errno(&t->error, errno, "look at a file on its way into a sandbox");
    else
        t->size = (uint64_t)st.st_size;
    go_on(t);
}
