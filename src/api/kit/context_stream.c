#include "api/kit/context_stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"

#define BEAT_MS 5000
#define FIRST_BEAT_MS 15000 /* an early error can still be sent as a status */
#define PIECE_MAX ((size_t)1024 * 1024)
#define LINE_MAX_BYTES ((size_t)256 * 1024 * 1024)

#define BEAT_LINE "{\"type\":\"keepalive\"}\n"
#define END_LINE "{\"type\":\"end_of_execution\"}\n"

struct stream {
    struct atoll_api_call *call;
    struct atoll_loop *loop;
    struct atoll_execution *execution; /* NULL: the execution has ended */
    struct atoll_buf out;              /* bytes not sent yet; counted as a share of: */
    char owner[ATOLL_SHARE_NAME_MAX];
    struct atoll_timer beat;
    char content_type[64];
    bool over; /* the end line has been queued */
};

static void stream_free(struct stream *s)
{
    atoll_shares_drop(&s->call->api->waiting, s->owner, atoll_buf_size(&s->out));
    s->call = NULL;
    atoll_timer_cancel(&s->beat);
    atoll_buf_done(&s->out);
    free(s);
}

static void cut(struct stream *s, const char *why)
{
    struct atoll_api_call *call = s->call;

    s->execution = atoll_execution_abandon(s->execution);
    stream_free(s);
    atoll_api_abort(call, why);
}

static void gone(struct atoll_api_call *call)
{
    struct stream *s = call->state;

    s->execution = atoll_execution_abandon(s->execution);
    stream_free(s);
    atoll_api_drop(call);
}

/* Writes as much as the client accepts; true when nothing is waiting. */
static bool flush(struct stream *s)
{
    struct atoll_http_request *req = s->call->req;

    while (atoll_buf_size(&s->out) > 0 && atoll_http_pending(req) <= ATOLL_HTTP_HIGH_WATER) {
        size_t n = ATOLL_MIN(atoll_buf_size(&s->out), PIECE_MAX);
        int r = atoll_http_write(req, atoll_buf_head(&s->out), n);
        if (r == -ENOBUFS)
            break;
        atoll_buf_consume(&s->out, n); /* -EPIPE: the client disconnected; gone() follows */
        atoll_shares_drop(&s->call->api->waiting, s->owner, n);
    }
    if (atoll_buf_size(&s->out) == 0 && s->out.cap > PIECE_MAX)
        atoll_buf_done(&s->out);
    return atoll_buf_size(&s->out) == 0 && atoll_http_pending(req) <= ATOLL_HTTP_HIGH_WATER;
}

static void finish(struct stream *s)
{
    struct atoll_api_call *call = s->call;

    stream_free(s);
    atoll_api_end(call);
}

static void drained(void *arg, struct atoll_http_request *req)
{
    struct stream *s = arg;
    bool all = flush(s);

    (void)req;
    if (s->over && atoll_buf_size(&s->out) == 0)
        finish(s);
    else if (all && s->execution)
        atoll_execution_resume(s->execution); /* may end and free s */
}

static void beat(void *arg);

/* Queues a line. False when the buffer or the tenant's share is full. */
static bool put(struct stream *s, const char *line, size_t n, bool newline)
{
    uint8_t *tail;

    if (!atoll_http_begun(s->call->req)) {
        atoll_api_begin(s->call, 200, s->content_type, -1);
        atoll_http_on_drain(s->call->req, drained, s);
    }
    if (!atoll_shares_fits(&s->call->api->waiting, s->owner, n + newline) ||
        atoll_buf_reserve(&s->out, n + newline, &tail) < 0)
        return false;
    memcpy(tail, line, n);
    if (newline)
        tail[n] = '\n';
    atoll_buf_commit(&s->out, n + newline);
    atoll_shares_add(&s->call->api->waiting, s->owner, n + newline);
    atoll_timer_set(&s->beat, s->loop, BEAT_MS, beat, s);
    return true;
}

static void beat(void *arg)
{
    struct stream *s = arg;

    /* A client with unread output needs no keep-alive: TCP detects a dead peer. */
    if (atoll_buf_size(&s->out) > 0)
        atoll_timer_set(&s->beat, s->loop, BEAT_MS, beat, s);
    else if (!put(s, BEAT_LINE, sizeof(BEAT_LINE) - 1, false))
        cut(s, "too much output waits for slow clients");
    else
        (void)flush(s);
}

static void on_line(void *arg, enum atoll_context_line_kind kind, const char *json, size_t n)
{
    struct stream *s = arg;

    (void)kind;
    if (!put(s, json, n, true)) {
        cut(s, "too much output waits for slow clients");
        return;
    }
    if (!flush(s) && s->execution)
        atoll_execution_pause(s->execution);
}

static void on_ended(void *arg, const struct atoll_error *error)
{
    struct stream *s = arg;
    struct atoll_api_call *call = s->call;

    s->execution = NULL;
    if (error && !atoll_http_begun(call->req)) {
        stream_free(s);
        atoll_api_fail(call, error);
    } else if (error) {
        cut(s, error->text);
    } else {
        s->over = true;
        if (!put(s, END_LINE, sizeof(END_LINE) - 1, false))
            cut(s, "too much output waits for slow clients");
        else if (flush(s) || atoll_buf_size(&s->out) == 0)
            finish(s);
    }
}

void atoll_context_stream(struct atoll_api_call *call, const char *sandbox_id,
                          const char *context_id, const struct atoll_context_run *run,
                          const char *content_type)
{
    static const struct atoll_context_events events = {on_line, on_ended};
    struct stream *s = atoll_api_alloc(sizeof(*s));
    struct atoll_execution *e;

    (void)snprintf(s->owner, sizeof(s->owner), "%s", atoll_api_owner_of(call->engine, sandbox_id));
    s->call = call;
    s->loop = atoll_http_loop(call->req);
    atoll_buf_init(&s->out, LINE_MAX_BYTES);
    (void)snprintf(s->content_type, sizeof(s->content_type), "%s", content_type);
    call->state = s;
    call->on_gone = gone;
    atoll_timer_set(&s->beat, s->loop, FIRST_BEAT_MS, beat, s);
    e = atoll_contexts_execute(call->api->config.contexts, sandbox_id, context_id, run, &events, s);
    if (e) /* NULL: it has ended, and s is freed */
        s->execution = e;
}

struct atoll_contexts *atoll_api_contexts(struct atoll_api_call *call)
{
    struct atoll_contexts *contexts = call->api->config.contexts;
    struct atoll_error error;

    if (!contexts) {
        (void)atoll_fail(&error, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                         "this daemon has no interpreters");
        atoll_api_fail(call, &error);
    }
    return contexts;
}
