#include "net/url.h"

#include <errno.h>
#include <string.h>
#include "base/text.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes the escape at p ("%41"); returns the byte or -EINVAL. */
static int escaped_byte(const char *p, const char *end)
{
    int high, low;

    if (end - p < 3)
        return -EINVAL;
    high = hex_value(p[1]);
    low = hex_value(p[2]);
    return high < 0 || low < 0 ? -EINVAL : high * 16 + low;
}

/* Whether all of [start, end) is "." or "..". */
static bool is_dots(const char *start, const char *end)
{
    return (end - start == 1 || end - start == 2) && *start == '.' && end[-1] == '.';
}

int atoll_url_decode_path(char *path)
{
    const char *end = path + strlen(path);
    char *out = path, *segment = path; /* segment: start of the current one, after '/' or "%2F" */
    int slashes = 0;

    for (const char *p = path; p < end; p++) {
        bool escaped = *p == '%';
        int byte = escaped ? escaped_byte(p, end) : (unsigned char)*p;
        if (byte < 0x20 || byte == 0x7f || (byte == '/' && is_dots(segment, out)))
            return -EINVAL;
        p += escaped ? 2 : 0;
        if (escaped && byte == '/') {
            memcpy(out, ATOLL_URL_SLASH, sizeof(ATOLL_URL_SLASH) - 1);
            out += sizeof(ATOLL_URL_SLASH) - 1;
            slashes = 1;
        } else {
            *out++ = (char)byte;
        }
        segment = byte == '/' ? out : segment;
    }
    *out = '\0';
    return is_dots(segment, out) ? -EINVAL : slashes;
}

/* Appends the decoded [p, end) and a NUL to out. */
static int append_decoded(struct atoll_buf *out, const char *p, const char *end)
{
    uint8_t *tail;
    size_t len = 0;
    int r = atoll_buf_reserve(out, (size_t)(end - p) + 1, &tail);

    if (r < 0)
        return r;
    for (; p < end; p++) {
        int byte = *p == '+' ? ' ' : (unsigned char)*p;
        if (byte == '%') {
            byte = escaped_byte(p, end);
            p += 2;
        }
        if (byte <= 0)
            return -EINVAL;
        tail[len++] = (uint8_t)byte;
    }
    tail[len++] = '\0';
    atoll_buf_commit(out, len);
    return 0;
}

int atoll_url_decode_query(struct atoll_buf *out, const char *query, size_t n)
{
    const char *end = query + n;

    for (const char *p = query; p < end;) {
        const char *stop = memchr(p, '&', (size_t)(end - p));
        const char *equals;
        int r;
        stop = stop ? stop : end;
        equals = memchr(p, '=', (size_t)(stop - p));
        if (stop > p) {
            r = append_decoded(out, p, equals ? equals : stop);
            if (r == 0)
                r = append_decoded(out, equals ? equals + 1 : stop, stop);
            if (r < 0)
                return r;
        }
        p = stop + 1;
    }
    return 0;
}

const char *atoll_url_pair(const char *pairs, size_t n, const char *name)
{
    const char *end = pairs + n;

    for (const char *p = pairs; p < end;) {
        const char *value = p + strlen(p) + 1;
        if (strcmp(p, name) == 0)
            return value;
        p = value + strlen(value) + 1;
    }
    return NULL;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int atoll_url_encode(struct atoll_buf *out, const char *text, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";

    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        const char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
        bool plain = is_unreserved(*p) || (*p == '/' && keep_slash);
        int r = atoll_buf_append(out, plain ? p : escape, plain ? 1 : sizeof(escape));
        if (r < 0)
            return r;
    }
    return 0;
}

int atoll_url_split_host(const char *host_port, char *host, size_t cap, uint16_t *ret_port)
{
    const char *colon = strrchr(host_port, ':');
    const char *start = host_port;
    size_t len;
    uint64_t port;

    if (!colon || atoll_text_u64(colon + 1, 0, UINT16_MAX, &port) < 0)
        return -EINVAL;
    len = (size_t)(colon - host_port);
    if (*start == '[') {
        if (len < 3 || start[len - 1] != ']')
            return -EINVAL;
        start++;
        len -= 2;
    } else if (len == 0 || memchr(start, ':', len)) {
        /* In an IPv6 address without brackets the port would be ambiguous. */
        return -EINVAL;
    }
    if (len >= cap)
        return -ENAMETOOLONG;
    memcpy(host, start, len);
    host[len] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}
