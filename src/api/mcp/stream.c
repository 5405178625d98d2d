#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/sse.h"
#include "api/mcp/mcp_internal.h"

#define BEAT_MS 15000 /* proxies close connections that are idle for a minute */
#define PENDING_MAX ((size_t)4 * 1024 * 1024)
#define ID_MAX 64

struct event {
    struct atoll_list node;
    uint64_t number;
    size_t len;
    char text[];
};

struct atoll_mcp_stream {
    struct atoll_list node;            /* in the session */
    struct atoll_mcp_session *session; /* NULL: it cannot be resumed */
    struct atoll_api *api;
    unsigned number;
    struct atoll_api_call *call; /* the connection; NULL: the client is away */
    struct atoll_list events;    /* kept ones, oldest first */
    size_t event_count;
    uint64_t last; /* number of the last event */
    uint64_t sent; /* number of the last event that was written to a connection */
    uint64_t lost; /* number of the last event that is not kept any more */
    bool ended, broken;
    struct atoll_timer timer; /* of the keep-alive; without a connection, of its end */
    void (*gone)(void *arg);  /* NULL: its owner does not use it any more */
    void *arg;
};

/* Events. */

static bool is_kept(const struct atoll_mcp_stream *s)
{
    return s->session && !s->session->listen_id;
}

static void forget_event(struct atoll_mcp_stream *s, struct event *e)
{
    atoll_list_remove(&e->node);
    s->event_count--;
    s->session->kept_bytes -= e->len;
    s->lost = e->number;
    free(e);
}

static struct event *first_event(const struct atoll_mcp_stream *s)
{
    return ATOLL_CONTAINER_OF(s->events.next, struct event, node);
}

/* Keeps the event. Older ones of this stream make room; if that is not enough, it is not kept. */
static void keep(struct atoll_mcp_stream *s, const char *text, size_t n)
{
    struct event *e;

    while (s->event_count > 0 && (s->event_count >= ATOLL_MCP_EVENTS_MAX ||
                                  s->session->kept_bytes + n > ATOLL_MCP_KEPT_MAX))
        forget_event(s, first_event(s));
    e = s->session->kept_bytes + n <= ATOLL_MCP_KEPT_MAX ? malloc(sizeof(*e) + n + 1) : NULL;
    if (!e) {
        s->lost = s->last;
        return;
    }
    *e = (struct event){.number = s->last, .len = n};
    memcpy(e->text, text, n + 1);
    atoll_list_push_back(&s->events, &e->node);
    s->event_count++;
    s->session->kept_bytes += n;
}

static int write_event(struct atoll_mcp_stream *s, uint64_t number, const char *text, size_t n)
{
    struct atoll_http_request *req = s->call->req;
    char head[ID_MAX + 40];
    int r = 0;

    if (atoll_http_pending(req) > PENDING_MAX)
        return -ENOBUFS;
    if (is_kept(s))
        r = snprintf(head, sizeof(head), "id: %08x-%u-%llu\n", s->session->mcp->epoch, s->number,
                     (unsigned long long)number);
    if (r > 0)
        r = atoll_http_write(req, head, (size_t)r);
    if (r == 0)
        r = atoll_http_write(req, "event: message\ndata: ", 21);
    if (r == 0 && n > 0)
        r = atoll_http_write(req, text, n);
    return r < 0 ? r : atoll_http_write(req, "\n\n", 2);
}

/* The life of a stream. */

static void stream_free(struct atoll_mcp_stream *s)
{
    while (!atoll_list_empty(&s->events))
        forget_event(s, first_event(s));
    if (s->session) {
        s->session->stream_count--;
        if (s->session->own == s)
            s->session->own = NULL;
    }
    atoll_list_remove(&s->node);
    atoll_timer_cancel(&s->timer);
    free(s);
}

static void session_rests(struct atoll_mcp_session *session);

/* The client did not come back in time. */
static void expire(void *arg)
{
    struct atoll_mcp_stream *s = arg;
    struct atoll_mcp_session *session = s->session;
    void (*gone)(void *owner) = s->gone;
    void *owner = s->arg;

    stream_free(s);
    if (gone)
        gone(owner);
    if (session)
        session_rests(session);
}

/* It has no connection any more. */
static void detached(struct atoll_mcp_stream *s)
{
    s->call = NULL;
    if (!s->session) {
        expire(s);
    } else if (s->number == 0 && !s->session->listen_id) {
        atoll_timer_cancel(&s->timer);
        session_rests(s->session);
    } else {
        atoll_timer_set(&s->timer, s->api->config.loop,
                        s->session->listen_id ? 0 : ATOLL_MCP_RESUME_MS, expire, s);
    }
}

static void client_gone(struct atoll_api_call *call)
{
    struct atoll_mcp_stream *s = call->state;

    atoll_api_drop(call);
    detached(s);
}

