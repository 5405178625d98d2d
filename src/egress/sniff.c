#include "egress/sniff.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define RECORD_HEADER 5
#define RECORD_MAX (16384 + 256)
#define HANDSHAKE_HEADER 4
#define TYPE_HANDSHAKE 22
#define TYPE_CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define METHOD_MAX 32

/* A part of the input that is read from its front. */
struct part {
    const uint8_t *at;
    size_t left;
};

static bool is_address(const char *name)
{
    struct in6_addr out;

    return inet_pton(AF_INET, name, &out) == 1 || inet_pton(AF_INET6, name, &out) == 1;
}

/* Stores a host name in its usual form; false: not a host name. An address leaves the name empty. */
static bool store_name(const uint8_t *bytes, size_t n, struct atoll_sniff *ret)
{
    if (n > 0 && bytes[n - 1] == '.')
        n--;
    if (n == 0 || n >= sizeof(ret->name))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = bytes[i] >= 'A' && bytes[i] <= 'Z' ? bytes[i] | 0x20 : bytes[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !strchr("-_.", c ? c : ' '))
            return false;
        ret->name[i] = (char)c;
    }
    ret->name[n] = '\0';
    if (is_address(ret->name))
        ret->name[0] = '\0';
    return true;
}

/* TLS */

static bool take(struct part *p, size_t n, struct part *ret)
{
    if (n > p->left)
        return false;
    *ret = (struct part){p->at, n};
    p->at += n;
    p->left -= n;
    return true;
}

/* A vector whose length comes before it in `width` bytes. */
static bool take_vector(struct part *p, size_t width, struct part *ret)
{
    struct part head;
    size_t n = 0;

    if (!take(p, width, &head))
        return false;
    for (size_t i = 0; i < width; i++)
        n = n << 8 | head.at[i];
    return take(p, n, ret);
}

static bool take_u16(struct part *p, unsigned *ret)
{
    struct part two;

    if (!take(p, 2, &two))
        return false;
    *ret = (unsigned)two.at[0] << 8 | two.at[1];
    return true;
}

/* RFC 6066 section 3: a list that has one host_name in practice, and must not have two. */
static bool read_server_name(struct part extension, struct atoll_sniff *ret)
{
    struct part list, type, name;

    return take_vector(&extension, 2, &list) && extension.left == 0 && take(&list, 1, &type) &&
           type.at[0] == 0 && take_vector(&list, 2, &name) && list.left == 0 &&
           store_name(name.at, name.left, ret);
}

static bool read_extensions(struct part all, struct atoll_sniff *ret)
{
    bool named = false;

    while (all.left > 0) {
        struct part extension;
        unsigned type;

        if (!take_u16(&all, &type) || !take_vector(&all, 2, &extension))
            return false;
        if (type != EXTENSION_SERVER_NAME)
            continue;
        if (named || !read_server_name(extension, ret))
            return false;
        named = true;
    }
    return true;
}

/* The body of a ClientHello, RFC 8446 section 4.1.2. */
static bool read_hello(struct part hello, struct atoll_sniff *ret)
{
    struct part skipped, extensions;

    if (!take(&hello, 2 + 32, &skipped) || !take_vector(&hello, 1, &skipped) ||
        !take_vector(&hello, 2, &skipped) || !take_vector(&hello, 1, &skipped))
        return false;
    if (hello.left == 0)
        return true; /* TLS 1.0 without extensions */
    return take_vector(&hello, 2, &extensions) && hello.left == 0 &&
           read_extensions(extensions, ret);
}

/* Joins the handshake bytes of the records; a ClientHello may be split over several. false: the records
 * are malformed. */
