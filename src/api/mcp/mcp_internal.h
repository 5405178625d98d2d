#pragma once
#include <jansson.h>
#include "api/call.h"
#include "api/mcp/mcp.h"
#include "api/mcp/stream.h"
#include "api/tool/tool.h"

/* Shared by the files of this facade. */

/* Errors of JSON-RPC and of MCP. */
#define ATOLL_MCP_PARSE_ERROR (-32700)
#define ATOLL_MCP_INVALID_REQUEST (-32600)
#define ATOLL_MCP_UNKNOWN_METHOD (-32601)
#define ATOLL_MCP_INVALID_PARAMS (-32602)
#define ATOLL_MCP_INTERNAL_ERROR (-32603)
#define ATOLL_MCP_NOT_FOUND (-32002) /* a resource */
#define ATOLL_MCP_UNKNOWN_VERSION (-32022)

/* A message of a client, checked. */
struct atoll_mcp_message {
    json_t *root;         /* owned */
    const json_t *id;     /* string or number; NULL: a notification, or an answer of the client */
    const char *method;   /* NULL: an answer of the client */
    const json_t *params; /* object; NULL: none */
};
/* Returns 0, or an error of JSON-RPC with *ret_why. Free it in both cases. */
int atoll_mcp_parse(const uint8_t *bytes, size_t n, struct atoll_mcp_message *ret,
                    const char **ret_why) ATOLL_MUST_CHECK;
void atoll_mcp_message_done(struct atoll_mcp_message *message);

/* One request; it lives until the answer. */
struct atoll_mcp_request {
    struct atoll_api_call *call; /* NULL when the stream owns it */
    struct atoll_api *api;
    struct atoll_engine *engine;
    char tenant[65];
    struct atoll_mcp_message message;
    char session[ATOLL_MCP_SESSION_LEN + 1]; /* "": the client has none */
    const char *version;                     /* of the protocol; of the message; NULL: not given */
    bool modern;                             /* of version 2026-07-28: see mcp.c */
    bool renewed;                            /* the session's sandbox was made again for it */
    bool by_header;                  /* the session is in the header: it can resume streams */
    struct atoll_mcp_stream *stream; /* of the answer; NULL: one JSON object */
    bool abandoned;                  /* the client is gone, and does not come back */
    /* tools.c */
    struct atoll_list node; /* in the list of calls that can be cancelled */
    struct atoll_tool_call *tool_call;
    const struct atoll_tool *tool; /* a reference */
    json_t *args;                  /* owned */
    struct atoll_timer beat;
    struct atoll_timer again; /* while the session's sandbox is being made for another request */
    uint64_t beats;
    int64_t started_ms;
    struct atoll_mcp *state; /* the facade's */
};

/* ids.c: ids of sessions. The daemon does not keep them: an id of a client has a signature by this daemon. Those
 * of `atoll mcp`, which are in the query, have none. */
#define ATOLL_MCP_IDS_MAX 512
struct atoll_mcp_ids { /* the newest */
    char ids[ATOLL_MCP_IDS_MAX][ATOLL_MCP_SESSION_LEN + 1];
    size_t next;
};
/* An id that is there stays as it is. */
void atoll_mcp_ids_add(struct atoll_mcp_ids *ids, const char *id);
bool atoll_mcp_ids_has(const struct atoll_mcp_ids *ids, const char *id);
/* False: it was not there. */
bool atoll_mcp_ids_remove(struct atoll_mcp_ids *ids, const char *id);
void atoll_mcp_id_make(const struct atoll_api *api, const char *tenant,
                       char out[static ATOLL_MCP_SESSION_LEN + 1]);
/* Whether a daemon with this state directory has made it, for this tenant. */
bool atoll_mcp_id_check(const struct atoll_api *api, const char *tenant, const char *id);

/* What is known of the sessions of a tenant, so that tenants do not displace the ids of one another. */
#define ATOLL_MCP_TENANTS_MAX 256
struct atoll_mcp_tenant {
    struct atoll_list node;
    char name[65];
    struct atoll_mcp_ids begun; /* by this process, and without a sandbox yet */
    struct atoll_mcp_ids used;  /* of `atoll mcp`: with a sandbox of this process */
    struct atoll_mcp_ids ended; /* by their clients */
};
struct atoll_mcp;
/* Makes it if need be, in place of the one that was not asked for the longest time if there are too many. Valid until the
 * next call. */
struct atoll_mcp_tenant *atoll_mcp_tenant_get(struct atoll_mcp *mcp, const char *name);
void atoll_mcp_tenants_free(struct atoll_mcp *mcp);

/* The state of the facade. */
struct atoll_mcp {
    struct atoll_list calls;    /* of struct atoll_mcp_request */
    struct atoll_list sessions; /* of struct atoll_mcp_session, those with streams */
    struct atoll_list tenants;  /* of struct atoll_mcp_tenant, owned; asked for last comes last */
    size_t tenant_count;
    uint32_t epoch; /* of this process, in the ids of events */
};

/* mcp.c: the answer. Both free the request. result: ownership passes. */
void atoll_mcp_answer(struct atoll_mcp_request *req, json_t *result);
void atoll_mcp_refuse(struct atoll_mcp_request *req, int code, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);
/* An error of the engine as one of JSON-RPC. */
void atoll_mcp_fail(struct atoll_mcp_request *req, const struct atoll_error *error);

/* Without an answer. */
void atoll_mcp_request_free(struct atoll_mcp_request *req);

/* The name of the session's own sandbox; environment: of the one for tools of that environment, or NULL. out
 * holds 64 bytes. */
void atoll_mcp_sandbox_name(const char *session, const char *environment, char *out);

/* tools.c */
void atoll_mcp_tools_list(struct atoll_mcp_request *req);
void atoll_mcp_tools_call(struct atoll_mcp_request *req);
/* notifications/cancelled: ends the call with that id, of the same tenant and session. */
void atoll_mcp_cancel(struct atoll_mcp *mcp, const struct atoll_api_call *by, const char *session,
                      const json_t *request_id);

/* prompts.c */
void atoll_mcp_prompts_list(struct atoll_mcp_request *req);
void atoll_mcp_prompts_get(struct atoll_mcp_request *req);

/* resources.c */
void atoll_mcp_resource_templates(struct atoll_mcp_request *req);
void atoll_mcp_resources_list(struct atoll_mcp_request *req);
void atoll_mcp_resources_read(struct atoll_mcp_request *req);
/* What a URI of a resource names: a file or the log of a command, in a sandbox that the tenant may see. */
struct atoll_mcp_resource {
    bool is_log;
    char sandbox_id[ATOLL_ID_LEN + 1];
    char path[ATOLL_TOOL_PATH_MAX]; /* of the file, absolute; or the id of the command */
};
/* INVALID_ARGUMENT, NOT_FOUND. */
int atoll_mcp_resource_find(const struct atoll_mcp_request *req, const char *uri,
                            struct atoll_mcp_resource *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* subscribe.c */
void atoll_mcp_subscribe(struct atoll_mcp_request *req);
void atoll_mcp_unsubscribe(struct atoll_mcp_request *req);
void atoll_mcp_listen(struct atoll_mcp_request *req);
void atoll_mcp_unsubscribe_all(struct atoll_mcp_session *session);
