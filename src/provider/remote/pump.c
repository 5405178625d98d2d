#include "provider/remote/pump.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "provider/remote/pump_internal.h"
#include "sys/thread.h"

/*
 * The pump's thread: libcurl drives all transfers, and one epoll descriptor in its poll set stands
 * for all socket pairs.
 */
#define EVENTS_PER_TURN 32
#define WAIT_MAX_MS 60000

int atoll_remote_transfer_begin(struct atoll_remote_pump *p, struct atoll_remote_transfer *t)
{
    atoll_remote_transfer_prepare(p->config.http, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)t->request.timeout_ms);
    (void)curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    if (curl_multi_add_handle(p->multi, t->easy) != CURLM_OK)
        return -EIO;
    t->busy = true;
    return 0;
}

void atoll_remote_transfer_end(struct atoll_remote_pump *p, struct atoll_remote_transfer *t)
{
    if (t->busy)
        (void)curl_multi_remove_handle(p->multi, t->easy);
    t->busy = false;
}

int atoll_remote_pump_new(const struct atoll_remote_pump_config *config,
                          struct atoll_remote_pump **ret, struct atoll_error *err)
{
    struct atoll_remote_pump *p = calloc(1, sizeof(*p));

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "streams");
    p->config = *config;
    (void)pthread_mutex_init(&p->lock, NULL);
    atoll_list_init(&p->fresh);
    atoll_list_init(&p->streams);
    atoll_list_init(&p->tasks);
    p->multi = curl_multi_init();
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!p->multi || p->epoll_fd < 0) {
        int errnum = p->multi ? errno : ENOMEM;
        (void)atoll_remote_pump_free(p);
        return atoll_fail_errno(err, errnum, "streams");
    }
    *ret = p;
    return 0;
}

static void drop_streams(struct atoll_remote_pump *p, struct atoll_list *list)
{
    ATOLL_LIST_FOREACH (list, node) {
        (void)atoll_remote_stream_free(ATOLL_CONTAINER_OF(node, struct atoll_remote_stream, node));
        p->count--;
    }
}

struct atoll_remote_pump *atoll_remote_pump_free(struct atoll_remote_pump *p)
{
    if (!p)
        return NULL;
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_mutex_unlock(&p->lock);
    if (p->running) {
        (void)curl_multi_wakeup(p->multi);
        (void)pthread_join(p->thread, NULL);
    }
    drop_streams(p, &p->fresh);
    drop_streams(p, &p->streams);
    atoll_remote_background_drop(p);
    (void)curl_multi_cleanup(p->multi);
    if (p->epoll_fd >= 0)
        (void)close(p->epoll_fd);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

/* The thread. */

static bool take_fresh(struct atoll_remote_pump *p)
{
    bool go_on;

    (void)pthread_mutex_lock(&p->lock);
    go_on = !p->stopping;
    while (go_on && !atoll_list_empty(&p->fresh)) {
        struct atoll_list *node = p->fresh.next;
        atoll_list_remove(node);
        atoll_list_push_back(&p->streams, node);
        /* It may complete the dialing, for which it needs the lock. */
        (void)pthread_mutex_unlock(&p->lock);
        atoll_remote_stream_begin(ATOLL_CONTAINER_OF(node, struct atoll_remote_stream, node));
        (void)pthread_mutex_lock(&p->lock);
        go_on = !p->stopping;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return go_on;
}

static void serve_descriptors(struct atoll_remote_pump *p, int64_t now_ms)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int n = epoll_wait(p->epoll_fd, events, EVENTS_PER_TURN, 0);

    for (int i = 0; i < n; i++)
        atoll_remote_stream_turn(events[i].data.ptr, events[i].events, now_ms);
}

static void finish_transfers(struct atoll_remote_pump *p)
{
    CURLMsg *message;
    int queued;

    while ((message = curl_multi_info_read(p->multi, &queued))) {
        struct atoll_remote_transfer *t = NULL;
        CURLcode code = message->data.result;
        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &t->answer.status);
        atoll_remote_transfer_end(p, t);
        t->done(t, code);
    }
}

/* Gives every stream a turn and frees those that ended. Returns the milliseconds until the next
 * turn is due. */
