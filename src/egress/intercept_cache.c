/*
 * Requests and the cache of downloads (cache.h). Only what may be shared by all tenants is: a plain GET
 * without credentials for a URL of the table, and its complete answer 200 that is not private (RFC 9111
 * section 3).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/base64.h"
#include "egress/cache.h"
#include "egress/intercept_internal.h"

#define URL_MAX ((size_t)3000)
#define FIELDS_MAX ((size_t)2048)

/* Headers of a request that make its answer one of its own, or that ask for something else than the whole. */
static const char *const personal[] = {
    "authorization",
    "proxy-authorization",
    "cookie",
    "range",
    "if-match",
    "if-none-match",
    "if-range",
    "if-modified-since",
    "if-unmodified-since",
    "x-api-key",
    "x-jfrog-art-api",
    "private-token",
    "job-token",
    "deploy-token",
};
/* Headers of an answer that are kept with it. */
static const char *const kept[] = {
    "content-type", "content-disposition", "etag", "last-modified", "cache-control",
};
/* Headers of an answer that have the SHA-256 of its content: RFC 9530, RFC 3230, repositories. */
static const struct {
    const char *name, *prefix;
    bool hex;
} digests[] = {
    {"repr-digest", "sha-256=:", false},
    {"content-digest", "sha-256=:", false},
    {"digest", "sha-256=", false},
    {"x-checksum-sha256", "", true},
};

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(name, list[i]) == 0)
            return true;
    return false;
}

static bool is_impersonal(const struct atoll_http_request *req)
{
    const char *name, *value;

    for (size_t i = 0; atoll_http_header_at(req, i, &name, &value); i++) {
        if (is_one_of(name, personal, ATOLL_ARRAY_LEN(personal)))
            return false;
        if ((strcasecmp(name, "cache-control") == 0 || strcasecmp(name, "pragma") == 0) &&
            (strcasestr(value, "no-store") || strcasestr(value, "no-cache")))
            return false;
    }
    return true;
}

/* Whether the answer is the same for every client that asks in this way. */
static bool is_public(const char *name, const char *value)
{
    if (strcasecmp(name, "cache-control") == 0)
        return !strcasestr(value, "private") && !strcasestr(value, "no-store") &&
               !strcasestr(value, "no-cache");
    if (strcasecmp(name, "vary") == 0)
        return strcasecmp(value, "accept-encoding") == 0 || strcasecmp(value, "origin") == 0;
    if (strcasecmp(name, "content-encoding") == 0)
        return strcasecmp(value, "identity") == 0;
    return strcasecmp(name, "set-cookie") != 0 && strcasecmp(name, "content-range") != 0;
}

static void read_digest(const char *name, const char *value, struct atoll_cache_expected *expected)
{
    uint8_t bytes[ATOLL_CACHE_DIGEST_BYTES + 16];
    size_t n;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(digests); i++) {
        const char *at =
            strcasecmp(name, digests[i].name) == 0 ? strcasestr(value, digests[i].prefix) : NULL;

        if (!at)
            continue;
        at += strlen(digests[i].prefix);
        n = strcspn(at, ":, ");
        if (digests[i].hex
                ? !atoll_cache_digest_parse(at, n, bytes)
                : atoll_base64_bytes(bytes, sizeof(bytes), at, n) != ATOLL_CACHE_DIGEST_BYTES)
            continue;
        expected->kind = ATOLL_CACHE_SHA256;
        memcpy(expected->bytes, bytes, ATOLL_CACHE_DIGEST_BYTES);
    }
}

/* Reading. */

static void absent(void *arg)
{
    struct atoll_exchange *x = arg;

    x->read = NULL;
    atoll_upstream_find(x);
}

static void head(void *arg, const struct atoll_cache_head *stored)
{
    struct atoll_exchange *x = arg;

    (void)!atoll_http_set_header(x->req, "cache-status", "atoll; hit");
    /* The fields were sent once before: they can be sent. */
    (void)!atoll_exchange_head(x, 200, "", stored->fields, (int64_t)stored->size);
}

static bool piece(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_exchange *x = arg;
    bool full;

    return atoll_exchange_body(x, bytes, n, &full) && !full;
}

