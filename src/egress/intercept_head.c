/*
 * The request as it is sent to the server: where to, and with which headers.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "egress/intercept_internal.h"
#include "net/url.h"
#include "network/placeholder.h"

#define FIELDS_MAX ((size_t)192 * 1024)
#define TARGET_MAX ((size_t)64 * 1024)
#define VALUE_MAX ((size_t)64 * 1024) /* of a header of a transform, with its secrets */

/* The host that the request is for. */

static bool is_absolute(const char *target)
{
    return strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0;
}

/* Splits "scheme://authority/path" after the authority. */
static const char *skip_authority(const char *url, const char **ret_authority, size_t *ret_len)
{
    const char *start = strchr(url, ':') + 3;
    size_t n = strcspn(start, "/?#");

    *ret_authority = start;
    *ret_len = n;
    return start + n;
}

/* Whether "host" or "host:port" names the site of the connection. */
static bool names_site(const struct atoll_intercept *i, const char *text, size_t n)
{
    const char *colon = memchr(text, ':', n);
    size_t len = colon ? (size_t)(colon - text) : n;
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", i->port);
    if (colon && (strlen(port) != n - len - 1 || strncmp(colon + 1, port, n - len - 1) != 0))
        return false;
    if (len > 1 && text[len - 1] == '.')
        len--;
    return len == strlen(i->name) && strncasecmp(text, i->name, len) == 0;
}

bool atoll_intercept_is_meant(const struct atoll_intercept *i, const struct atoll_http_request *req,
                              const char **ret_host)
{
    const char *target = atoll_http_target(req), *authority;
    const char *host = atoll_http_header(req, "host");
    size_t n;

    *ret_host = host;
    if (host && !names_site(i, host, strlen(host)))
        return false;
    if (!is_absolute(target))
        return true;
    (void)skip_authority(target, &authority, &n);
    *ret_host = target;
    return names_site(i, authority, n);
}

/* Where it goes. */

static int set_place(struct atoll_intercept_place *p, bool tls, bool by_policy, const char *host,
                     uint16_t port)
{
    p->tls = tls;
    p->by_policy = by_policy;
    p->port = port;
    (void)snprintf(p->key, sizeof(p->key), "%c%c%u %s", tls ? 's' : 'p', by_policy ? 'f' : 'd',
                   port, host);
    return atoll_text_copy(p->host, sizeof(p->host), host);
}

static int put_target(struct atoll_buf *out, const char *prefix, const char *target)
{
    const char *authority;
    size_t n;
    int r;

    if (is_absolute(target))
        target = skip_authority(target, &authority, &n);
    r = atoll_buf_appends(out, prefix);
    if (r == 0 && *target != '/' && strcmp(target, "*") != 0)
        r = atoll_buf_appends(out, "/");
    return r < 0 ? r : atoll_buf_appends(out, target);
}

static int fail_forward(const char *url, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                      "the forward URL %.200s is not usable; write https://HOST[:PORT][/PATH]",
                      url);
}

/* "https://host:8443/base": the path of the request is appended to its path. */
static int go_forward(struct atoll_exchange *x, const char *url, struct atoll_error *err)
{
    bool tls = strncasecmp(url, "https://", 8) == 0;
    const char *authority, *path;
    char host[ATOLL_EGRESS_NAME_MAX], text[ATOLL_EGRESS_NAME_MAX + 10], prefix[512];
    uint16_t port;
    size_t n;
    int r;

    if (!is_absolute(url))
        return fail_forward(url, err);
    path = skip_authority(url, &authority, &n);
    if (n == 0 || n > ATOLL_EGRESS_NAME_MAX || memchr(authority, '@', n) || strpbrk(path, "?#"))
        return fail_forward(url, err);
    (void)snprintf(text, sizeof(text), "%.*s%s", (int)n, authority,
                   authority[n - 1] == ']' || !memchr(authority, ':', n) ? tls ? ":443" : ":80"
                                                                         : "");
    if (atoll_url_split_host(text, host, sizeof(host), &port) < 0 || port == 0 ||
        set_place(&x->place, tls, true, host, port) < 0 ||
        atoll_text_copy(prefix, sizeof(prefix), path) < 0)
        return fail_forward(url, err);
    n = strlen(prefix);
    if (n > 0 && prefix[n - 1] == '/')
        prefix[n - 1] = '\0';
    r = put_target(&x->target, prefix, atoll_http_target(x->req));
    if (r == 0)
        r = atoll_buf_append(&x->authority, authority,
                             (size_t)(path - authority)); /* as it is written, with its port */
    return r;
}

