#include "api/kit/feed.h"

#include <errno.h>
#include <string.h>
#include "api/kit/sse.h"

#define MESSAGE_MAX ((size_t)64 * 1024)
/* Proxies close connections that are idle for a minute. */
#define BEAT_MS 15000

static void over(struct atoll_feed *f)
{
    atoll_timer_cancel(&f->timer);
    atoll_buf_done(&f->out);
    f->gone(f->arg);
}

static void call_gone(struct atoll_api_call *call)
{
    struct atoll_feed *f = call->state;

    atoll_api_drop(ATOLL_TAKE_PTR(f->call));
    over(f);
}

static void ws_over(struct atoll_feed *f)
{
    atoll_api_session_remove(&f->session);
    f->ws = atoll_ws_free(f->ws);
    over(f);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    (void)arg;
    (void)ws;
    (void)binary;
    (void)bytes;
    (void)n;
}

static void on_close(void *arg, struct atoll_ws *ws, uint16_t code)
{
    (void)ws;
    (void)code;
    ws_over(arg);
}

static const struct atoll_ws_callbacks callbacks = {.on_message = on_message, .on_close = on_close};

/* The daemon is shutting down. */
static void drop(struct atoll_api_session *session)
{
    ws_over(ATOLL_CONTAINER_OF(session, struct atoll_feed, session));
}

static void beat(void *arg)
{
    struct atoll_feed *f = arg;

    if (f->broken && f->call) {
        atoll_api_abort(ATOLL_TAKE_PTR(f->call), "the client reads its events too slowly");
        over(f);
    } else if (f->broken) {
        ws_over(f);
    } else if (f->call) {
        (void)!atoll_http_write(f->call->req, ATOLL_SSE_BEAT, sizeof(ATOLL_SSE_BEAT) - 1);
        atoll_timer_set(&f->timer, f->loop, BEAT_MS, beat, f);
    }
}

static void open_ws(struct atoll_feed *f, struct atoll_api_call *call)
{
    struct atoll_error error;

    if (atoll_ws_accept(call->req, &callbacks, f, MESSAGE_MAX, &f->ws, &error) < 0) {
        atoll_api_fail(call, &error);
        over(f);
        return;
    }
    f->session.drop = drop;
    atoll_api_session_add(call->api, &f->session);
    call->req = NULL;
    call->upgraded = true;
    atoll_api_drop(call);
}

void atoll_feed_open(struct atoll_feed *f, struct atoll_api_call *call, void (*gone)(void *arg),
                     void *arg)
{
    f->gone = gone;
    f->arg = arg;
    f->loop = atoll_http_loop(call->req);
    atoll_buf_init(&f->out, MESSAGE_MAX);
    if (atoll_ws_wanted(call->req)) {
        open_ws(f, call);
        return;
    }
    f->call = call;
    call->state = f;
    call->on_gone = call_gone;
    atoll_sse_begin(call);
    if (atoll_http_method(call->req) == ATOLL_HEAD)
        atoll_feed_end(f);
    else
        atoll_timer_set(&f->timer, f->loop, BEAT_MS, beat, f);
}

struct atoll_json_out atoll_feed_begin(struct atoll_feed *f)
{
    struct atoll_json_out out;

    atoll_buf_clear(&f->out);
    atoll_json_out_init(&out, &f->out);
    atoll_json_open(&out, NULL, '{');
    return out;
}

static int send_ws(struct atoll_feed *f)
{
    if (atoll_ws_pending(f->ws) > ATOLL_FEED_PENDING_MAX)
        return -ENOBUFS;
    return atoll_ws_send(f->ws, false, atoll_buf_head(&f->out), atoll_buf_size(&f->out));
}

static int send_sse(struct atoll_feed *f, const char *event, const char *id)
{
    if (atoll_http_pending(f->call->req) > ATOLL_FEED_PENDING_MAX)
        return -ENOBUFS;
    return atoll_sse_write(f->call->req, event, id, &f->out);
}

void atoll_feed_send(struct atoll_feed *f, struct atoll_json_out *out, const char *event,
                     const char *id)
{
    int r;

    if (f->broken)
        return;
    atoll_json_close(out, '}');
    r = out->error;
    if (r == 0)
        r = f->ws ? send_ws(f) : send_sse(f, event, id);
    /* -EPIPE: the connection has closed, and its callback follows. */
    if (r == 0 || r == -EPIPE)
        return;
    f->broken = true;
    atoll_timer_set(&f->timer, f->loop, 0, beat, f);
}

void atoll_feed_end(struct atoll_feed *f)
{
    if (f->broken)
        return; /* the timer then closes it */
    if (f->ws) {
        atoll_ws_close(f->ws, ATOLL_WS_NORMAL, NULL);
        return;
    }
    atoll_api_end(ATOLL_TAKE_PTR(f->call));
    over(f);
}