static void end(void *arg)
{
    static const struct atoll_buf no_fields;
    struct atoll_exchange *x = arg;

    x->read = NULL;
    atoll_exchange_end(x, &no_fields);
}

static void failed(void *arg)
{
    struct atoll_exchange *x = arg;

    x->read = NULL;
    atoll_exchange_fail(x, "the download that is kept here is damaged");
}

static const struct atoll_cache_reader reader = {absent, head, piece, end, failed};

static char *print_url(const struct atoll_intercept *i, const char *target)
{
    char url[URL_MAX];
    int n = snprintf(url, sizeof(url), "%s://%s:%u%s", i->tls ? "https" : "http", i->name, i->port,
                     target);

    return n > 0 && (size_t)n < sizeof(url) ? strdup(url) : NULL;
}

bool atoll_exchange_from_cache(struct atoll_exchange *x)
{
    struct atoll_intercept *i = x->intercept;
    const char *tenant = NULL, *target = atoll_buf_str(&x->target);

    x->cache = i->hooks->cache ? i->hooks->cache(i->arg, &tenant) : NULL;
    if (!atoll_cache_table_of(x->cache) || x->upgrade || atoll_http_method(x->req) != ATOLL_GET ||
        atoll_http_content_length(x->req) != 0 || !is_impersonal(x->req) ||
        !atoll_cache_table_find(atoll_cache_table_of(x->cache), i->name, i->port, target,
                                &x->expected))
        return false;
    x->url = print_url(i, target);
    if (!x->url)
        return false;
    atoll_exchange_make_plain(x);
    /* Without a digest, only the connection tells that the answer is that of this request: earlier requests
     * of the sandbox may have left a server with an answer too many. */
    x->fresh = x->expected.kind == ATOLL_CACHE_NO_DIGEST;
    x->read = atoll_cache_find(x->cache, x->url, tenant, &reader, x);
    return x->read;
}

/* Writing. */

static void drained(void *arg)
{
    struct atoll_exchange *x = arg;

    if (x->up && atoll_http_pending(x->req) <= ATOLL_HTTP_HIGH_WATER)
        x->up->wire->resume(x);
}

void atoll_exchange_keep_head(struct atoll_exchange *x, int status, const struct atoll_buf *fields,
                              int64_t length)
{
    struct atoll_cache_expected expected = x->expected, told = {0};
    struct atoll_cache_head answer = {.url = x->url, .size = (uint64_t)length};
    const char *name, *value, *tenant = NULL;
    struct atoll_buf out;
    bool fits = true;

    if (!x->url || x->read)
        return;
    x->missed = true;
    atoll_cache_count_miss(x->cache);
    if (status != 200 || length <= 0 ||
        x->intercept->hooks->cache(x->intercept->arg, &tenant) != x->cache)
        return;
    atoll_buf_init(&out, FIELDS_MAX);
    for (size_t at = 0; fits && atoll_intercept_next_field(fields, &at, &name, &value);) {
        fits = is_public(name, value);
        read_digest(name, value, &told);
        if (fits && is_one_of(name, kept, ATOLL_ARRAY_LEN(kept)))
            fits = atoll_buf_append(&out, name, strlen(name) + 1) == 0 &&
                   atoll_buf_append(&out, value, strlen(value) + 1) == 0;
    }
    answer.fields = &out;
    if (expected.kind == ATOLL_CACHE_NO_DIGEST)
        expected = told;
    if (fits)
        x->write = atoll_cache_begin(x->cache, tenant, &answer, &expected, drained, x);
    atoll_buf_done(&out);
}

bool atoll_exchange_keep_body(struct atoll_exchange *x, const uint8_t *bytes, size_t n)
{
    if (x->missed)
        atoll_cache_count_bytes(x->cache, n);
    if (!x->write)
        return false;
    atoll_cache_write(x->write, bytes, n);
    return atoll_cache_write_pending(x->write) >= ATOLL_CACHE_PENDING;
}

void atoll_exchange_leave_cache(struct atoll_exchange *x, bool complete)
{
    if (x->read)
        atoll_cache_read_cancel(ATOLL_TAKE_PTR(x->read));
    if (x->write)
        atoll_cache_end(ATOLL_TAKE_PTR(x->write), complete);
    free(x->url);
    x->url = NULL;
}