static int go_on(struct atoll_exchange *x)
{
    const struct atoll_intercept *i = x->intercept;
    const char *host = atoll_http_header(x->req, "host");
    int r = set_place(&x->place, i->tls, false, i->name, i->port);

    if (r == 0)
        r = put_target(&x->target, "", atoll_http_target(x->req));
    if (r == 0)
        r = atoll_buf_appends(&x->authority, host ? host : i->name);
    return r;
}

/* Headers. */

bool atoll_intercept_next_field(const struct atoll_buf *fields, size_t *at, const char **ret_name,
                                const char **ret_value)
{
    const char *text = (const char *)atoll_buf_head(fields);

    if (*at >= atoll_buf_size(fields))
        return false;
    *ret_name = text + *at;
    *ret_value = *ret_name + strlen(*ret_name) + 1;
    *at = (size_t)(*ret_value - text) + strlen(*ret_value) + 1;
    return true;
}

static int put_field(struct atoll_buf *out, const char *name, const char *value)
{
    int r = atoll_buf_append(out, name, strlen(name) + 1);
    return r < 0 ? r : atoll_buf_append(out, value, strlen(value) + 1);
}

/* What a forwarded request says about the client's own one: none of these comes from the client. The names of
 * Vercel are those that its SDK reads; the last one would be a token that only Vercel can sign. */
static const char *const forwarded[] = {
    "x-forwarded-host",          "x-forwarded-proto",     "vercel-forwarded-host",
    "vercel-forwarded-port",     "vercel-forwarded-path", "vercel-forwarded-scheme",
    "vercel-sandbox-oidc-token",
};

static int put_forwarded(struct atoll_exchange *x)
{
    const struct atoll_intercept *i = x->intercept;
    const char *scheme = i->tls ? "https" : "http";
    struct atoll_buf path;
    char port[12];
    int r;

    (void)snprintf(port, sizeof(port), "%u", i->port);
    atoll_buf_init(&path, TARGET_MAX);
    r = put_target(&path, "", atoll_http_target(x->req));
    const char *const fields[][2] = {
        {"x-forwarded-host", i->name},
        {"x-forwarded-proto", scheme},
        {"vercel-forwarded-host", i->name},
        {"vercel-forwarded-scheme", scheme},
        {"vercel-forwarded-port", port},
        {"vercel-forwarded-path", r == 0 ? atoll_buf_str(&path) : ""},
    };
    for (size_t k = 0; r == 0 && k < ATOLL_ARRAY_LEN(fields); k++)
        r = put_field(&x->fields, fields[k][0], fields[k][1]);
    atoll_buf_done(&path);
    return r;
}

/* Whether a header of the client is replaced by one of ours. */
static bool is_replaced(const struct atoll_network_transform *t, const char *name)
{
    if (!t)
        return false;
    for (size_t i = 0; i < t->header_count; i++)
        if (strcasecmp(t->headers[i].name, name) == 0)
            return true;
    for (size_t i = 0; t->forward && i < ATOLL_ARRAY_LEN(forwarded); i++)
        if (strcasecmp(name, forwarded[i]) == 0)
            return true;
    return false;
}

static int put_client_fields(struct atoll_exchange *x, const struct atoll_network_transform *t)
{
    const char *name, *value;
    int r = 0;

    for (size_t i = 0; r == 0 && atoll_http_header_at(x->req, i, &name, &value); i++) {
        if (strcasecmp(name, "te") == 0 && atoll_http_list_has(value, "trailers"))
            x->wants_trailers = true;
        if (!atoll_http_is_hop(name) && !atoll_http_is_listed(x->req, name) &&
            !is_replaced(t, name))
            r = put_field(&x->fields, name, value);
    }
    return r;
}

