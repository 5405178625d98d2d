#pragma once
#include "api/call.h"

/*
 * Streams of messages for MCP clients, as Server-Sent Events, and the sessions that they belong to.
 *
 * A stream of a session can be resumed: its events have ids, the newest are kept, and a client that lost the
 * connection sends the last id that it got. A stream without a session ends with its connection.
 *
 * The daemon knows a session from the first stream or subscription on; a session that only makes calls has no
 * state here. Sessions without a connection are forgotten after ATOLL_MCP_SESSION_IDLE_MS.
 *
 * Thread: the loop's.
 */
#define ATOLL_MCP_SESSION_LEN 32 /* hex digits */

#define ATOLL_MCP_SESSIONS_MAX 256               /* of all tenants */
#define ATOLL_MCP_TENANT_SESSIONS_MAX 32         /* of one tenant */
#define ATOLL_MCP_STREAMS_MAX 64                 /* of one session */
#define ATOLL_MCP_EVENTS_MAX 256                 /* that a stream keeps */
#define ATOLL_MCP_KEPT_MAX ((size_t)1024 * 1024) /* bytes that the streams of a session keep */
#define ATOLL_MCP_SUBSCRIPTIONS_MAX 24           /* of one session; an agent has 32 watches */
#define ATOLL_MCP_SESSION_IDLE_MS (10 * 60 * 1000)
#define ATOLL_MCP_RESUME_MS \
    (60 * 1000) /* for a client to come back, before its call is cancelled */

struct atoll_mcp;
struct atoll_mcp_stream;

struct atoll_mcp_session {
    struct atoll_list node; /* in struct atoll_mcp */
    struct atoll_mcp *mcp;
    struct atoll_api *api;
    char tenant[65];
    char id[ATOLL_MCP_SESSION_LEN + 1];
    struct atoll_list streams; /* of struct atoll_mcp_stream */
    size_t stream_count, kept_bytes;
    unsigned last_number;            /* of a stream */
    struct atoll_mcp_stream *own;    /* of the daemon's own messages; number 0 */
    struct atoll_list subscriptions; /* subscribe.c */
    size_t subscription_count;
    json_t *listen_id; /* owned; of a request subscriptions/listen, which is the session; or NULL */
    struct atoll_timer idle;
};

/* NULL: the daemon does not know it. */
struct atoll_mcp_session *atoll_mcp_session_find(struct atoll_mcp *mcp, const char *tenant,
                                                 const char *id);
/* Finds or makes it. RESOURCE_EXHAUSTED. */
int atoll_mcp_session_get(struct atoll_mcp *mcp, struct atoll_api *api, const char *tenant,
                          const char *id, struct atoll_mcp_session **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends its streams and subscriptions. Accepts NULL. */
struct atoll_mcp_session *atoll_mcp_session_free(struct atoll_mcp_session *session);

/* Begins a stream as the answer to a call, which it owns from now on. session NULL: it cannot be resumed.
 * primed: the first event is empty and has an id, as since version 2025-11-25. `gone` is called at most
 * once, when the client is gone and cannot come back any more; the stream is then freed. */
struct atoll_mcp_stream *atoll_mcp_stream_open(struct atoll_mcp_session *session,
                                               struct atoll_api_call *call, bool primed,
                                               void (*gone)(void *arg), void *arg);
/* One message. If the client is away, it is kept. */
void atoll_mcp_stream_send(struct atoll_mcp_stream *stream, const char *json);
/* There are no more messages: the owner must not use it any more, and `gone` is not called. */
void atoll_mcp_stream_end(struct atoll_mcp_stream *stream);

/* Makes the call the connection of the session's own stream or, with the id of an event, of the stream of that
 * event, and sends what follows it. Ends the connection that the stream had. NOT_FOUND: the events that
 * follow are not kept any more; the call is then the caller's. */
int atoll_mcp_session_attach(struct atoll_mcp_session *session, struct atoll_api_call *call,
                             const char *last_event_id, struct atoll_error *err) ATOLL_MUST_CHECK;
/* A message on the session's own stream. */
void atoll_mcp_session_send(struct atoll_mcp_session *session, const char *json);
