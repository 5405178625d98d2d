#pragma once
#include "base/defs.h"

/*
 * The rules of previews that need only text: which host names and paths identify a preview, and
 * which headers may pass between a client and its server. Pure functions.
 */
struct atoll_preview_name {
    uint16_t port;
    char sandbox_id[41];
};

/* Accepts ^([0-9]{1,5})-([a-z0-9]{20,40})\.<domain>(:[0-9]{1,5})?$ with a valid port, and
 * nothing else, not even capitals: a name that two programs could parse differently is not a
 * preview. */
bool atoll_preview_parse_host(const char *host, const char *domain, struct atoll_preview_name *ret);
/* Whether the host is below the domain: then it is a preview or unknown, never the API. */
bool atoll_preview_in_domain(const char *host, const char *domain);
/* Accepts "/preview/<id>/<port>" followed by '/', '?' or the end; *ret_rest is the remainder,
 * unchanged. */
bool atoll_preview_parse_path(const char *target, struct atoll_preview_name *ret,
                              const char **ret_rest);

/* Whether a Host header can be ours: "localhost", an address, or one of `names`
 * (NULL-terminated, without ports). In a DNS rebinding attack the browser sends the attacker's
 * name. */
bool atoll_host_is_own(const char *host, const char *const *names);

/* Returns the path and query of a target that may be in absolute form; *ret_authority (of
 * *ret_len bytes) is the authority in it, NULL in origin form. */
const char *atoll_target_path(const char *target, const char **ret_authority, size_t *ret_len);

/* Removes "token=<token>" from the query; out holds strlen(target) + 1 bytes. False if the query
 * does not contain it. */
bool atoll_preview_strip_token(const char *target, const char *token, char *out);

#define ATOLL_PREVIEW_COOKIE "atoll_preview"
/* Our cookie's value in a Cookie header: *ret_len bytes, or NULL. */
const char *atoll_preview_find_cookie(const char *cookies, size_t *ret_len);
/* A Cookie header without our cookies; out holds strlen(cookies) + 1 bytes. */
void atoll_preview_strip_cookies(const char *cookies, char *out);
/* Removes Domain from a Set-Cookie header, so that the cookie stays with the host that sets it.
 * False for a cookie that would replace ours; out holds strlen(value) + 1 bytes. */
bool atoll_preview_clean_set_cookie(const char *value, char *out);

/* The origin that a response of the sandbox's server belongs to. */
enum atoll_preview_reach {
    ATOLL_PREVIEW_OWN_HOST,  /* the host name belongs to this preview alone */
    ATOLL_PREVIEW_API_ORIGIN /* shared with the API and all other previews */
};
/* Whether a response may contain a header of this name. On the API's origin, only listed headers
 * pass, which describe the response itself. On a preview's own host, every header passes that
 * affects only that host. Set-Cookie must also pass atoll_preview_clean_set_cookie(). */
bool atoll_preview_may_answer(const char *name, enum atoll_preview_reach reach);

/* How clients of Daytona show the token of a sandbox. With the token one can run commands: the server
 * inside gets neither the header, nor the parameter, nor a Referer with the parameter. */
#define ATOLL_PREVIEW_DAYTONA_HEADER "x-daytona-preview-token"
#define ATOLL_PREVIEW_DAYTONA_QUERY "DAYTONA_SANDBOX_AUTH_KEY"
/* The target without the parameter, whose name may be percent-encoded; out holds strlen(target) + 1
 * bytes. False if the query does not contain it. */
bool atoll_preview_strip_parameter(const char *target, const char *parameter, char *out);

/* Whether the text contains something that may be an API key of this daemon. */
bool atoll_preview_holds_key(const char *text);
