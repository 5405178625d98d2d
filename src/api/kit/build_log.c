#include "api/kit/build_log.h"

#include <stdio.h>

struct sending {
    struct atoll_api_call *call;
    struct atoll_make_watch *watch; /* owned */
    struct atoll_build_log log;
    char id[65];
    char piece[ATOLL_BUILD_LOG_PIECE];
};

static void sending_free(struct sending *s)
{
    atoll_make_unwatch(s->watch);
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

/* The state is read before the log: what an ended build wrote is there. */
static bool has_ended(const struct sending *s)
{
    struct atoll_make_view view;
    struct atoll_error error;

    return atoll_make_find(s->call->engine, NULL, s->id, &view, &error) < 0 ||
           view.state >= ATOLL_MAKE_READY;
}

static void send(void *arg)
{
    struct sending *s = arg;
    bool ended = has_ended(s);
    struct atoll_error error;
    ssize_t n, used;

    do {
        if (atoll_http_pending(s->call->req) > ATOLL_HTTP_HIGH_WATER)
            return; /* continues when the client has read */
        n = atoll_make_log(s->call->engine, s->id, s->log.offset, s->piece, sizeof(s->piece),
                           &error);
        used = n > 0 ? s->log.write(s->call->req, s->piece, (size_t)n) : 0;
        if (used < 0)
            return; /* on_gone follows */
        s->log.offset += (uint64_t)used;
    } while (used > 0);
    if (ended || !s->log.follow || n < 0)
        end(s);
}

static void drained(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    send(arg);
}

int atoll_build_log_send(struct atoll_api_call *call, const struct atoll_build_log *log,
                         struct atoll_error *err)
{
    struct sending *s = atoll_api_alloc(sizeof(*s));
    int r = 0;

    s->call = call;
    s->log = *log;
    (void)snprintf(s->id, sizeof(s->id), "%s", log->id);
    if (log->follow)
        r = atoll_make_watch(call->engine, s->id, send, s, &s->watch, err);
    if (r < 0) {
        free(s);
        return r;
    }
    call->state = s;
    call->on_gone = client_gone;
    atoll_api_begin(call, 200, log->content_type, -1);
    atoll_http_on_drain(call->req, drained, s);
    send(s);
    return 0;
}
