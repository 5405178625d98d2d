#include "base/base64.h"

#include <errno.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes (n + 2) / 3 * 4 digits. */
static void encode(uint8_t *to, const uint8_t *p, size_t n)
{
    for (; n > 0; p += 3, to += 4) {
        uint32_t v = (uint32_t)p[0] << 16;
        v |= n > 1 ? (uint32_t)p[1] << 8 : 0;
        v |= n > 2 ? p[2] : 0;
        to[0] = (uint8_t)digits[v >> 18];
        to[1] = (uint8_t)digits[v >> 12 & 63];
        to[2] = (uint8_t)(n > 1 ? digits[v >> 6 & 63] : '=');
        to[3] = (uint8_t)(n > 2 ? digits[v & 63] : '=');
        n -= n > 3 ? 3 : n;
    }
}

int atoll_base64_encode(struct atoll_buf *out, const void *bytes, size_t n)
{
    size_t len = (n + 2) / 3 * 4;
    uint8_t *to;
    int r = atoll_buf_reserve(out, len, &to);

    if (r < 0)
        return r;
    encode(to, bytes, n);
    atoll_buf_commit(out, len);
    return 0;
}

void atoll_base64_text(char *out, const void *bytes, size_t n)
{
    encode((uint8_t *)out, bytes, n);
    out[(n + 2) / 3 * 4] = '\0';
}

/* Fills the table of digit values, -1 for bytes that are not base64 digits. */
static void fill_values(int8_t *values)
{
    memset(values, -1, 256);
    for (int i = 0; i < 64; i++)
        values[(uint8_t)digits[i]] = (int8_t)i;
}

static size_t padding(const char *text, size_t n)
{
    return n > 0 && text[n - 1] == '=' ? 1 + (n > 1 && text[n - 2] == '=') : 0;
}

ssize_t atoll_base64_bytes(void *out, size_t cap, const char *text, size_t n)
{
    size_t pad = padding(text, n), len = n / 4 * 3 - pad;
    uint8_t *to = out;
    uint32_t v = 0;
    int8_t values[256];

    if (n % 4 != 0)
        return -EINVAL;
    if (len > cap)
        return -ENOBUFS;
    fill_values(values);
    for (size_t i = 0; i < n - pad; i++) {
        int8_t value = values[(uint8_t)text[i]];
        if (value < 0)
            return -EINVAL;
        v = v << 6 | (uint32_t)value;
        if (i % 4 == 3) {
            *to++ = (uint8_t)(v >> 16);
            *to++ = (uint8_t)(v >> 8);
            *to++ = (uint8_t)v;
        }
    }
    /* The last digit before the padding has 2 or 4 unused bits, which must be 0. */
    if ((pad == 1 && v & 3) || (pad == 2 && v & 15))
        return -EINVAL;
    if (pad == 1) {
        *to++ = (uint8_t)(v >> 10);
        *to++ = (uint8_t)(v >> 2);
    } else if (pad == 2) {
        *to++ = (uint8_t)(v >> 4);
    }
    return (ssize_t)len;
}

int atoll_base64_decode(struct atoll_buf *out, const char *text, size_t n)
{
    size_t len = n % 4 == 0 ? n / 4 * 3 - padding(text, n) : 0;
    uint8_t *to;
    ssize_t got;
    int r = atoll_buf_reserve(out, len, &to);

    if (r < 0)
        return r;
    got = atoll_base64_bytes(to, len, text, n);
    if (got < 0)
        return (int)got;
    atoll_buf_commit(out, len);
    return 0;
}
