#include "guard/redact.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"

#define REDACTED "[redacted]"
#define TOKEN_MIN 16
#define ELEMENTS_MAX 20

static bool is_run(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool has_part(const char *name, size_t n, const char *part)
{
    size_t len = strlen(part);

    for (size_t i = 0; i + len <= n; i++)
        if (strncasecmp(name + i, part, len) == 0)
            return true;
    return false;
}

bool atoll_guard_is_secret_name(const char *name, size_t n)
{
    static const char *const parts[] = {"password",     "passwd",     "passphrase",  "secret",
                                        "token",        "api_key",    "api-key",     "apikey",
                                        "access_key",   "access-key", "private_key", "credential",
                                        "authorization"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(parts); i++)
        if (has_part(name, n, parts[i]))
            return true;
    return false;
}

static bool is_token(const char *run, size_t n)
{
    static const char *const beginnings[] = {
        "sk-",   "sk_",  "ghp_", "gho_", "ghs_",  "github_pat_", "glpat-", "xoxb-",
        "xoxp-", "AKIA", "eyJ",  "npm_", "pypi-", "hf_",         "atoll_", "e2b_"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(beginnings); i++)
        if (n >= TOKEN_MIN && strncmp(run, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static bool is_word(const char *run, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(run, word, n) == 0;
}

/* Length of what stands between a name and its value; 0: no value follows. */
static size_t gap(const char *run, size_t n, const char *p, const char *end)
{
    const char *at = p;

    while (at < end && (*at == '"' || *at == '\''))
        at++;
    while (at < end && *at == ' ')
        at++;
    if (at < end && (*at == '=' || *at == ':')) {
        at++;
        while (at < end && (*at == ' ' || *at == '"' || *at == '\''))
            at++;
        return (size_t)(at - p);
    }
    /* --password VALUE */
    return *run == '-' && n > 2 && at > p ? (size_t)(at - p) : 0;
}

static size_t value_length(const char *p, const char *end)
{
    const char *at = p;

    while (at < end && !strchr(" \t\r\n\"'`;&|<>()", *at))
        at++;
    return (size_t)(at - p);
}

/* The value of a name: a variable of the shell is shown. Returns what was consumed, or -errno. */
static ssize_t put_value(const char *p, const char *end, struct atoll_buf *out)
{
    size_t n = value_length(p, end), scheme = 0;
    int r;

    if (is_word(p, n, "Bearer") || is_word(p, n, "Basic") || is_word(p, n, "Token")) {
        scheme = n;
        while (p + scheme < end && p[scheme] == ' ')
            scheme++;
        n = scheme + value_length(p + scheme, end);
    }
    if (n == scheme || p[scheme] == '$')
        return (r = atoll_buf_append(out, p, n)) < 0 ? r : (ssize_t)n;
    r = atoll_buf_append(out, p, scheme);
    if (r == 0)
        r = atoll_buf_appends(out, REDACTED);
    return r < 0 ? r : (ssize_t)n;
}

/* ://user:password@ ; p is behind "//". Returns what was consumed. */
static ssize_t put_user(const char *p, const char *end, struct atoll_buf *out)
{
    const char *at = p, *colon = NULL;
    int r;

    while (at < end && !strchr("/@ \t\r\n\"'", *at)) {
        if (*at == ':' && !colon)
            colon = at;
        at++;
    }
    if (at == end || *at != '@' || !colon)
        return 0;
    r = atoll_buf_append(out, p, (size_t)(colon + 1 - p));
    if (r == 0)
        r = atoll_buf_appends(out, REDACTED);
    return r < 0 ? r : (ssize_t)(at - p);
}

/* A run of letters: a name, a token, or neither. Returns what was consumed. */
static ssize_t put_run(const char *p, const char *end, struct atoll_buf *out)
{
    const char *at = p;
    size_t n, between;
    ssize_t value;
    int r;

    while (at < end && is_run(*at))
        at++;
    n = (size_t)(at - p);
    if (is_token(p, n))
        return (r = atoll_buf_appends(out, REDACTED)) < 0 ? r : (ssize_t)n;
    between = atoll_guard_is_secret_name(p, n) ? gap(p, n, at, end) : 0;
    r = atoll_buf_append(out, p, n + between);
    if (r < 0 || between == 0)
        return r < 0 ? r : (ssize_t)n;
    value = put_value(at + between, end, out);
    return value < 0 ? value : (ssize_t)(n + between) + value;
}

int atoll_guard_redact_text(const char *text, size_t n, struct atoll_buf *out)
{
    const char *p = text, *end = text + n;

    while (p < end) {
        ssize_t used;

        if (is_run(*p)) {
            used = put_run(p, end, out);
        } else {
            used = atoll_buf_append(out, p, 1);
            if (used == 0)
                used = *p == '/' && p > text && p[-1] == '/' ? put_user(p + 1, end, out) : 0;
            used += used >= 0;
        }
        if (used < 0)
            return (int)used;
        p += used;
    }
    return 0;
}

/* --- arguments --- */

/* Where to cut so that no character is cut. */
static size_t cut_at(const char *text, size_t n, size_t most)
{
    if (n <= most)
        return n;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

static json_t *redact_string(const json_t *value, size_t most)
{
    const char *text = json_string_value(value);
    size_t n = json_string_length(value), shown = cut_at(text, n, most);
    struct atoll_buf out;
    json_t *copy = NULL;

    atoll_buf_init(&out, 16 * most + 256);
    if (atoll_guard_redact_text(text, shown, &out) == 0 &&
        (shown == n || atoll_buf_appendf(&out, " [%zu bytes more]", n - shown) == 0))
        copy = json_stringn((const char *)atoll_buf_head(&out), atoll_buf_size(&out));
    atoll_buf_done(&out);
    return copy ? copy : json_string(REDACTED);
}

static json_t *redact(const json_t *value, size_t most, unsigned depth);

static json_t *redact_object(const json_t *value, size_t most, unsigned depth)
{
    json_t *copy = json_object(), *member;
    const char *name;
    size_t count = 0;

    json_object_foreach((json_t *)value, name, member)
    {
        if (count++ == ELEMENTS_MAX)
            break;
        (void)json_object_set_new(
            copy, name,
            (json_is_string(member) || json_is_array(member) || json_is_object(member)) &&
                    atoll_guard_is_secret_name(name, strlen(name))
                ? json_string(REDACTED)
                : redact(member, most, depth + 1));
    }
    return copy;
}

static json_t *redact(const json_t *value, size_t most, unsigned depth)
{
    json_t *copy;

    if (json_is_string(value))
        return redact_string(value, most);
    if (depth > 4 && (json_is_object(value) || json_is_array(value)))
        return json_string("[nested]");
    if (json_is_object(value))
        return redact_object(value, most, depth);
    if (!json_is_array(value))
        return json_copy((json_t *)value);
    copy = json_array();
    for (size_t i = 0; i < json_array_size(value) && i < ELEMENTS_MAX; i++)
        (void)json_array_append_new(copy, redact(json_array_get(value, i), most, depth + 1));
    return copy;
}

char *atoll_guard_redact(const json_t *args)
{
    char *text = NULL;

    for (size_t most = 4096; most >= 16; most /= 4) {
        json_t *copy = redact(args, most, 0);

        free(text);
        text = copy ? json_dumps(copy, JSON_COMPACT) : NULL;
        json_decref(copy);
        if (!text || strlen(text) <= ATOLL_GUARD_ARGS_MAX)
            return text;
    }
    free(text);
    return strdup("{\"left_out\":\"the arguments are too large for a record\"}");
}