/* The secrets of one header value. */
struct filling {
    const struct atoll_intercept *intercept;
    char missing[ATOLL_SECRET_NAME_MAX + 1];
    bool used; /* it has one */
};

static const char *get_secret(void *arg, const char *name)
{
    struct filling *f = arg;
    const char *value;

    f->used = true;
    value = f->intercept->hooks->secret(f->intercept->arg, name);

    if (!value)
        (void)!atoll_text_copy(f->missing, sizeof(f->missing), name);
    return value;
}

static bool is_sendable(const char *value)
{
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

static int put_rule_field(struct atoll_exchange *x, const char *name, const char *text,
                          struct atoll_error *err)
{
    struct filling f = {.intercept = x->intercept};
    struct atoll_buf value;
    int r;

    if (atoll_http_is_hop(name))
        return 0;
    atoll_buf_init(&value, VALUE_MAX);
    r = atoll_placeholder_fill(text, get_secret, &f, &value);
    if (r == -ENOENT)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                       *f.missing ? "there is no secret %s, which the header %.100s needs"
                                  : "a placeholder%s of the header %.100s has no valid name",
                       f.missing, name);
    else if (r == 0 && f.used && !x->place.tls && !x->intercept->shared->plain_secrets)
        r = atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                       "the header %.100s has a secret, which is sent over TLS only: use https://",
                       name);
    else if (r == 0 && !is_sendable(atoll_buf_str(&value)))
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                       "the value of the header %.100s has a line break or a control character: "
                       "look at its secrets",
                       name);
    else if (r == 0)
        r = put_field(&x->fields, name, atoll_buf_str(&value));
    if (value.data)
        explicit_bzero(value.data, value.cap);
    atoll_buf_done(&value);
    return r;
}

static int put_rule_fields(struct atoll_exchange *x, const struct atoll_network_transform *t,
                           struct atoll_error *err)
{
    int r = 0;

    for (size_t k = 0; r == 0 && k < t->header_count; k++)
        r = put_rule_field(x, t->headers[k].name, t->headers[k].value, err);
    return r == 0 && t->forward ? put_forwarded(x) : r;
}

/* Headers of a request whose answer may be kept: they say what the client understands. */
static const char *const plain[] = {"accept", "accept-encoding", "accept-language", "user-agent"};

static bool is_plain(const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(plain); i++)
        if (strcasecmp(name, plain[i]) == 0)
            return true;
    return false;
}

void atoll_exchange_make_plain(struct atoll_exchange *x)
{
    const struct atoll_intercept *i = x->intercept;
    struct atoll_buf fields;
    const char *name, *value;
    int r;

    atoll_buf_init(&fields, FIELDS_MAX);
    atoll_buf_clear(&x->authority);
    r = i->port == (i->tls ? 443 : 80)
            ? atoll_buf_appends(&x->authority, i->name)
            : atoll_buf_appendf(&x->authority, "%s:%u", i->name, i->port);
    for (size_t at = 0; r == 0 && atoll_intercept_next_field(&x->fields, &at, &name, &value);)
        if (is_plain(name))
            r = put_field(&fields, name, value);
    if (r < 0)
        abort(); /* not larger than before: out of memory, and the worker is crash-only */
    atoll_buf_done(&x->fields);
    x->fields = fields;
    x->wants_trailers = false;
}

int atoll_exchange_prepare(struct atoll_exchange *x, const struct atoll_network_transform *t,
                           struct atoll_error *err)
{
    int r;

    atoll_buf_init(&x->target, TARGET_MAX);
    atoll_buf_init(&x->authority, INTERCEPT_URL_MAX);
    atoll_buf_init(&x->fields, FIELDS_MAX);
    err->kind = ATOLL_ERR_NONE;
    r = t && t->forward ? go_forward(x, t->forward, err) : go_on(x);
    if (r == 0)
        r = put_client_fields(x, t);
    if (r == 0 && t)
        r = put_rule_fields(x, t, err);
    if (r < 0 && err->kind == ATOLL_ERR_NONE)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "the request is too large");
    return r;
}