static void beat(void *arg)
{
    struct atoll_mcp_stream *s = arg;
    struct atoll_api_call *call = s->call;

    if (s->broken) {
        s->broken = false;
        s->call = NULL;
        atoll_api_abort(call, "the client reads its messages too slowly");
        detached(s);
        return;
    }
    (void)!atoll_http_write(call->req, ATOLL_SSE_BEAT, sizeof(ATOLL_SSE_BEAT) - 1);
    atoll_timer_set(&s->timer, s->api->config.loop, BEAT_MS, beat, s);
}

/* The connection is closed later: its callbacks must not come while a message is sent. */
static void fail(struct atoll_mcp_stream *s, int r)
{
    if (r == -EPIPE || s->broken)
        return; /* the callback of the connection follows */
    s->broken = true;
    atoll_timer_set(&s->timer, s->api->config.loop, 0, beat, s);
}

static void attach(struct atoll_mcp_stream *s, struct atoll_api_call *call)
{
    s->call = call;
    s->broken = false;
    call->state = s;
    call->on_gone = client_gone;
    atoll_sse_begin(call);
    /* Some clients wait for the first bytes before they take the stream as open. */
    (void)!atoll_http_write(call->req, ATOLL_SSE_BEAT, sizeof(ATOLL_SSE_BEAT) - 1);
    atoll_timer_set(&s->timer, s->api->config.loop, BEAT_MS, beat, s);
}

static struct atoll_mcp_stream *stream_new(struct atoll_mcp_session *session, struct atoll_api *api)
{
    struct atoll_mcp_stream *s = atoll_api_alloc(sizeof(*s));

    s->session = session;
    s->api = api;
    atoll_list_init(&s->events);
    if (session) {
        atoll_list_push_back(&session->streams, &s->node);
        session->stream_count++;
        atoll_timer_cancel(&session->idle);
    }
    return s;
}

struct atoll_mcp_stream *atoll_mcp_stream_open(struct atoll_mcp_session *session,
                                               struct atoll_api_call *call, bool primed,
                                               void (*gone)(void *arg), void *arg)
{
    bool kept = session && session->stream_count < ATOLL_MCP_STREAMS_MAX;
    struct atoll_mcp_stream *s = stream_new(kept ? session : NULL, call->api);

    s->number = kept ? ++session->last_number : 0;
    s->gone = gone;
    s->arg = arg;
    attach(s, call);
    if (primed && kept && write_event(s, 0, "", 0) < 0)
        fail(s, -ENOBUFS);
    return s;
}

void atoll_mcp_stream_send(struct atoll_mcp_stream *s, const char *json)
{
    size_t n = strlen(json);
    int r;

    s->last++;
    if (is_kept(s))
        keep(s, json, n);
    if (!s->call || !s->call->req || s->broken)
        return;
    r = write_event(s, s->last, json, n);
    if (r < 0)
        fail(s, r);
    else
        s->sent = s->last;
}

void atoll_mcp_stream_end(struct atoll_mcp_stream *s)
{
    struct atoll_api_call *call = s->call;

    s->ended = true;
    s->gone = NULL;
    if (call && call->req && !s->broken) {
        s->call = NULL;
        call->on_gone = NULL;
        atoll_api_end(call);
        detached(s);
    }
}

/* Sessions. */

static void forget_session(void *arg)
{
    (void)atoll_mcp_session_free(arg);
}

/* If it has no connection and no call, its time begins to run. */
static void session_rests(struct atoll_mcp_session *session)
{
    bool listens = session->own && session->own->call;

    if (session->stream_count > (session->own ? 1u : 0u) || listens)
        return;
    atoll_timer_set(&session->idle, session->api->config.loop,
                    session->listen_id ? 0 : ATOLL_MCP_SESSION_IDLE_MS, forget_session, session);
}

struct atoll_mcp_session *atoll_mcp_session_find(struct atoll_mcp *mcp, const char *tenant,
                                                 const char *id)
{
    ATOLL_LIST_FOREACH (&mcp->sessions, at) {
        struct atoll_mcp_session *session = ATOLL_CONTAINER_OF(at, struct atoll_mcp_session, node);

        if (*id && strcmp(session->id, id) == 0 && strcmp(session->tenant, tenant) == 0)
            return session;
    }
    return NULL;
}

/* If the tenant has its share already, its oldest session without a connection makes room. */
static int check_room(struct atoll_mcp *mcp, const char *tenant, struct atoll_error *err)
{
    struct atoll_mcp_session *resting = NULL;
    size_t all = 0, own = 0;

    ATOLL_LIST_FOREACH (&mcp->sessions, at) {
        struct atoll_mcp_session *session = ATOLL_CONTAINER_OF(at, struct atoll_mcp_session, node);
        bool is_own = strcmp(session->tenant, tenant) == 0;

        all++;
        own += is_own;
        if (is_own && !resting && session->idle.loop)
            resting = session;
    }
    if (all < ATOLL_MCP_SESSIONS_MAX && own < ATOLL_MCP_TENANT_SESSIONS_MAX)
        return 0;
    if (!resting)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                          "too many MCP sessions have streams: end one with DELETE /mcp, or try "
                          "again later");
    (void)atoll_mcp_session_free(resting);
    return 0;
}

