#include "api/kit/log_feed.h"

#include <stdio.h>

struct sending {
    struct atoll_api_call *call;
    void *watch; /* owned */
    struct atoll_log_feed feed;
    char id[65];
    char piece[ATOLL_LOG_PIECE];
};

static void sending_free(struct sending *s)
{
    s->feed.source->unwatch(s->watch);
    free(s);
}

static void client_gone(struct atoll_api_call *call)
{
    sending_free(call->state);
    atoll_api_drop(call);
}

static void end(struct sending *s)
{
    struct atoll_api_call *call = s->call;

    call->on_gone = NULL;
    sending_free(s);
    atoll_api_end(call);
}

static void send(void *arg)
{
    struct sending *s = arg;
    /* Before the log is read: what was written until its end is there then. */
    bool ended = s->feed.source->ended(s->call, s->id);
    ssize_t n, used;

    do {
        if (atoll_http_pending(s->call->req) > ATOLL_HTTP_HIGH_WATER)
            return; /* continues when the client has read */
        n = s->feed.source->read(s->call, s->id, s->feed.offset, s->piece, sizeof(s->piece));
        used = n > 0 ? s->feed.write(s->call->req, s->piece, (size_t)n) : 0;
        if (used < 0)
            return; /* on_gone follows */
        s->feed.offset += (uint64_t)used;
    } while (used > 0);
    if (ended || !s->feed.follow || n < 0)
        end(s);
}

static void drained(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    send(arg);
}

ssize_t atoll_log_feed_raw(struct atoll_http_request *req, const char *piece, size_t n)
{
    int r = atoll_http_write(req, piece, n);

    return r < 0 ? r : (ssize_t)n;
}

int atoll_log_feed_send(struct atoll_api_call *call, const struct atoll_log_feed *feed,
                        struct atoll_error *err)
{
    struct sending *s = atoll_api_alloc(sizeof(*s));
    int r = 0;

    s->call = call;
    s->feed = *feed;
    (void)snprintf(s->id, sizeof(s->id), "%s", feed->id);
    if (feed->follow)
        r = feed->source->watch(call, s->id, send, s, &s->watch, err);
    if (r < 0) {
        free(s);
        return r;
    }
    call->state = s;
    call->on_gone = client_gone;
    atoll_api_begin(call, 200, feed->content_type, -1);
    atoll_http_on_drain(call->req, drained, s);
    send(s);
    return 0;
}
