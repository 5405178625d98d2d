#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/text.h"
#include "provider/gvisor/gvisor_internal.h"
#include "sys/unix_socket.h"

/*
 * Blocking requests to atoll-spawn. Its events come in between: the end of a sandbox is kept for a
 * later inspect().
 */

#define OUT_MAX (512 * 1024)
#define POLL_MS 100
#define APART_US 3000 /* between looks for the answer to a request that takes long */

static void set_keeper(struct atoll_gvisor_link *link, int fd)
{
    int old;

    (void)pthread_mutex_lock(&link->keeper_lock);
    old = link->keeper_fd;
    link->keeper_fd = fd;
    (void)pthread_mutex_unlock(&link->keeper_lock);
    if (old >= 0)
        (void)close(old);
}

int atoll_gvisor_link_keeper(struct atoll_gvisor_link *link)
{
    int fd;

    (void)pthread_mutex_lock(&link->keeper_lock);
    fd = link->keeper_fd < 0 ? -ENOTCONN : fcntl(link->keeper_fd, F_DUPFD_CLOEXEC, 0);
    (void)pthread_mutex_unlock(&link->keeper_lock);
    return fd == -1 ? -errno : fd;
}

int atoll_gvisor_link_open(struct atoll_gvisor_link *link, const char *state_dir,
                           const char *program, struct atoll_error *err)
{
    int fd;
    int r = atoll_spawn_connect(state_dir, program, NULL, &fd, &link->info, err);

    if (r < 0)
        return r;
    r = atoll_channel_init(&link->channel, fd, OUT_MAX);
    if (r < 0) {
        atoll_channel_done(&link->channel);
        return atoll_fail_errno(err, -r, "connection to atoll-spawn");
    }
    set_keeper(link, atoll_unix_peer_pidfd(fd));
    link->open = true;
    link->lives++;
    return 0;
}

void atoll_gvisor_link_close(struct atoll_gvisor_link *link)
{
    if (link->open)
        atoll_channel_done(&link->channel);
    set_keeper(link, ATOLL_NO_FD);
    link->open = false;
}

struct asking {
    struct atoll_list node; /* in link->apart */
    struct atoll_gvisor_link *link;
    uint32_t id;
    unsigned life; /* life it is for; 0: any */
    void (*part)(void *arg, struct atoll_frame *frame);
    void *arg;
    bool answered;
    int result;
    struct atoll_error *err;
};

static int note_exit(struct atoll_gvisor_link *link, const struct atoll_frame *frame)
{
    struct atoll_gvisor_exit *slot = &link->exits[link->exit_next];
    struct atoll_sm_exited msg;
    struct atoll_error err;

    if (atoll_msg_decode(&atoll_sm_exited_desc, frame->payload, frame->len, &msg, &err) < 0 ||
        atoll_text_copy(slot->id, sizeof(slot->id), msg.id) < 0)
        return -EBADMSG;
    slot->exit = (struct atoll_provider_exit){msg.code, msg.signal, msg.oom_kills,
                                              msg.memory_peak_bytes, msg.cpu_us};
    link->exit_next = (link->exit_next + 1) % ATOLL_GVISOR_EXITS_MAX;
    return 0;
}

static struct asking *find(struct asking *reader, uint32_t id)
{
    if (id == reader->id)
        return reader;
    ATOLL_LIST_FOREACH (&reader->link->apart, node) {
        struct asking *a = ATOLL_CONTAINER_OF(node, struct asking, node);
        if (a->id == id)
            return a;
    }
    return NULL;
}

/* Ignores answers to requests that timed out. */
static int take_frame(struct asking *reader, struct atoll_frame *frame)
{
    struct asking *a = find(reader, frame->id);

    if (frame->type == ATOLL_SPAWN_EXITED)
        return note_exit(reader->link, frame);
    if (!a)
        return 0;
    if (frame->type == ATOLL_SPAWN_ERROR) {
        struct atoll_error why;
        int r = atoll_spawn_protocol.decode_error(frame, &why, a->err);

        if (r < 0)
            return r;
        *a->err = why;
        a->result = why.errnum > 0 ? -why.errnum : -EIO;
    } else if (a->part) {
        a->part(a->arg, frame);
    }
    a->answered = frame->type != ATOLL_SPAWN_PART;
    return 0;
}

static int on_frame(void *arg, struct atoll_frame *frame)
{
    int r = take_frame(arg, frame);

    for (size_t i = 0; i < frame->nfds; i++)
        if (frame->fds[i] >= 0)
            (void)close(frame->fds[i]);
    return r;
}

static int exchange(struct asking *a, const struct atoll_sync_call *call)
{
    struct atoll_channel *channel = &a->link->channel;
    int r = 0;

    while (r >= 0 && !a->answered) {
        struct pollfd p = {.fd = channel->fd, .events = POLLIN};
        int left = atoll_sync_left_ms(call);

        r = atoll_channel_flush(channel);
        if (r == 0)
            p.events |= POLLOUT;
        if (r >= 0 && left == 0)
            return -ETIMEDOUT;
        if (r >= 0 && poll(&p, 1, ATOLL_MIN(left, POLL_MS)) > 0 && p.revents & ~POLLOUT)
            r = atoll_channel_receive(channel, on_frame, a);
    }
    return r < 0 ? r : 0;
}

static int gone(struct asking *a)
{
    return atoll_fail(a->err, ATOLL_ERR_UNAVAILABLE, EPIPE, "atoll-spawn of gVisor is gone");
}

static int too_late(struct asking *a)
{
    return atoll_fail(a->err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                      "atoll-spawn of gVisor did not answer in time");
}

