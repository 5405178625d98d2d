#include "api/kit/unpack.h"

#include <errno.h>
#include <strings.h>

#define PLAIN_BYTES ((size_t)64 * 1024)
#define GZIP_ONLY 16 /* zlib adds this to the window size to select gzip */

int atoll_unpack_init(struct atoll_unpack *u, const char *coding, size_t max)
{
    *u = (struct atoll_unpack){.at_edge = true};
    atoll_buf_init(&u->in, max);
    if (!coding || strcasecmp(coding, "identity") == 0)
        return 0;
    if (strcasecmp(coding, "gzip") != 0)
        return -EINVAL;
    u->plain = malloc(PLAIN_BYTES);
    if (!u->plain || inflateInit2(&u->z, GZIP_ONLY + MAX_WBITS) != Z_OK)
        return -ENOMEM;
    u->gzip = true;
    return 0;
}

void atoll_unpack_done(struct atoll_unpack *u)
{
    if (u->gzip)
        (void)inflateEnd(&u->z);
    free(u->plain);
    atoll_buf_done(&u->in);
}

int atoll_unpack_add(struct atoll_unpack *u, const void *bytes, size_t n)
{
    return atoll_buf_append(&u->in, bytes, n);
}

/* One call of zlib, which makes progress or needs more input. */
static int inflate_some(struct atoll_unpack *u)
{
    size_t given = ATOLL_MIN(atoll_buf_size(&u->in), (size_t)1 << 20);
    int r;

    if (u->at_edge && inflateReset(&u->z) != Z_OK) /* a body may have several members */
        return -EBADMSG;
    u->at_edge = false;
    u->z.next_in = (Bytef *)atoll_buf_head(&u->in);
    u->z.avail_in = (uInt)given;
    u->z.next_out = u->plain;
    u->z.avail_out = (uInt)PLAIN_BYTES;
    r = inflate(&u->z, Z_NO_FLUSH);
    atoll_buf_consume(&u->in, given - u->z.avail_in);
    u->plain_at = 0;
    u->plain_len = PLAIN_BYTES - u->z.avail_out;
    u->at_edge = r == Z_STREAM_END;
    return r == Z_OK || r == Z_STREAM_END ? 0 : -EBADMSG;
}

int atoll_unpack_view(struct atoll_unpack *u, const uint8_t **p, size_t *n)
{
    int r = 0;

    while (u->gzip && r == 0 && u->plain_at == u->plain_len && atoll_buf_size(&u->in) > 0)
        r = inflate_some(u);
    *p = u->gzip ? u->plain + u->plain_at : atoll_buf_head(&u->in);
    *n = u->gzip ? u->plain_len - u->plain_at : atoll_buf_size(&u->in);
    return r;
}

void atoll_unpack_consume(struct atoll_unpack *u, size_t n)
{
    if (u->gzip)
        u->plain_at += n;
    else
        atoll_buf_consume(&u->in, n);
}

bool atoll_unpack_is_whole(const struct atoll_unpack *u)
{
    return !u->gzip || u->at_edge;
}
