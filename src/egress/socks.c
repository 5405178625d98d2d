#include "egress/socks.h"

#include <errno.h>
#include <string.h>

#define VERSION 5
#define LOGIN_VERSION 1
#define METHOD_NONE 0
#define METHOD_LOGIN 2
#define COMMAND_CONNECT 1
#define TYPE_V4 1
#define TYPE_NAME 3
#define TYPE_V6 4

enum { METHOD, LOGIN, REPLY };

/* REP of RFC 1928 section 6, from 1. */
static const int replies[] = {EIO,          EACCES,       ENETUNREACH, EHOSTUNREACH,
                              ECONNREFUSED, EHOSTUNREACH, EOPNOTSUPP,  EAFNOSUPPORT};

/* A length in one byte, and the text. */
static int append_text(struct atoll_buf *out, const char *text)
{
    size_t n = strlen(text);
    uint8_t length = (uint8_t)n;
    int r;

    if (n == 0 || n > ATOLL_SOCKS_TEXT_MAX)
        return -EINVAL;
    r = atoll_buf_append(out, &length, 1);
    return r < 0 ? r : atoll_buf_append(out, text, n);
}

int atoll_socks_begin(struct atoll_socks *s, struct atoll_buf *out)
{
    const uint8_t with_login[] = {VERSION, 2, METHOD_NONE, METHOD_LOGIN};
    const uint8_t without[] = {VERSION, 1, METHOD_NONE};

    s->state = METHOD;
    return s->user ? atoll_buf_append(out, with_login, sizeof(with_login))
                   : atoll_buf_append(out, without, sizeof(without));
}

static int append_destination(const struct atoll_socks *s, struct atoll_buf *out)
{
    bool v4 = !s->name && IN6_IS_ADDR_V4MAPPED(s->address);
    const uint8_t type = s->name ? TYPE_NAME : v4 ? TYPE_V4 : TYPE_V6;
    int r = atoll_buf_append(out, &type, 1);

    if (r < 0)
        return r;
    if (s->name)
        return append_text(out, s->name);
    return v4 ? atoll_buf_append(out, &s->address->s6_addr[12], 4)
              : atoll_buf_append(out, s->address->s6_addr, 16);
}

static int ask(struct atoll_socks *s, struct atoll_buf *out)
{
    const uint8_t head[] = {VERSION, COMMAND_CONNECT, 0};
    const uint8_t port[] = {(uint8_t)(s->port >> 8), (uint8_t)s->port};
    int r = atoll_buf_append(out, head, sizeof(head));

    s->state = REPLY;
    if (r == 0)
        r = append_destination(s, out);
    return r < 0 ? r : atoll_buf_append(out, port, sizeof(port));
}

static int login(struct atoll_socks *s, struct atoll_buf *out)
{
    const uint8_t version = LOGIN_VERSION;
    int r = atoll_buf_append(out, &version, 1);

    s->state = LOGIN;
    if (r == 0)
        r = append_text(out, s->user);
    return r < 0 ? r : append_text(out, s->password ? s->password : "");
}

static int on_method(struct atoll_socks *s, struct atoll_buf *in, struct atoll_buf *out)
{
    const uint8_t *p = atoll_buf_head(in);
    uint8_t method;

    if (atoll_buf_size(in) < 2)
        return 0;
    if (p[0] != VERSION)
        return -EPROTO;
    method = p[1];
    atoll_buf_consume(in, 2);
    if (method == METHOD_NONE)
        return ask(s, out);
    return method == METHOD_LOGIN && s->user ? login(s, out) : -EACCES;
}

static int on_login(struct atoll_socks *s, struct atoll_buf *in, struct atoll_buf *out)
{
    const uint8_t *p = atoll_buf_head(in);

    if (atoll_buf_size(in) < 2)
        return 0;
    if (p[1] != 0)
        return -EACCES;
    atoll_buf_consume(in, 2);
    return ask(s, out);
}

static int on_reply(struct atoll_buf *in)
{
    const uint8_t *p = atoll_buf_head(in);
    size_t have = atoll_buf_size(in), want;

    if (have < 5)
        return 0;
    if (p[0] != VERSION)
        return -EPROTO;
    if (p[1] != 0)
        return p[1] <= ATOLL_ARRAY_LEN(replies) ? -replies[p[1] - 1] : -EPROTO;
    if (p[3] != TYPE_V4 && p[3] != TYPE_NAME && p[3] != TYPE_V6)
        return -EPROTO;
    want = 4 + 2 + (p[3] == TYPE_V4 ? 4 : p[3] == TYPE_V6 ? 16 : (size_t)1 + p[4]);
    if (have < want)
        return 0;
    atoll_buf_consume(in, want);
    return 1;
}

int atoll_socks_feed(struct atoll_socks *s, struct atoll_buf *in, struct atoll_buf *out)
{
    int before, r;

    do {
        before = s->state;
        r = before == METHOD  ? on_method(s, in, out)
            : before == LOGIN ? on_login(s, in, out)
                              : on_reply(in);
    } while (r == 0 && s->state != before);
    return r;
}
