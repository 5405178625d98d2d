/*
 * Small texts that we take apart ourselves: targets, queries, hosts, cookies, trace contexts, cursors,
 * times, numbers, sizes, patterns, base64, .dockerignore. The first byte chooses which; a NUL cuts the rest in two
 * where two are wanted. What was made of a text must keep what its header promises, and what we write
 * we read back.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include "api/e2b/list_query.h"
#include "api/kit/rfc3339.h"
#include "api/preview_rules.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/glob.h"
#include "base/text.h"
#include "base/trace.h"
#include "fuzz.h"
#include "image/dockerignore.h"
#include "net/url.h"

#define DOMAIN "p.test"

static void put_pair(struct atoll_buf *out, const char *name, const char *value)
{
    FUZZ_CHECK(atoll_buf_appends(out, atoll_buf_size(out) ? "&" : "") == 0);
    FUZZ_CHECK(atoll_url_encode(out, name, false) == 0);
    FUZZ_CHECK(atoll_buf_appends(out, "=") == 0 && atoll_url_encode(out, value, false) == 0);
}

static void fuzz_path(const char *text, const char *other)
{
    char *path = strdup(text);
    struct atoll_buf out;

    (void)other;
    FUZZ_CHECK(path);
    if (atoll_url_decode_path(path) >= 0) {
        char *again;
        FUZZ_CHECK(strlen(path) <= strlen(text) && !strstr(path, "/../") && !strstr(path, "/./"));
        atoll_buf_init(&out, 3 * strlen(path) + 1);
        FUZZ_CHECK(atoll_url_encode(&out, path, true) == 0);
        again = strdup(atoll_buf_str(&out));
        FUZZ_CHECK(again && atoll_url_decode_path(again) == 0 && strcmp(again, path) == 0);
        free(again);
        atoll_buf_done(&out);
    }
    free(path);
}

/* Pairs, written again and read again, are the same pairs. */
static void fuzz_query(const char *text, const char *other)
{
    struct atoll_buf pairs, query, again;
    const char *p;
    size_t n;

    atoll_buf_init(&pairs, 2 * strlen(text) + 2);
    atoll_buf_init(&query, 8 * strlen(text) + 8);
    atoll_buf_init(&again, 8 * strlen(text) + 8); /* as it was escaped */
    if (atoll_url_decode_query(&pairs, text, strlen(text)) == 0) {
        p = (const char *)atoll_buf_head(&pairs);
        n = atoll_buf_size(&pairs);
        FUZZ_CHECK(n == 0 || p[n - 1] == '\0');
        for (size_t at = 0; at < n;) {
            const char *value = p + at + strlen(p + at) + 1;
            FUZZ_CHECK(atoll_url_pair(p, n, p + at));
            put_pair(&query, p + at, value);
            at = (size_t)(value - p) + strlen(value) + 1;
        }
        (void)(n && atoll_url_pair(p, n, other));
        FUZZ_CHECK(atoll_url_decode_query(&again, atoll_buf_str(&query), atoll_buf_size(&query)) ==
                   0);
        FUZZ_CHECK(atoll_buf_size(&again) == n &&
                   (n == 0 || memcmp(atoll_buf_head(&again), p, n) == 0));
    }
    atoll_buf_clear(&pairs);
    (void)!atoll_e2b_metadata_decode(&pairs, text);
    atoll_buf_done(&pairs);
    atoll_buf_done(&query);
    atoll_buf_done(&again);
}

