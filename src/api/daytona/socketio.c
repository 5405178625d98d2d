/*
 * Connections of Socket.IO: handshake, heartbeat, events.
 */
#include "api/daytona/socketio.h"

#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/builds.h"
#include "api/daytona/socketio_frames.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "net/websocket.h"

#define PING_MS 25000
#define TIMEOUT_MS 20000
#define CONNECT_MS 45000 /* for the key, after which the connection is closed */
#define MESSAGE_MAX ((size_t)64 * 1024)
#define EVENT_MAX ((size_t)1024 * 1024)
#define SID_LEN 20

struct socket {
    struct atoll_api_session session; /* first: the api drops it */
    struct atoll_list node;
    struct atoll_daytona *daytona;
    struct atoll_ws *ws;
    struct atoll_timer timer;
    char tenant[65]; /* "" until the client has shown a key */
    char key_id[33];
    enum atoll_scope scope; /* of the key */
    char sid[SID_LEN + 1];
    char origin[ATOLL_ORIGIN_MAX];
    bool waits_for_pong;
};

static void drop(struct socket *s)
{
    atoll_timer_cancel(&s->timer);
    atoll_list_remove(&s->node);
    s->daytona->socket_count--;
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("event_clients"), -1);
    atoll_api_session_remove(&s->session);
    s->ws = atoll_ws_free(s->ws);
    free(s);
}

static void drop_session(struct atoll_api_session *session)
{
    drop(ATOLL_CONTAINER_OF(session, struct socket, session));
}

/* A failed send means that the client has disconnected; on_close follows. */
static void send_text(struct socket *s, const char *text)
{
    (void)!atoll_ws_send(s->ws, false, text, strlen(text));
}

/* Sockets of the tenant; "": without a key. */
static size_t count_sockets(const struct atoll_daytona *daytona, const char *tenant)
{
    size_t count = 0;

    ATOLL_LIST_FOREACH (&daytona->sockets, node)
        count += strcmp(ATOLL_CONTAINER_OF(node, struct socket, node)->tenant, tenant) == 0;
    return count;
}

/* Whether the client has shown a key, and the key still exists. */
static bool has_key(const struct socket *s)
{
    const struct atoll_access *access = s->daytona->api->config.auth.access;
    struct atoll_key_view key;

    for (size_t pos = 0; s->tenant[0] && atoll_access_next(access, &pos, &key);)
        if (strcmp(key.id, s->key_id) == 0)
            return true;
    return false;
}

/* Heartbeat: the server pings, and closes a connection that does not answer. */
static void beat(void *arg)
{
    struct socket *s = arg;

    if (!has_key(s) || s->waits_for_pong) {
        atoll_ws_close(s->ws, ATOLL_WS_NORMAL, NULL);
        return;
    }
    s->waits_for_pong = true;
    send_text(s, "2");
    atoll_timer_set(&s->timer, s->daytona->api->config.loop, TIMEOUT_MS, beat, s);
}

static void wait_for_beat(struct socket *s)
{
    s->waits_for_pong = false;
    atoll_timer_set(&s->timer, s->daytona->api->config.loop, PING_MS, beat, s);
}

static void connect_client(struct socket *s, const struct atoll_sio_frame *frame)
{
    struct atoll_key_view key;
    char text[64];

    if (frame->other_namespace) {
        send_text(s, "44{\"message\":\"Invalid namespace\"}");
        return;
    }
    if (!atoll_auth_find_key(&s->daytona->api->config.auth, frame->token, &key)) {
        send_text(s, "44{\"message\":\"Unauthorized\"}");
        return;
    }
    if (strcmp(s->tenant, key.tenant) != 0 &&
        count_sockets(s->daytona, key.tenant) >= ATOLL_DAYTONA_TENANT_SOCKETS_MAX) {
        send_text(s, "44{\"message\":\"Too many connections\"}");
        return;
    }
    (void)snprintf(s->tenant, sizeof(s->tenant), "%s", key.tenant);
    (void)snprintf(s->key_id, sizeof(s->key_id), "%s", key.id);
    s->scope = key.scope;
    (void)snprintf(text, sizeof(text), "40{\"sid\":\"%s\"}", s->sid);
    send_text(s, text);
    wait_for_beat(s);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    struct socket *s = arg;
    struct atoll_sio_frame frame = {.kind = ATOLL_SIO_BAD};
    char text[ATOLL_SIO_DATA_MAX + 2];

    if (!binary)
        atoll_sio_parse(bytes, n, &frame);
    switch (frame.kind) {
    case ATOLL_SIO_CONNECT:
        connect_client(s, &frame);
        return;
    case ATOLL_SIO_PING:
        (void)snprintf(text, sizeof(text), "3%s", frame.data);
        send_text(s, text);
        return;
    case ATOLL_SIO_PONG:
        if (has_key(s))
            wait_for_beat(s);
        else if (s->tenant[0])
            atoll_ws_close(ws, ATOLL_WS_NORMAL, NULL);
        return;
    case ATOLL_SIO_OTHER:
        return;
    case ATOLL_SIO_BAD:
    case ATOLL_SIO_CLOSE:
    case ATOLL_SIO_DISCONNECT:
        atoll_ws_close(ws, ATOLL_WS_NORMAL, NULL);
        return;
    }
}

