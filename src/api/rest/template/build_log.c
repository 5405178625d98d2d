/*
 * GET /api/builds/{id}/log: the log of a build from an offset, as lines of JSON; with follow=true until the
 * build has ended. A client that reads slowly gets the rest later: the log is on disk.
 */
#include <errno.h>
#include <string.h>
#include "api/rest/rest_internal.h"
#include "api/rest/template/builds.h"
#include "net/http_server.h"

#define PIECE ((size_t)64 * 1024)

struct log {
    struct atoll_api_call *call;
    struct atoll_make_watch *watch; /* owned */
    char id[65];
    uint64_t offset;
    bool follow;
    uint8_t piece[PIECE];
};

static void log_free(struct log *l)
{
    atoll_make_unwatch(l->watch);
    free(l);
}

static void client_gone(struct atoll_api_call *call)
{
    log_free(call->state);
    atoll_api_drop(call);
}

static void end(struct log *l)
{
    struct atoll_api_call *call = l->call;

    call->on_gone = NULL;
    log_free(l);
    atoll_api_end(call);
}

/* The state is read before the log: what an ended build wrote is there. */
static bool has_ended(const struct log *l)
{
    struct atoll_make_view view;
    struct atoll_error error;

    return atoll_make_find(l->call->engine, NULL, l->id, &view, &error) < 0 ||
           view.state >= ATOLL_MAKE_READY;
}

static void send(void *arg)
{
    struct log *l = arg;
    bool ended = has_ended(l);
    struct atoll_error error;
    ssize_t n;

    do {
        if (atoll_http_pending(l->call->req) > ATOLL_HTTP_HIGH_WATER)
            return; /* continues when the client has read */
        n = atoll_make_log(l->call->engine, l->id, l->offset, l->piece, sizeof(l->piece), &error);
        if (n > 0 && atoll_http_write(l->call->req, l->piece, (size_t)n) < 0)
            return; /* on_gone follows */
        if (n > 0)
            l->offset += (uint64_t)n;
    } while (n > 0);
    if (ended || !l->follow || n < 0)
        end(l);
}

static void drained(void *arg, struct atoll_http_request *req)
{
    (void)req;
    send(arg);
}

void atoll_rest_make_log(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_make_view view;
    struct atoll_error error;
    uint64_t offset = 0;
    bool follow = false;
    struct log *l;

    if (atoll_rest_make_find(call, &view, &error) < 0 ||
        atoll_api_query_u64(call, "offset", 0, UINT64_MAX / 2, &offset, &error) < 0 ||
        atoll_api_query_flag(call, "follow", &follow, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    l = atoll_api_alloc(sizeof(*l));
    l->call = call;
    l->offset = offset;
    l->follow = follow;
    memcpy(l->id, call->params.name, sizeof(l->id));
    if (follow && atoll_make_watch(call->engine, l->id, send, l, &l->watch, &error) < 0) {
        free(l);
        atoll_api_fail(call, &error);
        return;
    }
    call->state = l;
    call->on_gone = client_gone;
    atoll_api_begin(call, 200, "application/x-ndjson", -1);
    atoll_http_on_drain(call->req, drained, l);
    send(l);
}
