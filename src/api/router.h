#pragma once
#include "api/auth.h"
#include "net/http_server.h"

/*
 * Tables of routes, and the lookup of the row for a request. Pure: sends no responses.
 */
struct atoll_api_call;

#define ATOLL_BODY_NONE ((size_t)0)
#define ATOLL_BODY_STREAM SIZE_MAX /* the handler reads the body itself, in pieces */
#define ATOLL_BODY_JSON ((size_t)1024 * 1024)
#define ATOLL_BODY_FILES ((size_t)16 * 1024 * 1024) /* JSON that contains files */

struct atoll_route {
    enum atoll_http_method method;
    /* Literal segments and parameters. {id}, {exec} and {session} are ids; {port} is a port; {name}
     * is a name; {path} at the end is the rest of the path, {rest} also an empty one,
     * without the slash before it; a table may have further ones. If
     * several rows match, the first in the table wins. */
    const char *path;
    enum atoll_scope scope;
    size_t body_max;
    /* body is borrowed for the call. The handler must answer the call exactly once: see
     * api/call.h. */
    void (*handler)(struct atoll_api_call *call, const uint8_t *body, size_t n);
    /* Names of the query parameters, as in "limit, cursor"; other parameters are refused. NULL:
     * all are accepted, for protocols that others extend. */
    const char *query;
};

/* What differs between the protocols; a NULL member means Atoll's own behaviour. */
struct atoll_protocol {
    /* Answers a call that failed, and ends it. */
    void (*fail)(struct atoll_api_call *call, int status, const struct atoll_error *error);
    /* Authorizes the caller, in place of the check of keys, scopes and owners: fills
     * call->caller. Errors are sent to the client. */
    int (*admit)(struct atoll_api_call *call, struct atoll_error *err);
    bool takes_slashes; /* accept encoded slashes in a parameter */
    bool shows_ended;   /* its routes answer for ended sandboxes as well: call->ended */
    bool challenges;    /* fail() writes WWW-Authenticate itself */
};

/* A parameter in the path of a route. */
struct atoll_param_kind {
    const char *name;   /* as in the path: "{id}" */
    size_t offset, cap; /* of the text in struct atoll_route_params */
    bool (*is_valid)(const char *text);
    const char *what;    /* for the error: "... is not WHAT" */
    char end;            /* the value ends here; what follows is ignored */
    const char *refusal; /* full text of the error, where clients expect a certain one; or NULL */
};

struct atoll_routes {
    const struct atoll_route *rows;
    size_t count;
    const struct atoll_protocol *protocol; /* NULL: Atoll's own */
    const struct atoll_param_kind *params; /* beyond those that all tables have */
    size_t param_count;
};

/* Values of the parameters, already validated; "" if the route has no such parameter. */
struct atoll_route_params {
    char id[65]; /* after authorization: the id of the sandbox, if it was referred to by name */
    char exec[33], session[33];
    char port[6];
    char name[65];
    char template[512];
    const char *path; /* borrowed from the request; NULL if the route has none */
};

#define ATOLL_ROUTE_ALLOW_MAX 64

/* Finds the row for method and path; GET rows also serve HEAD. NOT_FOUND; UNIMPLEMENTED when the
 * path exists only for other methods, which `allow` then lists; INVALID_ARGUMENT when a parameter
 * is malformed. */
int atoll_router_match(const struct atoll_routes *const *tables, size_t count,
                       enum atoll_http_method method, const char *path,
                       struct atoll_route_params *params, char *allow,
                       const struct atoll_route **ret_route,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