int atoll_mcp_session_get(struct atoll_mcp *mcp, struct atoll_api *api, const char *tenant,
                          const char *id, struct atoll_mcp_session **ret, struct atoll_error *err)
{
    struct atoll_mcp_session *session = atoll_mcp_session_find(mcp, tenant, id);
    int r;

    if (!session) {
        r = check_room(mcp, tenant, err);
        if (r < 0)
            return r;
        session = atoll_api_alloc(sizeof(*session));
        session->mcp = mcp;
        session->api = api;
        (void)snprintf(session->tenant, sizeof(session->tenant), "%s", tenant);
        (void)snprintf(session->id, sizeof(session->id), "%s", id);
        atoll_list_init(&session->streams);
        atoll_list_init(&session->subscriptions);
        atoll_list_push_back(&mcp->sessions, &session->node);
        session_rests(session);
    }
    *ret = session;
    return 0;
}

struct atoll_mcp_session *atoll_mcp_session_free(struct atoll_mcp_session *session)
{
    if (!session)
        return NULL;
    atoll_mcp_unsubscribe_all(session);
    while (!atoll_list_empty(&session->streams)) {
        struct atoll_mcp_stream *s =
            ATOLL_CONTAINER_OF(session->streams.next, struct atoll_mcp_stream, node);
        struct atoll_api_call *call = s->call;
        void (*gone)(void *arg) = s->gone;
        void *arg = s->arg;

        stream_free(s);
        if (call) {
            call->on_gone = NULL;
            atoll_api_end(call);
        }
        if (gone)
            gone(arg);
    }
    atoll_timer_cancel(&session->idle);
    atoll_list_remove(&session->node);
    json_decref(session->listen_id);
    free(session);
    return NULL;
}

/* Attaching. */

/* Whether the events after `after` are still there. */
static struct atoll_mcp_stream *find_stream(struct atoll_mcp_session *session, unsigned number,
                                            uint64_t after)
{
    ATOLL_LIST_FOREACH (&session->streams, at) {
        struct atoll_mcp_stream *s = ATOLL_CONTAINER_OF(at, struct atoll_mcp_stream, node);

        if (s->number == number)
            return after >= s->lost && after <= s->last ? s : NULL;
    }
    return NULL;
}

static int parse_id(struct atoll_mcp_session *session, const char *text, unsigned *ret_number,
                    uint64_t *ret_after)
{
    unsigned epoch;
    unsigned long long after;
    int end = 0;

    if (strlen(text) >= ID_MAX ||
        sscanf(text, "%8x-%9u-%18llu%n", &epoch, ret_number, &after, &end) != 3 || text[end] ||
        epoch != session->mcp->epoch)
        return -ENOENT;
    *ret_after = after;
    return 0;
}

static struct atoll_mcp_stream *own_stream(struct atoll_mcp_session *session)
{
    if (!session->own)
        session->own = stream_new(session, session->api);
    return session->own;
}

static void replay(struct atoll_mcp_stream *s, uint64_t after)
{
    int r = 0;

    ATOLL_LIST_FOREACH (&s->events, at) {
        const struct event *e = ATOLL_CONTAINER_OF(at, struct event, node);

        if (r == 0 && e->number > after)
            r = write_event(s, e->number, e->text, e->len);
    }
    if (r < 0)
        fail(s, r);
    else
        s->sent = s->last;
    if (s->ended)
        atoll_mcp_stream_end(s);
}

int atoll_mcp_session_attach(struct atoll_mcp_session *session, struct atoll_api_call *call,
                             const char *last_event_id, struct atoll_error *err)
{
    struct atoll_mcp_stream *s = own_stream(session);
    struct atoll_api_call *former;
    uint64_t after = s->sent;
    unsigned number;

    if (last_event_id) {
        s = parse_id(session, last_event_id, &number, &after) < 0
                ? NULL
                : find_stream(session, number, after);
        if (!s)
            return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                              "the events after %.40s are not kept any more: call again",
                              last_event_id);
    }
    former = s->call;
    if (former) {
        former->on_gone = NULL;
        atoll_api_end(former);
    }
    atoll_timer_cancel(&session->idle);
    attach(s, call);
    replay(s, after);
    return 0;
}

void atoll_mcp_session_send(struct atoll_mcp_session *session, const char *json)
{
    atoll_mcp_stream_send(own_stream(session), json);
}