static int64_t serve_streams(struct atoll_remote_pump *p, int64_t now_ms)
{
    int64_t wait_ms = atoll_remote_background_leases(p, now_ms);

    ATOLL_LIST_FOREACH (&p->streams, node) {
        struct atoll_remote_stream *s = ATOLL_CONTAINER_OF(node, struct atoll_remote_stream, node);
        atoll_remote_stream_turn(s, 0, now_ms);
        if (s->dead) {
            (void)atoll_remote_stream_free(s);
            (void)pthread_mutex_lock(&p->lock);
            p->count--;
            (void)pthread_mutex_unlock(&p->lock);
        } else {
            wait_ms = ATOLL_MIN(wait_ms, atoll_remote_stream_wait_ms(s, now_ms));
        }
    }
    return ATOLL_MIN(wait_ms, WAIT_MAX_MS);
}

static void *run(void *arg)
{
    struct atoll_remote_pump *p = arg;
    struct curl_waitfd epoll = {.fd = p->epoll_fd, .events = CURL_WAIT_POLLIN};
    int running;

    atoll_thread_enter();
    (void)pthread_setname_np(pthread_self(), "remote-streams");
    while (take_fresh(p)) {
        (void)curl_multi_perform(p->multi, &running);
        finish_transfers(p);
        (void)curl_multi_poll(p->multi, &epoll, 1, (int)serve_streams(p, atoll_clock_ms()), NULL);
        serve_descriptors(p, atoll_clock_ms());
    }
    return NULL;
}

/* Locked. Started late, so that the thread has the final user, limits and signal mask of the
 * process. */
static int start_thread(struct atoll_remote_pump *p)
{
    sigset_t all, before;
    int r;

    if (p->running)
        return 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&p->thread, NULL, run, p);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->running = r == 0;
    return -r;
}

/* Opening. */

static int hand_over(struct atoll_remote_pump *p, struct atoll_remote_stream *s,
                     struct atoll_remote_dialing *dialing, struct atoll_error *err)
{
    int r;

    (void)pthread_mutex_lock(&p->lock);
    if (p->count >= ATOLL_REMOTE_STREAMS_MAX)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                       "%d streams to sandboxes of %s are open, which is the maximum",
                       ATOLL_REMOTE_STREAMS_MAX, p->config.service->name);
    else if ((r = start_thread(p)) < 0)
        r = atoll_fail_errno(err, -r, "streams");
    if (r == 0) {
        s->dialing = dialing;
        atoll_list_push_back(&p->fresh, &s->node);
        p->count++;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (r == 0)
        (void)curl_multi_wakeup(p->multi);
    else
        (void)atoll_remote_stream_free(s);
    return r;
}

/* The thread with its answer, or the caller that stops waiting: the first one clears `dialing`. */
static int await(struct atoll_remote_pump *p, struct atoll_remote_stream *s,
                 struct atoll_remote_dialing *dialing, const struct atoll_sync_call *call,
                 struct atoll_error *err)
{
    struct pollfd fds[] = {{.fd = dialing->event_fd, .events = POLLIN},
                           {.fd = call->cancel_fd, .events = POLLIN}};
    bool settled;

    while (poll(fds, ATOLL_ARRAY_LEN(fds), atoll_sync_left_ms(call)) < 0 && errno == EINTR)
        ;
    (void)pthread_mutex_lock(&p->lock);
    settled = fds[0].revents != 0 || poll(fds, 1, 0) > 0;
    if (!settled)
        s->dialing = NULL;
    (void)pthread_mutex_unlock(&p->lock);
    if (!settled)
        return atoll_remote_http_given_up(p->config.http, call, "dial the agent", err);
    if (dialing->error.kind == ATOLL_ERR_NONE)
        return 0;
    *err = dialing->error;
    return err->errnum > 0 ? -err->errnum : -EIO;
}

int atoll_remote_pump_open(struct atoll_remote_pump *p, const struct atoll_sync_call *call,
                           const struct atoll_remote_open *open, int *ret_fd,
                           struct atoll_error *err)
{
    struct atoll_remote_dialing dialing = {.event_fd = eventfd(0, EFD_CLOEXEC)};
    ATOLL_AUTOCLOSE int event_fd = dialing.event_fd, ours = ATOLL_NO_FD, theirs = ATOLL_NO_FD;
    struct atoll_remote_stream *s;
    int pair[2], r;

    if (event_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        r = errno;
        open->ops->free(open->state);
        return atoll_fail_errno(err, r, "stream");
    }
    theirs = pair[0];
    ours = pair[1];
    r = atoll_remote_stream_new(p, open, ours, &s, err);
    if (r < 0)
        return r;
    (void)ATOLL_TAKE_FD(ours);
    r = hand_over(p, s, &dialing, err);
    if (r == 0)
        r = await(p, s, &dialing, call, err);
    if (r == 0)
        *ret_fd = ATOLL_TAKE_FD(theirs);
    return r;
}
