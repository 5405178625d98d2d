#include "image/copy_pattern.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include "base/text.h"

bool atoll_copy_has_pattern(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '*' || text[i] == '?' || text[i] == '[')
            return true;
        if (text[i] == '\\')
            i++;
    }
    return false;
}

void atoll_copy_clean(const char *path, char *out)
{
    size_t len = 0;

    while (*path) {
        size_t n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0) {
            while (len > 0 && out[--len] != '/')
                ;
        } else if (n > 0 && !(n == 1 && *path == '.')) {
            if (len > 0)
                out[len++] = '/';
            memcpy(out + len, path, n);
            len += n;
        }
        path += n + (path[n] == '/');
    }
    out[len] = '\0';
}

static size_t char_len(const char *p)
{
    size_t n = atoll_text_utf8_len((const uint8_t *)p, strnlen(p, 4));

    return n > 0 ? n : 1;
}

/* One character of a set, which may be quoted; the length with its quote, or 0 if it is not valid. */
static size_t set_char(const char *p, const char **ret)
{
    size_t quote = *p == '\\';

    *ret = p + quote;
    if (!p[quote] || (!quote && (*p == '-' || *p == ']')))
        return 0;
    return quote + char_len(p + quote);
}

static int compare(const char *a, const char *b)
{
    size_t n = char_len(a), m = char_len(b);
    int c = memcmp(a, b, n < m ? n : m);

    return c ? c : (n > m) - (n < m);
}

/* A set, behind "[". *ret_end is behind "]". 1, 0, -EINVAL. */
static int match_set(const char *p, const char *c, const char **ret_end)
{
    bool negated = *p == '^', found = false;
    const char *low, *high;

    p += negated;
    for (bool first = true; first || *p != ']'; first = false) {
        size_t n = set_char(p, &low);
        if (n == 0)
            return -EINVAL;
        p += n;
        high = low;
        if (*p == '-') {
            n = set_char(p + 1, &high);
            if (n == 0)
                return -EINVAL;
            p += 1 + n;
        }
        found = found || (*c && compare(low, c) <= 0 && compare(c, high) <= 0);
    }
    *ret_end = p + 1;
    return *c && *c != '/' && found != negated;
}

/* One element of a pattern that is not "*" against the character at c, which may be the end. */
static int match_one(const char *p, const char *c, const char **ret_end)
{
    switch (*p) {
    case '[':
        return match_set(p + 1, c, ret_end);
    case '?':
        *ret_end = p + 1;
        return *c && *c != '/';
    case '\\':
        if (!p[1])
            return -EINVAL;
        p++;
        break;
    default:
        break;
    }
    *ret_end = p + char_len(p);
    return *c && char_len(c) == char_len(p) && memcmp(p, c, char_len(p)) == 0;
}

static bool is_valid(const char *pattern)
{
    const char *end;

    for (; *pattern; pattern = end) {
        end = pattern + 1;
        if (*pattern != '*' && match_one(pattern, "", &end) < 0)
            return false;
    }
    return true;
}

int atoll_copy_pattern_match(const char *pattern, const char *path)
{
    const char *star = NULL, *retry = NULL, *end = NULL;

    if (!is_valid(pattern))
        return -EINVAL;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = path;
            continue;
        }
        if (!*pattern && !*path)
            return 1;
        if (*pattern && match_one(pattern, path, &end) > 0) {
            pattern = end;
            path += char_len(path);
            continue;
        }
        /* The last "*" takes one more character, which is not "/". */
        if (!star || !*retry || *retry == '/')
            return 0;
        retry += char_len(retry);
        path = retry;
        pattern = star;
    }
}
