#include "proto/frame.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define READ_CHUNK (64 * 1024)

struct header {
    uint32_t len;
    uint16_t type;
    uint16_t nfds;
    uint32_t id;
} __attribute__((packed));
_Static_assert(sizeof(struct header) == ATOLL_FRAME_HEADER, "the header is 12 bytes");

int atoll_channel_init(struct atoll_channel *c, int fd, size_t out_max)
{
    *c = (struct atoll_channel){.fd = fd};
    atoll_buf_init(&c->in, ATOLL_FRAME_HEADER + ATOLL_FRAME_PAYLOAD_MAX + READ_CHUNK);
    atoll_buf_init_erasing(&c->out, out_max); /* variables of commands are secrets */
    return atoll_fd_set_nonblock(fd, true);
}

static void discard(struct atoll_channel *c, int fd)
{
    if (c->discard)
        c->discard(c->discard_arg, fd);
    else
        (void)close(fd);
}

/* Closing the socket also closes descriptors still queued in it, so it goes through discard(),
 * too. */
static void close_socket(struct atoll_channel *c)
{
    if (c->discard)
        (void)shutdown(c->fd, SHUT_RDWR); /* the peer sees the end at once */
    discard(c, ATOLL_TAKE_FD(c->fd));
}

void atoll_channel_done(struct atoll_channel *c)
{
    for (size_t i = 0; i < c->in_nfds; i++)
        discard(c, c->in_fds[i]);
    for (size_t i = 0; i < c->out_nfds; i++)
        (void)close(c->out_fds[i].fd);
    c->in_nfds = c->out_nfds = 0;
    atoll_buf_done(&c->in);
    atoll_buf_done(&c->out);
    if (c->fd >= 0)
        close_socket(c);
}

/* Queues duplicates of fds for the frame that starts `at` bytes into the output queue. */
static int queue_fds(struct atoll_channel *c, size_t at, const int *fds, size_t nfds)
{
    if (nfds > ATOLL_FD_PASS_MAX || c->out_nfds + nfds > ATOLL_ARRAY_LEN(c->out_fds))
        return -ENOBUFS;
    for (size_t i = 0; i < nfds; i++) {
        int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            int r = -errno;
            while (i-- > 0)
                (void)close(c->out_fds[--c->out_nfds].fd);
            return r;
        }
        c->out_fds[c->out_nfds].at = at;
        c->out_fds[c->out_nfds++].fd = copy;
    }
    return 0;
}

int atoll_channel_send(struct atoll_channel *c, uint16_t type, uint32_t id,
                       const struct atoll_msg_desc *desc, const void *msg, const int *fds,
                       size_t nfds)
{
    size_t before = atoll_buf_size(&c->out);
    struct header h = {0};
    size_t len;
    int r = atoll_buf_append(&c->out, &h, sizeof(h));

    if (r == 0 && desc)
        r = atoll_msg_encode(desc, msg, &c->out);
    len = atoll_buf_size(&c->out) - before;
    if (r == 0 && len > sizeof(h) + ATOLL_FRAME_PAYLOAD_MAX)
        r = -EMSGSIZE;
    if (r == 0 && nfds > 0)
        r = queue_fds(c, before, fds, nfds);
    if (r < 0) {
        c->out.len = c->out.off + before;
        return r;
    }
    h = (struct header){htole32((uint32_t)(len - sizeof(h))), htole16(type),
                        htole16((uint16_t)nfds), htole32(id)};
    memcpy(c->out.data + c->out.off + before, &h, sizeof(h));
    return 0;
}

/* Descriptors travel with the first byte of their frame: send up to the next frame that has
 * some. */
static size_t next_run(const struct atoll_channel *c, int *fds, size_t *nfds)
{
    size_t i = 0;

    *nfds = 0;
    while (i < c->out_nfds && c->out_fds[i].at == 0)
        fds[(*nfds)++] = c->out_fds[i++].fd;
    return i < c->out_nfds ? c->out_fds[i].at : atoll_buf_size(&c->out);
}

static void drop_sent(struct atoll_channel *c, size_t bytes, size_t nfds)
{
    for (size_t i = 0; i < nfds; i++)
        (void)close(c->out_fds[i].fd);
    c->out_nfds -= nfds;
    memmove(c->out_fds, c->out_fds + nfds, c->out_nfds * sizeof(c->out_fds[0]));
    for (size_t i = 0; i < c->out_nfds; i++)
        c->out_fds[i].at -= bytes;
    atoll_buf_consume(&c->out, bytes);
}