/* Connects again if need be, and queues the request. */
static int begin(struct asking *a, uint16_t type, const struct atoll_msg_desc *desc,
                 const void *msg)
{
    struct atoll_gvisor_link *link = a->link;
    int r;

    /* Its keeper starts it again; this process has no privileges any more. */
    if (!link->open && atoll_gvisor_link_open(link, link->state_dir, NULL, a->err) < 0)
        return -ENOTCONN;
    if (a->life && a->life != link->lives)
        return atoll_fail(a->err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                          "atoll-spawn of gVisor died during the request");
    a->life = link->lives;
    a->id = ++link->last_id ? link->last_id : ++link->last_id;
    r = atoll_channel_send(&link->channel, type, a->id, desc, msg, NULL, 0);
    if (r < 0) {
        atoll_gvisor_link_close(link);
        return gone(a);
    }
    return 0;
}

static int ask_locked(struct asking *a, const struct atoll_sync_call *call, uint16_t type,
                      const struct atoll_msg_desc *desc, const void *msg)
{
    int r = begin(a, type, desc, msg);

    if (r < 0)
        return r;
    r = exchange(a, call);
    if (r == -ETIMEDOUT)
        return too_late(a);
    if (r < 0) {
        atoll_gvisor_link_close(a->link);
        return gone(a);
    }
    return a->result;
}

static int lock(struct asking *a, const struct atoll_sync_call *call)
{
    struct timespec until = {.tv_sec = call->deadline_ms / 1000,
                             .tv_nsec = (long)(call->deadline_ms % 1000) * 1000000};

    if (pthread_mutex_clocklock(&a->link->lock, CLOCK_MONOTONIC, &until) != 0)
        return atoll_fail(a->err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "atoll-spawn of gVisor is busy");
    return 0;
}

static int ask(struct asking *a, const struct atoll_sync_call *call, uint16_t type,
               const struct atoll_msg_desc *desc, const void *msg)
{
    int r = lock(a, call);

    if (r < 0)
        return r;
    r = ask_locked(a, call, type, desc, msg);
    (void)pthread_mutex_unlock(&a->link->lock);
    return r;
}

int atoll_gvisor_ask(struct atoll_gvisor_link *link, const struct atoll_sync_call *call,
                     uint16_t type, const struct atoll_msg_desc *desc, const void *msg,
                     void (*part)(void *arg, struct atoll_frame *frame), void *arg,
                     struct atoll_error *err)
{
    return ask(&(struct asking){.link = link, .part = part, .arg = arg, .err = err}, call, type,
               desc, msg);
}

/* Reads what has come, for all requests. 1: this one is answered. */
static int look(struct asking *a, const struct atoll_sync_call *call)
{
    struct atoll_gvisor_link *link = a->link;
    struct pollfd p = {.events = POLLIN};
    int r = 0;

    if (!a->answered && (!link->open || link->lives != a->life))
        return gone(a);
    p.fd = link->channel.fd;
    if (!a->answered)
        r = atoll_channel_flush(&link->channel);
    if (r >= 0 && !a->answered && poll(&p, 1, 0) > 0)
        r = atoll_channel_receive(&link->channel, on_frame, a);
    if (r < 0) {
        atoll_gvisor_link_close(link);
        return gone(a);
    }
    if (!a->answered && atoll_sync_cancelled(call))
        return atoll_fail(a->err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
    if (!a->answered && atoll_sync_left_ms(call) == 0)
        return too_late(a);
    return a->answered;
}

int atoll_gvisor_ask_apart(struct atoll_gvisor_link *link, const struct atoll_sync_call *call,
                           uint16_t type, const struct atoll_msg_desc *desc, const void *msg,
                           void (*part)(void *arg, struct atoll_frame *frame), void *arg,
                           struct atoll_error *err)
{
    struct asking a = {.link = link, .part = part, .arg = arg, .err = err};
    int r = lock(&a, call);

    if (r < 0)
        return r;
    r = begin(&a, type, desc, msg);
    if (r < 0) {
        (void)pthread_mutex_unlock(&link->lock);
        return r;
    }
    atoll_list_push_back(&link->apart, &a.node);
    while ((r = look(&a, call)) == 0) {
        (void)pthread_mutex_unlock(&link->lock);
        (void)usleep(APART_US);
        (void)pthread_mutex_lock(&link->lock);
    }
    atoll_list_remove(&a.node);
    (void)pthread_mutex_unlock(&link->lock);
    return r < 0 ? r : a.result;
}

int atoll_gvisor_ask_create(struct atoll_gvisor_link *link, const struct atoll_sync_call *call,
                            unsigned life, const struct atoll_sm_create *msg,
                            struct atoll_error *err)
{
    return ask(&(struct asking){.link = link, .life = life, .err = err}, call, ATOLL_SPAWN_CREATE,
               &atoll_sm_create_desc, msg);
}

unsigned atoll_gvisor_link_info(struct atoll_gvisor_link *link, struct atoll_spawn_info *ret)
{
    unsigned lives;

    (void)pthread_mutex_lock(&link->lock);
    *ret = link->info;
    lives = link->lives;
    (void)pthread_mutex_unlock(&link->lock);
    return lives;
}

bool atoll_gvisor_exit_of(struct atoll_gvisor_link *link, const char *id,
                          struct atoll_provider_exit *ret)
{
    bool found = false;

    (void)pthread_mutex_lock(&link->lock);
    for (size_t i = 0; i < ATOLL_GVISOR_EXITS_MAX && !found; i++)
        if (strcmp(link->exits[i].id, id) == 0) {
            *ret = link->exits[i].exit;
            found = true;
        }
    (void)pthread_mutex_unlock(&link->lock);
    return found;
}