static bool join_records(struct part in, uint8_t *out, size_t *ret_len)
{
    size_t len = 0;

    while (in.left >= RECORD_HEADER) {
        size_t n = (size_t)in.at[3] << 8 | in.at[4];
        struct part record, header;

        if (in.at[0] != TYPE_HANDSHAKE || in.at[1] != 3 || n == 0 || n > RECORD_MAX)
            return false;
        (void)take(&in, RECORD_HEADER, &header);
        (void)take(&in, ATOLL_MIN(n, in.left), &record);
        memcpy(out + len, record.at, record.left);
        len += record.left;
        if (len >= HANDSHAKE_HEADER &&
            len - HANDSHAKE_HEADER >= ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]))
            break; /* complete: what follows is not looked at */
    }
    *ret_len = len;
    return true;
}

static enum atoll_sniff_kind sniff_tls(struct part in, struct atoll_sniff *ret)
{
    uint8_t joined[ATOLL_SNIFF_MAX];
    size_t len, want;

    if (!join_records(in, joined, &len))
        return ATOLL_SNIFF_BAD;
    if (len > 0 && joined[0] != TYPE_CLIENT_HELLO)
        return ATOLL_SNIFF_BAD;
    if (len < HANDSHAKE_HEADER)
        return ATOLL_SNIFF_MORE;
    want = (size_t)joined[1] << 16 | (size_t)joined[2] << 8 | joined[3];
    if (want > ATOLL_SNIFF_MAX - HANDSHAKE_HEADER)
        return ATOLL_SNIFF_BAD;
    if (len - HANDSHAKE_HEADER < want)
        return ATOLL_SNIFF_MORE;
    return read_hello((struct part){joined + HANDSHAKE_HEADER, want}, ret) ? ATOLL_SNIFF_TLS
                                                                           : ATOLL_SNIFF_BAD;
}

/* HTTP/1 */

static void trim(struct part *p)
{
    while (p->left > 0 && strchr(" \t\r", p->at[0] ? p->at[0] : 'x')) {
        p->at++;
        p->left--;
    }
    while (p->left > 0 && strchr(" \t\r", p->at[p->left - 1] ? p->at[p->left - 1] : 'x'))
        p->left--;
}

/* The next line without its end; false: it is not complete. */
static bool take_line(struct part *p, struct part *ret)
{
    const uint8_t *end = p->left > 0 ? memchr(p->at, '\n', p->left) : NULL;
    struct part newline;

    if (!end)
        return false;
    (void)take(p, (size_t)(end - p->at), ret);
    (void)take(p, 1, &newline);
    if (ret->left > 0 && ret->at[ret->left - 1] == '\r')
        ret->left--;
    return true;
}

/* "example.org", "example.org:8080", "[2001:db8::1]:80"; false: no host can be read. */
static bool store_host(struct part host, struct atoll_sniff *ret)
{
    const uint8_t *colon;

    ret->name[0] = '\0';
    trim(&host);
    if (host.left > 0 && host.at[0] == '[')
        return true;
    colon = host.left > 0 ? memchr(host.at, ':', host.left) : NULL;
    for (size_t i = colon ? (size_t)(colon - host.at) + 1 : host.left; i < host.left; i++)
        if (host.at[i] < '0' || host.at[i] > '9')
            return false;
    return store_name(host.at, colon ? (size_t)(colon - host.at) : host.left, ret);
}

/* The host of "http://user@host:port/path", which a server prefers to the field Host (RFC 9112 section
 * 3.2.2). */
static struct part host_of_target(struct part target)
{
    struct part host = {NULL, 0};

    for (size_t i = 0; i + 2 < target.left && !host.at; i++)
        if (memcmp(target.at + i, "://", 3) == 0)
            host = (struct part){target.at + i + 3, target.left - i - 3};
        else if (strchr("/?#*", target.at[i] ? target.at[i] : '/'))
            break;
    for (size_t i = 0; i < host.left; i++) {
        if (strchr("/?#", host.at[i] ? host.at[i] : '/')) {
            host.left = i;
        } else if (host.at[i] == '@') {
            host.at += i + 1;
            host.left -= i + 1;
            i = (size_t)-1;
        }
    }
    return host;
}