static void fuzz_host(const char *text, const char *other)
{
    const char *const names[] = {"x", other, NULL};
    struct atoll_preview_name name;
    const char *rest, *authority;
    char host[64];
    uint16_t port;
    size_t n;

    if (atoll_url_split_host(text, host, sizeof(host), &port) == 0)
        FUZZ_CHECK(*host && strlen(host) < sizeof(host) && strlen(host) < strlen(text));
    if (atoll_preview_parse_host(text, DOMAIN, &name)) {
        FUZZ_CHECK(name.port > 0 && strlen(name.sandbox_id) >= 20 && strlen(name.sandbox_id) <= 40);
        FUZZ_CHECK(atoll_preview_in_domain(text, DOMAIN));
        FUZZ_CHECK(!atoll_host_is_own(text, (const char *const[]){"x", NULL}));
    }
    (void)atoll_host_is_own(text, names);
    if (atoll_preview_parse_path(text, &name, &rest))
        FUZZ_CHECK(rest >= text && rest <= text + strlen(text) && strchr("/?", *rest));
    rest = atoll_target_path(text, &authority, &n);
    FUZZ_CHECK(rest >= text && rest <= text + strlen(text));
    FUZZ_CHECK(!authority || (authority + n == rest && authority > text));
}

/* What is left is never longer than it was: the callers' room is no more than that. */
static void fuzz_cookies(const char *text, const char *other)
{
    char *out = malloc(strlen(text) + 1);
    const char *value;
    size_t n;

    FUZZ_CHECK(out);
    value = atoll_preview_find_cookie(text, &n);
    FUZZ_CHECK(!value || (value >= text && value + n <= text + strlen(text)));
    atoll_preview_strip_cookies(text, out);
    FUZZ_CHECK(strlen(out) <= strlen(text) && !atoll_preview_find_cookie(out, &n));
    if (atoll_preview_clean_set_cookie(text, out))
        FUZZ_CHECK(strlen(out) <= strlen(text) && !strcasestr(out, "; domain="));
    (void)atoll_preview_strip_token(text, other, out);
    FUZZ_CHECK(strlen(out) <= strlen(text));
    (void)atoll_preview_holds_key(text);
    free(out);
}

static void fuzz_time(const char *text, const char *other)
{
    struct atoll_e2b_cursor cursor, again;
    char word[ATOLL_E2B_CURSOR_MAX + 1];
    int64_t us;

    (void)other;
    (void)!atoll_rfc3339_parse(text, &us);
    if (atoll_e2b_cursor_parse(text, &cursor) == 0 && cursor.unix_ms >= 0) {
        FUZZ_CHECK(atoll_text_is_id(cursor.id));
        atoll_e2b_cursor_format(&cursor, word);
        FUZZ_CHECK(atoll_e2b_cursor_parse(word, &again) == 0);
        FUZZ_CHECK(again.unix_ms == cursor.unix_ms && again.ascending == cursor.ascending &&
                   strcmp(again.id, cursor.id) == 0);
    }
}

static void fuzz_number(const char *text, const char *other)
{
    char out[16];
    uint64_t number, size;
    double real;

    (void)other;
    if (atoll_text_u64(text, 3, 1000, &number) == 0)
        FUZZ_CHECK(number >= 3 && number <= 1000);
    if (atoll_text_double(text, -1, 10, &real) == 0)
        FUZZ_CHECK(real >= -1 && real <= 10);
    if (atoll_text_size(text, &size) == 0 && size < UINT64_C(1) << 49)
        FUZZ_CHECK(atoll_text_size(atoll_text_format_size(size, out), &number) == 0);
    if (atoll_text_is_id(text))
        FUZZ_CHECK(atoll_text_is_name(text) && strlen(text) <= 32);
}

static void fuzz_quote(const char *text, const char *other)
{
    struct atoll_buf out;
    json_t *json;

    (void)other;
    atoll_buf_init(&out, 8 * strlen(text) + 8);
    FUZZ_CHECK(atoll_text_json_quote(&out, text, strlen(text)) == 0);
    json =
        json_loadb((const char *)atoll_buf_head(&out), atoll_buf_size(&out), JSON_DECODE_ANY, NULL);
    FUZZ_CHECK(json_is_string(json));
    json_decref(json);
    atoll_buf_done(&out);
}