int atoll_channel_flush(struct atoll_channel *c)
{
    while (atoll_buf_size(&c->out) > 0) {
        int fds[ATOLL_FD_PASS_MAX];
        size_t nfds;
        size_t run = next_run(c, fds, &nfds);
        ssize_t sent = nfds > 0 ? atoll_fd_send(c->fd, atoll_buf_head(&c->out), run, fds, nfds)
                                : write(c->fd, atoll_buf_head(&c->out), run);
        if (sent < 0 && nfds == 0)
            sent = -errno;
        if (sent == -EAGAIN)
            return 0;
        if (sent == -EINTR)
            continue;
        if (sent < 0)
            return (int)sent;
        drop_sent(c, (size_t)sent, nfds);
    }
    return 1;
}

/* Takes one complete frame from the input. 1: *frame is set, 0: incomplete, -EBADMSG. */
static int next_frame(struct atoll_channel *c, struct atoll_frame *frame)
{
    struct header h;

    if (atoll_buf_size(&c->in) < sizeof(h))
        return 0;
    memcpy(&h, atoll_buf_head(&c->in), sizeof(h));
    *frame =
        (struct atoll_frame){.type = le16toh(h.type), .id = le32toh(h.id), .len = le32toh(h.len)};
    if (frame->len > ATOLL_FRAME_PAYLOAD_MAX || le16toh(h.nfds) > ATOLL_FD_PASS_MAX)
        return -EBADMSG;
    if (atoll_buf_size(&c->in) < sizeof(h) + frame->len)
        return 0;
    frame->nfds = le16toh(h.nfds);
    if (frame->nfds > c->in_nfds)
        return -EBADMSG;
    memcpy(frame->fds, c->in_fds, frame->nfds * sizeof(int));
    c->in_nfds -= frame->nfds;
    memmove(c->in_fds, c->in_fds + frame->nfds, c->in_nfds * sizeof(int));
    frame->payload = atoll_buf_head(&c->in) + sizeof(h);
    return 1;
}

static int read_some(struct atoll_channel *c)
{
    int fds[ATOLL_FD_RECV_MAX];
    size_t nfds = 0;
    bool fits;
    uint8_t *tail;
    ssize_t got;
    int r = atoll_buf_reserve(&c->in, READ_CHUNK, &tail);

    if (r < 0)
        return r;
    got = atoll_fd_recv(c->fd, tail, READ_CHUNK, fds, &nfds);
    if (got == -ENOTSOCK) { /* a pipe or a serial line: cannot pass descriptors */
        got = read(c->fd, tail, READ_CHUNK);
        got = got < 0 ? -errno : got;
    }
    fits = nfds <= ATOLL_ARRAY_LEN(c->in_fds) - c->in_nfds;
    for (size_t i = 0; i < nfds; i++) {
        if (fits)
            c->in_fds[c->in_nfds++] = fds[i];
        else
            discard(c, fds[i]);
    }
    if (!fits)
        return -EBADMSG; /* more descriptors than frames claimed */
    if (got == -EAGAIN || got == -EINTR)
        return 0;
    if (got <= 0)
        return got < 0 ? (int)got : -EPIPE;
    atoll_buf_commit(&c->in, (size_t)got);
    return 0;
}

/* True if the next frame is complete, or if its header is already invalid. */
static bool frame_waiting(const struct atoll_channel *c)
{
    struct header h;

    if (atoll_buf_size(&c->in) < sizeof(h))
        return false;
    memcpy(&h, atoll_buf_head(&c->in), sizeof(h));
    return le32toh(h.len) > ATOLL_FRAME_PAYLOAD_MAX ||
           atoll_buf_size(&c->in) >= sizeof(h) + le32toh(h.len);
}

int atoll_channel_receive(struct atoll_channel *c, int (*fn)(void *arg, struct atoll_frame *frame),
                          void *arg)
{
    struct atoll_frame frame;
    /* A handler that stopped early gets the buffered frames before more input is read. */
    int r = frame_waiting(c) ? 0 : read_some(c);

    if (r < 0)
        return r;
    while ((r = next_frame(c, &frame)) > 0) {
        r = fn(arg, &frame);
        if (r < 0)
            return r;
        atoll_buf_consume(&c->in, ATOLL_FRAME_HEADER + frame.len);
    }
    return r;
}
