#pragma once
#include <jansson.h>
#include "api/call.h"
#include "api/mcp/mcp.h"
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

#define ATOLL_MCP_SESSION_LEN 32 /* hex digits */

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

/* One request. The call and what follows live until the answer. */
struct atoll_mcp_request {
    struct atoll_api_call *call;
    struct atoll_mcp_message message;
    char session[ATOLL_MCP_SESSION_LEN + 1]; /* "": the client has none */
    const char *version;                     /* of the protocol; of the message; NULL: not given */
    bool modern;                             /* of version 2026-07-28: see mcp.c */
    bool streams;                            /* the answer is an event stream, which has begun */
    /* tools.c */
    struct atoll_list node; /* in the list of calls that can be cancelled */
    struct atoll_tool_call *tool_call;
    const struct atoll_tool *tool;
    json_t *args; /* owned */
    struct atoll_timer beat;
    struct atoll_timer again; /* while the session's sandbox is being made for another request */
    uint64_t beats;
    int64_t started_ms;
    void *state; /* the facade's */
};

/* The state of the facade. */
struct atoll_mcp {
    struct atoll_list calls; /* of struct atoll_mcp_request */
};

/* mcp.c: the answer. Both free the request. result: ownership passes. */
void atoll_mcp_answer(struct atoll_mcp_request *req, json_t *result);
void atoll_mcp_refuse(struct atoll_mcp_request *req, int code, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);
/* An error of the engine as one of JSON-RPC. */
void atoll_mcp_fail(struct atoll_mcp_request *req, const struct atoll_error *error);

/* The name of the session's own sandbox. out holds 64 bytes. */
void atoll_mcp_sandbox_name(const char *session, char *out);

/* tools.c */
void atoll_mcp_tools_list(struct atoll_mcp_request *req);
void atoll_mcp_tools_call(struct atoll_mcp_request *req);
/* notifications/cancelled: ends the call with that id, of the same tenant and session. */
void atoll_mcp_cancel(struct atoll_mcp *mcp, const struct atoll_api_call *by, const char *session,
                      const json_t *request_id);
/* The client of a tool call has disconnected. */
void atoll_mcp_gone(struct atoll_mcp_request *req);

/* resources.c */
void atoll_mcp_resource_templates(struct atoll_mcp_request *req);
void atoll_mcp_resources_list(struct atoll_mcp_request *req);
void atoll_mcp_resources_read(struct atoll_mcp_request *req);
