/*
 * GET /api/sandboxes/{id}/network/connections: what the sandbox connected to and what was denied, newest
 * first; or with ?follow=true, as it happens.
 */
#include "engine/network/connections.h"
#include <stdio.h>
#include <string.h>
#include "api/kit/feed.h"
#include "api/kit/paging.h"
#include "api/rest/rest_internal.h"
#include "base/text.h"

#define LIMIT_DEFAULT 100
#define REPLAY_MAX 1000 /* lines at the beginning of a stream */

static void write_members(struct atoll_json_out *out, const struct atoll_connection *c)
{
    const char *error = c->errnum ? strerrordesc_np(c->errnum) : NULL;

    atoll_json_u64(out, "line", c->line);
    atoll_json_text(out, "kind", c->dns ? "dns" : "tcp");
    atoll_json_text(out, "end", c->end);
    atoll_json_time(out, "started_at", c->started_unix_ms);
    atoll_json_time(out, "ended_at", c->ended_unix_ms);
    atoll_json_text_or_null(out, "name", c->name);
    atoll_json_text_or_null(out, "address", c->address);
    atoll_json_u64(out, "port", c->port);
    atoll_json_text_or_null(out, "rule", c->rule);
    atoll_json_text_or_null(out, "hint", c->hint);
    if (error)
        atoll_json_text(out, "error", error);
    atoll_json_u64(out, "rx_bytes", c->rx_bytes);
    atoll_json_u64(out, "tx_bytes", c->tx_bytes);
    if (c->lost)
        atoll_json_u64(out, "lost", c->lost);
}

/* Following. */

struct listener {
    struct atoll_feed feed;
    struct atoll_connections_follower *follower; /* owned */
    struct atoll_engine *engine;
    struct atoll_route_params params;
    uint64_t after;
    struct atoll_timer replay; /* armed until the lines after `after` are sent */
};

static void gone(void *arg)
{
    struct listener *l = arg;

    l->follower = atoll_connections_unfollow(l->follower);
    atoll_timer_cancel(&l->replay);
    free(l);
}

static void tell(void *arg, const struct atoll_connection *c)
{
    struct listener *l = arg;
    struct atoll_json_out out;
    char id[24];

    if (l->replay.loop)
        return; /* it will be among those */
    out = atoll_feed_begin(&l->feed);
    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)c->line);
    write_members(&out, c);
    atoll_feed_send(&l->feed, &out, "connection", id);
}

static void replay(void *arg)
{
    struct listener *l = arg;
    atoll_connections_since(l->engine, l->params.id, l->after, REPLAY_MAX, tell, l);
}

static void ended(void *arg)
{
    struct listener *l = arg;
    atoll_feed_end(&l->feed);
}

/* ?after=, or Last-Event-ID after a browser reconnects; UINT64_MAX: from now on. */
static int take_place(const struct atoll_api_call *call, uint64_t *ret_after,
                      struct atoll_error *err)
{
    const char *last = atoll_http_header(call->req, "last-event-id");

    *ret_after = UINT64_MAX;
    if (last && atoll_text_u64(last, 0, INT64_MAX, ret_after) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, 0,
                          "Last-Event-ID must be the line of a connection (got \"%.48s\")", last);
    return atoll_api_query_u64(call, "after", 0, INT64_MAX, ret_after, err);
}

static void follow(struct atoll_api_call *call)
{
    struct listener *l = atoll_api_alloc(sizeof(*l));
    struct atoll_error error;
    int r = take_place(call, &l->after, &error);

    l->engine = call->engine;
    l->params = call->params;
    if (r == 0)
        r = atoll_connections_follow(l->engine, l->params.id, tell, ended, l, &l->follower, &error);
    if (r < 0) {
        free(l);
        atoll_api_fail(call, &error);
        return;
    }
    if (l->after != UINT64_MAX)
        atoll_timer_set(&l->replay, atoll_http_loop(call->req), 0, replay, l);
    atoll_feed_open(&l->feed, call, gone, l); /* may end it */
}

/* Listing. */

struct list {
    struct atoll_buf buf;
    struct atoll_json_out out;
    uint64_t last_line;
};

static void show(void *arg, const struct atoll_connection *c)
{
    struct list *l = arg;

    atoll_json_open(&l->out, NULL, '{');
    write_members(&l->out, c);
    atoll_json_close(&l->out, '}');
    l->last_line = c->line;
}

void atoll_rest_connections(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct list l = {0};
    struct atoll_page page;
    struct atoll_error error;
    bool follows = false, more = false;
    int r = atoll_api_query_flag(call, "follow", &follows, &error);

    if (r == 0)
        r = atoll_page_take(call, &page, &error);
    if (r == 0 && follows) {
        follow(call);
        return;
    }
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&l.buf, &l.out);
    atoll_json_open(&l.out, NULL, '{');
    atoll_json_open(&l.out, "connections", '[');
    r = atoll_connections_list(call->engine, call->params.id,
                               page.has_cursor ? (uint64_t)page.after_ms : 0,
                               page.limit ? page.limit : LIMIT_DEFAULT, show, &l, &more, &error);
    if (r < 0) {
        atoll_buf_done(&l.buf);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_json_close(&l.out, ']');
    if (more)
        atoll_page_write(&l.out, (int64_t)l.last_line, call->params.id);
    atoll_json_close(&l.out, '}');
    atoll_api_reply(call, 200, &l.out);
}
