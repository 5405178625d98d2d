#include "base/glob.h"

#include <string.h>
#include "base/text.h"

/* A path or pattern component: the text between two slashes. */
struct segment {
    const char *at, *end; /* at NULL: past the last one */
};

static struct segment segment_at(const char *at)
{
    return (struct segment){at, at ? at + strcspn(at, "/") : NULL};
}

static struct segment next_segment(struct segment s)
{
    return segment_at(*s.end == '/' ? s.end + 1 : NULL);
}

static size_t char_len(const char *s, const char *end)
{
    size_t n = atoll_text_utf8_len((const uint8_t *)s, (size_t)(end - s));
    return n > 0 ? n : 1;
}

/* The "]" that ends the set "[…]" at p, or NULL. A "]" directly after "[" or "[!" is a member of the
 * set. */
static const char *set_end(const char *p, const char *end)
{
    p += p + 1 < end && p[1] == '!' ? 2 : 1;
    for (p++; p < end && *p != ']'; p++)
        ;
    return p < end ? p : NULL;
}

static bool set_has(const char *p, const char *end, const char *s, size_t len)
{
    bool negated = p[1] == '!', found = false;
    unsigned char c = (unsigned char)*s;

    for (p += negated ? 2 : 1; p < end; p++) {
        if (p + 2 < end && p[1] == '-') {
            found |= len == 1 && (unsigned char)p[0] <= c && c <= (unsigned char)p[2];
            p += 2;
        } else {
            found |= len == 1 && (unsigned char)*p == c;
        }
    }
    return found != negated;
}

/* Matches one element of the pattern with the next character of s; advances both on success. */
static bool take_one(const char **p, const char *p_end, const char **s, const char *s_end)
{
    const char *at = *p, *end = at < p_end && *at == '[' ? set_end(at, p_end) : NULL;
    size_t len = char_len(*s, s_end);
    bool is_it;

    if (at >= p_end)
        return false;
    if (*at == '?') {
        is_it = true;
    } else if (end) {
        is_it = set_has(at, end, *s, len);
        at = end;
    } else {
        at += *at == '\\' && at + 1 < p_end;
        is_it = *at == **s;
        len = 1;
    }
    if (!is_it)
        return false;
    *p = at + 1;
    *s += len;
    return true;
}

static bool shows_dot(struct segment pattern)
{
    const char *p = pattern.at;
    return p < pattern.end && (*p == '.' || (*p == '\\' && p + 1 < pattern.end && p[1] == '.'));
}

/* On a mismatch only the last "*" takes one more character: everything before it has already matched at
 * the earliest possible position. */
static bool segment_matches(struct segment pattern, struct segment path, bool dots)
{
    const char *p = pattern.at, *s = path.at, *star = NULL, *retry = NULL;

    if (!dots && *s == '.' && !shows_dot(pattern))
        return false;
    while (s < path.end) {
        if (p < pattern.end && *p == '*') {
            star = p++;
            retry = s;
        } else if (!take_one(&p, pattern.end, &s, path.end)) {
            if (!star)
                return false;
            p = star + 1;
            s = ++retry;
        }
    }
    while (p < pattern.end && *p == '*')
        p++;
    return p == pattern.end;
}

/* "**", or the empty component after a final slash. */
static bool is_any(struct segment s)
{
    return s.at && (s.end == s.at || (s.end - s.at == 2 && memcmp(s.at, "**", 2) == 0));
}

/* The algorithm of segment_matches(), with components instead of characters. */
static bool matches(const char *pattern, const char *path, bool dots)
{
    struct segment p = segment_at(pattern), s = segment_at(path), star = {0}, retry = {0};
    bool has_star = false;

    while (s.at) {
        if (is_any(p)) {
            has_star = true;
            star = p = next_segment(p);
            retry = s;
        } else if (p.at && segment_matches(p, s, dots)) {
            p = next_segment(p);
            s = next_segment(s);
        } else if (has_star && (dots || *retry.at != '.')) {
            s = retry = next_segment(retry);
            p = star;
        } else {
            return false;
        }
    }
    return !p.at;
}

bool atoll_glob_match(const char *pattern, const char *path)
{
    return matches(pattern, path, false);
}

bool atoll_glob_match_dots(const char *pattern, const char *path)
{
    return matches(pattern, path, true);
}
