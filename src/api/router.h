#pragma once
#include "api/auth.h"
#include "net/http_server.h"

/*
 * Routes as tables, and finding the row for a request. Pure: nothing here answers anybody.
 */
struct atoll_api_call;

#define ATOLL_BODY_NONE ((size_t)0)
#define ATOLL_BODY_STREAM SIZE_MAX /* the handler takes the body itself, piece by piece */
#define ATOLL_BODY_JSON ((size_t)1024 * 1024)
#define ATOLL_BODY_FILES ((size_t)16 * 1024 * 1024) /* JSON that carries files */

struct atoll_route {
    enum atoll_http_method method;
    /* Literal segments and parameters: {id}, {exec} and {session} are ids, {sandboxID} is an id as
     * E2B's clients write it, perhaps with "-" and a word behind it, {name} is a name, {template}
     * one with perhaps a team and a tag, {path} at the end is all that is left. Where a literal and a parameter both match, the row that comes
     * first in the table wins. */
    const char *path;
    enum atoll_scope scope;
    size_t body_max;
    /* body is borrowed for the call, which must be answered exactly once: see api/call.h. */
    void (*handler)(struct atoll_api_call *call, const uint8_t *body, size_t n);
    /* Names of the parameters that a query may have, as in "limit, cursor"; others are refused. NULL:
     * nothing is refused, for protocols that grow on the other side. */
    const char *query;
};

/* What differs between the protocols that are spoken here; a NULL member is as in our own. */
struct atoll_facade {
    /* Answers a call that failed, and ends it. */
    void (*fail)(struct atoll_api_call *call, int status, const struct atoll_error *error);
    /* Who asks and whether they may, instead of keys, scopes and owners: fills call->caller. Errors
     * go to the client. */
    int (*admit)(struct atoll_api_call *call, struct atoll_error *err);
    bool takes_slashes; /* encoded ones, in a parameter; elsewhere they are refused */
};

struct atoll_routes {
    const struct atoll_route *rows;
    size_t count;
    const struct atoll_facade *facade; /* NULL: our own */
};

/* Values of the parameters, checked already; "" where a route has none of that name. */
struct atoll_route_params {
    char id[33], exec[33], session[33];
    char port[6];
    char name[65];
    char template[129];
    const char *path; /* borrowed from the request's; NULL where a route has none */
};

#define ATOLL_ROUTE_ALLOW_MAX 64

/* The row for method and path; HEAD is served by GET. NOT_FOUND; UNIMPLEMENTED when the path is
 * there but not for this method: `allow` then lists those it has. INVALID_ARGUMENT when a parameter
 * is not what it must be. */
int atoll_router_match(const struct atoll_routes *const *tables, size_t count,
                       enum atoll_http_method method, const char *path,
                       struct atoll_route_params *params, char *allow,
                       const struct atoll_route **ret_route,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
