#pragma once
#include "base/defs.h"

/*
 * The rules of previews that need nothing but text: which host names and paths name one, and what
 * of a client's headers its server may see. Pure.
 */
struct atoll_preview_name {
    uint16_t port;
    char sandbox_id[41];
};

/* ^([0-9]{1,5})-([a-z0-9]{20,40})\.<domain>(:[0-9]{1,5})?$, and the port one that exists. Nothing
 * else, not even in capitals: what two parties could read differently is no preview. */
bool atoll_preview_parse_host(const char *host, const char *domain, struct atoll_preview_name *ret);
/* Whether it is below the domain at all: then it is a preview or nothing. */
bool atoll_preview_in_domain(const char *host, const char *domain);
/* "/preview/<id>/<port>" and then '/', '?' or the end; *ret_rest is what follows, as it was sent. */
bool atoll_preview_parse_path(const char *target, struct atoll_preview_name *ret,
                              const char **ret_rest);

/* Whether a Host header can be ours: "localhost", an address, or one of `names` (NULL-terminated,
 * without ports). A browser led astray by DNS shows the name it was led by. */
bool atoll_host_is_own(const char *host, const char *const *names);

/* The path and query of a target that may be in absolute form; *ret_authority (of *ret_len bytes)
 * is what that names, NULL in origin form. */
const char *atoll_target_path(const char *target, const char **ret_authority, size_t *ret_len);

/* Takes "token=<token>" out of the query; out holds strlen(target) + 1 bytes. False when it is not
 * in there. */
bool atoll_preview_strip_token(const char *target, const char *token, char *out);

#define ATOLL_PREVIEW_COOKIE "atoll_preview"
/* Our cookie's value in a Cookie header: *ret_len bytes, or NULL. */
const char *atoll_preview_find_cookie(const char *cookies, size_t *ret_len);
/* A Cookie header without our cookies; out holds strlen(cookies) + 1 bytes. */
void atoll_preview_strip_cookies(const char *cookies, char *out);
/* A Set-Cookie header that stays with the host that sets it: without Domain. False for one that
 * would replace ours; out holds strlen(value) + 1 bytes. */
bool atoll_preview_clean_set_cookie(const char *value, char *out);

/* How far an answer of the sandbox's server reaches. */
enum atoll_preview_reach {
    ATOLL_PREVIEW_OWN_HOST,  /* the host name is the preview's alone */
    ATOLL_PREVIEW_API_ORIGIN /* the API and all other previews are of the same origin */
};
/* Whether an answer may have a header of this name. On the API's origin that goes by a list of what
 * describes the one answer; on a host of its own all passes that stays there. Set-Cookie needs
 * atoll_preview_clean_set_cookie() besides. */
bool atoll_preview_may_answer(const char *name, enum atoll_preview_reach reach);

/* Whether the text holds what could be an API key of ours. */
bool atoll_preview_holds_key(const char *text);