static bool is_field(struct part line, const char *name, struct part *ret_value)
{
    const uint8_t *colon = line.left > 0 ? memchr(line.at, ':', line.left) : NULL;
    struct part field = {line.at, colon ? (size_t)(colon - line.at) : 0};

    trim(&field); /* some servers accept white space before the colon */
    if (!colon || field.left != strlen(name) ||
        strncasecmp((const char *)field.at, name, field.left) != 0)
        return false;
    *ret_value = (struct part){colon + 1, line.left - (size_t)(colon + 1 - line.at)};
    return true;
}

/* The fields after the request line. */
static enum atoll_sniff_kind sniff_fields(struct part in, struct part from_target,
                                          struct atoll_sniff *ret)
{
    struct atoll_sniff field = {.name = ""};
    bool named = false, folded = false;
    struct part line, value;

    if (from_target.at && !store_host(from_target, ret))
        return ATOLL_SNIFF_BAD;
    while (take_line(&in, &line)) {
        if (line.left == 0)
            return ATOLL_SNIFF_HTTP;
        if (memchr(line.at, '\0', line.left) || (folded && strchr(" \t", line.at[0])))
            return ATOLL_SNIFF_BAD;
        folded = is_field(line, "host", &value);
        if (!folded)
            continue;
        if (named || !store_host(value, &field))
            return ATOLL_SNIFF_BAD;
        if (from_target.at && strcmp(field.name, ret->name) != 0)
            return ATOLL_SNIFF_BAD;
        named = true;
        memcpy(ret->name, field.name, sizeof(field.name));
    }
    return ATOLL_SNIFF_MORE;
}

/* Length of a method, 0: something else, or METHOD_MAX while undecided. */
static size_t method_length(struct part in)
{
    size_t n = 0;

    while (n < in.left &&
           ((in.at[n] >= 'A' && in.at[n] <= 'Z') || in.at[n] == '-' || in.at[n] == '_'))
        n++;
    if (n > 0 && n < METHOD_MAX && n == in.left)
        return METHOD_MAX;
    return n < METHOD_MAX && n < in.left && in.at[n] == ' ' ? n : 0;
}

static bool ends_with_version(struct part line)
{
    static const char version[] = "HTTP/1.";
    const size_t n = sizeof(version) - 1;

    trim(&line);
    return line.left > n + 1 && memcmp(line.at + line.left - n - 1, version, n) == 0;
}

static enum atoll_sniff_kind sniff_http(struct part in, struct atoll_sniff *ret)
{
    struct part line, method;
    size_t n;

    /* Servers ignore empty lines before a request (RFC 9112 section 2.2). */
    while (in.left > 0 && (in.at[0] == '\r' || in.at[0] == '\n')) {
        in.at++;
        in.left--;
    }
    n = method_length(in);
    if (in.left == 0 || n == METHOD_MAX)
        return ATOLL_SNIFF_MORE;
    if (n == 0)
        return ATOLL_SNIFF_OTHER;
    if (!take_line(&in, &line))
        return ATOLL_SNIFF_MORE;
    if (!ends_with_version(line) || !take(&line, n + 1, &method))
        return ATOLL_SNIFF_OTHER;
    if (method.left == 8 && memcmp(method.at, "CONNECT ", 8) == 0)
        return ATOLL_SNIFF_OTHER; /* its Host is not the server that is asked */
    return sniff_fields(in, host_of_target(line), ret);
}

void atoll_sniff(const uint8_t *bytes, size_t n, struct atoll_sniff *ret)
{
    struct part in = {bytes, ATOLL_MIN(n, ATOLL_SNIFF_MAX)};

    *ret = (struct atoll_sniff){.kind = ATOLL_SNIFF_MORE};
    if (n == 0)
        return;
    ret->kind = bytes[0] == TYPE_HANDSHAKE ? sniff_tls(in, ret) : sniff_http(in, ret);
    if (ret->kind == ATOLL_SNIFF_MORE && n >= ATOLL_SNIFF_MAX)
        ret->kind = ATOLL_SNIFF_BAD;
    if (ret->kind != ATOLL_SNIFF_TLS && ret->kind != ATOLL_SNIFF_HTTP)
        ret->name[0] = '\0';
}