static void fuzz_glob(const char *pattern, const char *path)
{
    char *literal = malloc(2 * strlen(path) + 1);
    size_t n = 0;

    FUZZ_CHECK(literal);
    (void)atoll_glob_match(pattern, path);
    for (const char *p = path; *p; p++) {
        if (*p != '/')
            literal[n++] = '\\';
        literal[n++] = *p;
    }
    literal[n] = '\0';
    /* Every character written out: that is the path itself. */
    if (*path && !strstr(path, "//") && path[0] != '/' && path[strlen(path) - 1] != '/')
        FUZZ_CHECK(atoll_glob_match(literal, path));
    free(literal);
}

static void fuzz_base64(const char *text, const char *other)
{
    struct atoll_buf bytes, again;

    (void)other;
    atoll_buf_init(&bytes, strlen(text) + 4);
    atoll_buf_init(&again, 2 * strlen(text) + 8);
    if (atoll_base64_decode(&bytes, text, strlen(text)) == 0) {
        /* Canonical: there is one text for some bytes. */
        FUZZ_CHECK(atoll_base64_encode(&again, atoll_buf_head(&bytes), atoll_buf_size(&bytes)) ==
                   0);
        FUZZ_CHECK(strcmp(atoll_buf_str(&again), text) == 0);
    }
    atoll_buf_clear(&bytes);
    atoll_buf_clear(&again);
    FUZZ_CHECK(atoll_base64_encode(&again, text, strlen(text)) == 0);
    FUZZ_CHECK(atoll_base64_decode(&bytes, atoll_buf_str(&again), atoll_buf_size(&again)) == 0);
    FUZZ_CHECK(atoll_buf_size(&bytes) == strlen(text) && strcmp(atoll_buf_str(&bytes), text) == 0);
    atoll_buf_done(&bytes);
    atoll_buf_done(&again);
}

static void fuzz_trace(const char *text, const char *other)
{
    char out[ATOLL_TRACE_TEXT_MAX];
    struct atoll_trace trace, again;

    (void)other;
    atoll_trace_init(&trace, text);
    if (!*trace.id)
        return;
    FUZZ_CHECK(strncmp(trace.id, text + 3, 32) == 0 && strlen(trace.id) == 32);
    atoll_trace_init(&again, atoll_trace_format(&trace, out));
    FUZZ_CHECK(strcmp(again.id, trace.id) == 0);
}

/* Lines of a .dockerignore, and a path. */
static void fuzz_ignore(const char *lines, const char *path)
{
    struct atoll_dockerignore *d = calloc(1, sizeof(*d));

    FUZZ_CHECK(d);
    if (atoll_dockerignore_parse(d, lines, NULL) == 0) {
        bool ignored = atoll_dockerignore_match(d, path);
        FUZZ_CHECK(d->count <= ATOLL_DOCKERIGNORE_MAX && (!ignored || d->count > 0));
        for (size_t i = 0; i < d->count; i++)
            FUZZ_CHECK(*d->lines[i].pattern && (!d->lines[i].except || d->excepts));
    }
    atoll_dockerignore_done(d);
    free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const char *, const char *) = {
        fuzz_path,  fuzz_query, fuzz_host,   fuzz_cookies, fuzz_time,   fuzz_number,
        fuzz_quote, fuzz_glob,  fuzz_base64, fuzz_trace,   fuzz_ignore,
    };
    char *one, *two;
    size_t n;

    if (size < 1 || size > 8192)
        return 0;
    /* On the heap, so that a step too far is noticed. */
    one = strndup((const char *)data + 1, size - 1);
    FUZZ_CHECK(one);
    n = ATOLL_MIN(strlen(one) + 2, size); /* behind the NUL, if there is one */
    two = strndup((const char *)data + n, size - n);
    FUZZ_CHECK(two);
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](one, two);
    free(one);
    free(two);
    return 0;
}