static void on_close(void *arg, struct atoll_ws *ws ATOLL_UNUSED, uint16_t code ATOLL_UNUSED)
{
    drop(arg);
}

static const struct atoll_ws_callbacks callbacks = {.on_message = on_message, .on_close = on_close};

static void greet(struct socket *s)
{
    char text[160];

    atoll_rand_id(s->sid, SID_LEN);
    (void)snprintf(text, sizeof(text),
                   "0{\"sid\":\"%s\",\"upgrades\":[],\"pingInterval\":%d,\"pingTimeout\":%d,"
                   "\"maxPayload\":%zu}",
                   s->sid, PING_MS, TIMEOUT_MS, MESSAGE_MAX);
    send_text(s, text);
}

void atoll_daytona_socketio(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_daytona *daytona = atoll_daytona_of(call->api);
    struct atoll_error error;
    struct socket *s;

    if (!atoll_ws_wanted(call->req)) {
        atoll_daytona_refuse(call, 400, NULL, "events are sent over WebSockets only");
        return;
    }
    if (daytona->socket_count >= ATOLL_DAYTONA_SOCKETS_MAX ||
        count_sockets(daytona, "") >= ATOLL_DAYTONA_KEYLESS_SOCKETS_MAX) {
        atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("events"), 1);
        atoll_daytona_refuse(call, 503, NULL, "too many clients wait for events");
        return;
    }
    s = atoll_api_alloc(sizeof(*s));
    s->daytona = daytona;
    s->session.drop = drop_session;
    atoll_origin(call->api, call->req, s->origin);
    if (atoll_ws_accept(call->req, &callbacks, s, MESSAGE_MAX, &s->ws, &error) < 0) {
        free(s);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_list_push_back(&daytona->sockets, &s->node);
    daytona->socket_count++;
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("event_clients"), 1);
    atoll_api_session_add(call->api, &s->session);
    call->req = NULL;
    call->upgraded = true;
    greet(s);
    atoll_timer_set(&s->timer, call->api->config.loop, CONNECT_MS, beat, s);
    atoll_api_drop(call);
}

/* Events. */

static void view_sandbox(struct atoll_json_out *out, const char *key, const struct socket *s,
                         const char *id, const char *state)
{
    struct atoll_engine *engine = s->daytona->api->config.engine;
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);
    /* SDKs replace their whole sandbox by that of sandbox.created, and take only the state from the
     * other events: those have no variables. */
    bool with_env = !*state && s->scope >= ATOLL_SCOPE_WRITE;

    if (sandbox && strcmp(state, "destroyed") != 0) {
        atoll_daytona_view_sandbox(out, key, s->daytona->api, s->origin, sandbox,
                                   with_env ? ATOLL_DAYTONA_WITH_ENV : ATOLL_DAYTONA_FULL);
        return;
    }
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", id);
    atoll_json_text(out, "state", state);
    atoll_json_close(out, '}');
}

static void send_event(struct socket *s, const char *id, const char *old_state,
                       const char *new_state)
{
    struct atoll_json_out out;
    struct atoll_buf buf;

    atoll_buf_init(&buf, EVENT_MAX);
    atoll_json_out_init(&out, &buf);
    (void)!atoll_buf_append(&buf, "42", 2);
    atoll_json_open(&out, NULL, '[');
    atoll_json_text(&out, NULL, old_state ? "sandbox.state.updated" : "sandbox.created");
    if (old_state) {
        atoll_json_open(&out, NULL, '{');
        view_sandbox(&out, "sandbox", s, id, new_state);
        atoll_json_text(&out, "oldState", old_state);
        atoll_json_text(&out, "newState", new_state);
        atoll_json_close(&out, '}');
    } else {
        view_sandbox(&out, NULL, s, id, "");
    }
    atoll_json_close(&out, ']');
    /* A client that does not read misses events, and polls. */
    if (out.error == 0 && atoll_ws_pending(s->ws) < EVENT_MAX)
        (void)!atoll_ws_send(s->ws, false, atoll_buf_head(&buf), atoll_buf_size(&buf));
    atoll_buf_done(&buf);
}

static void send_all(struct atoll_daytona *daytona, const char *owner, const char *id,
                     const char *old_state, const char *new_state)
{
    ATOLL_LIST_FOREACH (&daytona->sockets, node) {
        struct socket *s = ATOLL_CONTAINER_OF(node, struct socket, node);
        if (s->tenant[0] && strcmp(s->tenant, owner) == 0)
            send_event(s, id, old_state, new_state);
    }
}

void atoll_daytona_tell(struct atoll_daytona *daytona, const char *owner, const char *sandbox_id,
                        const char *old_state, const char *new_state)
{
    send_all(daytona, owner, sandbox_id, old_state, new_state);
}

void atoll_daytona_tell_created(struct atoll_daytona *daytona, const char *owner,
                                const char *sandbox_id)
{
    send_all(daytona, owner, sandbox_id, NULL, "");
}
