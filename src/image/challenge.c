#include "image/challenge.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static const char *skip(const char *p, const char *set)
{
    return p + strspn(p, set);
}

static const char *token_end(const char *p)
{
    while (is_token_char(*p))
        p++;
    return p;
}

/* Copies a token or quoted string; returns what follows it. *fits is cleared if it is too long. */
static const char *take_value(const char *p, char *out, size_t cap, bool *fits)
{
    bool quoted = *p == '"';
    size_t n = 0;

    for (p += quoted; *p && (quoted ? *p != '"' : !strchr(" \t,", *p)); p++) {
        if (quoted && *p == '\\' && p[1])
            p++;
        if (n + 1 < cap)
            out[n++] = *p;
        else
            *fits = false;
    }
    out[n] = '\0';
    return *p == '"' && quoted ? p + 1 : p;
}

/* Reads parameters up to the next scheme: a token that is not followed by "=". */
static const char *take_parameters(const char *p, struct atoll_image_challenge *c, bool *fits)
{
    char other[1024];

    for (;;) {
        const char *name = p = skip(p, " \t,"), *end = token_end(p), *equals = skip(end, " \t");
        size_t n = (size_t)(end - name);
        bool any = true;
        if (n == 0 || *equals != '=')
            return p;
        p = skip(equals + 1, " \t");
        if (n == 5 && strncasecmp(name, "realm", n) == 0)
            p = take_value(p, c->realm, sizeof(c->realm), fits);
        else if (n == 7 && strncasecmp(name, "service", n) == 0)
            p = take_value(p, c->service, sizeof(c->service), fits);
        else
            p = take_value(p, other, sizeof(other), &any);
    }
}

static enum atoll_image_challenge_kind kind_of(const char *scheme, size_t n)
{
    if (n == 6 && strncasecmp(scheme, "bearer", n) == 0)
        return ATOLL_IMAGE_BEARER;
    return n == 5 && strncasecmp(scheme, "basic", n) == 0 ? ATOLL_IMAGE_BASIC
                                                          : ATOLL_IMAGE_NO_CHALLENGE;
}

void atoll_image_challenge_parse(const char *header, struct atoll_image_challenge *ret)
{
    const char *p = skip(header, " \t,");

    *ret = (struct atoll_image_challenge){0};
    while (*p) {
        const char *end = token_end(p);
        struct atoll_image_challenge c = {.kind = kind_of(p, (size_t)(end - p))};
        bool fits = true;
        if (end == p)
            return;
        p = take_parameters(end, &c, &fits);
        if (fits && c.kind > ret->kind && (c.kind != ATOLL_IMAGE_BEARER || *c.realm))
            *ret = c;
    }
}
