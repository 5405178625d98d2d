#include <string.h>
#include <strings.h>
#include "api/tool/tool_internal.h"

/*
 * The text of an HTML page, for models: without tags, scripts and styles. It is no
 * parser of HTML: what is not well-formed becomes text.
 */
static const struct {
    const char *name, *text;
} entities[] = {{"amp;", "&"},   {"lt;", "<"},       {"gt;", ">"},    {"quot;", "\""},
                {"#39;", "'"},   {"apos;", "'"},     {"nbsp;", " "},  {"mdash;", "\xe2\x80\x94"},
                {"ndash;", "-"}, {"hellip;", "..."}, {"copy;", "(c)"}};

static bool is_tag(const char *p, const char *end, const char *name)
{
    size_t n = strlen(name);

    return (size_t)(end - p) > n && strncasecmp(p, name, n) == 0 && strchr(" \t\r\n/>", p[n]);
}

static const char *find(const char *p, const char *end, const char *what)
{
    size_t n = strlen(what);

    for (; (size_t)(end - p) >= n; p++)
        if (strncasecmp(p, what, n) == 0)
            return p;
    return end;
}

static bool breaks_line(const char *p, const char *end)
{
    static const char *const tags[] = {"p",  "br",  "div",   "li",    "tr",     "h1",
                                       "h2", "h3",  "h4",    "h5",    "h6",     "ul",
                                       "ol", "pre", "table", "title", "section"};

    p += p < end && *p == '/';
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tags); i++)
        if (is_tag(p, end, tags[i]))
            return true;
    return false;
}

/* After '<'. Returns what follows the tag, or the element if it has no text. */
static const char *skip_tag(const char *p, const char *end)
{
    static const char *const silent[] = {"script", "style", "noscript", "svg", "template"};
    const char *close;

    if (end - p >= 3 && strncmp(p, "!--", 3) == 0) {
        close = find(p, end, "-->");
        return close < end ? close + 3 : end;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(silent); i++) {
        char closing[16] = "</";

        if (!is_tag(p, end, silent[i]))
            continue;
        (void)strcat(closing, silent[i]);
        p = find(p, end, closing);
        break;
    }
    close = p < end ? memchr(p, '>', (size_t)(end - p)) : NULL;
    return close ? close + 1 : end;
}

/* After '&': appends the character. Returns what follows. */
static const char *put_entity(const char *p, const char *end, struct atoll_buf *out)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(entities); i++) {
        size_t n = strlen(entities[i].name);

        if ((size_t)(end - p) >= n && memcmp(p, entities[i].name, n) == 0) {
            (void)!atoll_buf_appends(out, entities[i].text);
            return p + n;
        }
    }
    (void)!atoll_buf_appends(out, "&");
    return p;
}

/* At most one blank, and at most two ends of lines in a row. */
static void put_space(struct atoll_buf *out, bool newline)
{
    size_t n = atoll_buf_size(out);
    const uint8_t *bytes = atoll_buf_head(out);

    if (n == 0 || (!newline && (bytes[n - 1] == ' ' || bytes[n - 1] == '\n')) ||
        (newline && n > 1 && bytes[n - 1] == '\n' && bytes[n - 2] == '\n'))
        return;
    (void)!atoll_buf_append(out, newline ? "\n" : " ", 1);
}

void atoll_tool_html_text(const char *html, size_t n, struct atoll_buf *out)
{
    const char *p = html, *end = html + n;

    while (p < end) {
        if (*p == '<') {
            if (breaks_line(p + 1, end))
                put_space(out, true);
            p = skip_tag(p + 1, end);
        } else if (*p == '&') {
            p = put_entity(p + 1, end, out);
        } else if (strchr(" \t\r\n", *p)) { /* NUL too */
            put_space(out, false);
            p++;
        } else if (atoll_buf_append(out, p++, 1) < 0) {
            return;
        }
    }
}
