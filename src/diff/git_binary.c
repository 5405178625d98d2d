#include "diff/git_binary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sha1.h"

#define BLOCK_MAX ((size_t)65535) /* of a stored block */
#define LINE_BYTES ((size_t)52)

static const char digits[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/* RFC 1950 */
static uint32_t adler32(const uint8_t *bytes, size_t n)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < n; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* RFC 1951, section 3.2.4 */
static int add_stored(struct atoll_buf *out, const uint8_t *bytes, size_t n)
{
    size_t at = 0;
    int r = 0;

    do {
        size_t part = ATOLL_MIN(n - at, BLOCK_MAX);
        const uint8_t head[5] = {at + part == n, (uint8_t)part, (uint8_t)(part >> 8),
                                 (uint8_t)~part, (uint8_t)(~part >> 8)};

        r = atoll_buf_append(out, head, sizeof(head));
        if (r == 0 && part > 0)
            r = atoll_buf_append(out, bytes + at, part);
        at += part;
    } while (r == 0 && at < n);
    return r;
}

static int deflate(struct atoll_buf *out, const uint8_t *bytes, size_t n)
{
    uint32_t sum = adler32(bytes, n);
    const uint8_t tail[4] = {(uint8_t)(sum >> 24), (uint8_t)(sum >> 16), (uint8_t)(sum >> 8),
                             (uint8_t)sum};
    int r = atoll_buf_append(out, "\x78\x01", 2);

    if (r == 0)
        r = add_stored(out, bytes, n);
    return r < 0 ? r : atoll_buf_append(out, tail, sizeof(tail));
}

/* Five digits for four bytes; missing bytes are zeros. */
static void encode(char *out, const uint8_t *bytes, size_t n)
{
    uint32_t value = 0;

    for (size_t i = 0; i < 4; i++)
        value = value << 8 | (i < n ? bytes[i] : 0);
    for (int i = 4; i >= 0; i--, value /= 85)
        out[i] = digits[value % 85];
}

static int add_line(struct atoll_buf *out, const uint8_t *bytes, size_t n)
{
    char line[2 + (LINE_BYTES / 4) * 5 + 1];
    size_t len = 0;

    line[len++] = (char)(n <= 26 ? 'A' + n - 1 : 'a' + n - 27);
    for (size_t i = 0; i < n; i += 4, len += 5)
        encode(line + len, bytes + i, n - i);
    line[len++] = '\n';
    return atoll_buf_append(out, line, len);
}

int atoll_git_literal(struct atoll_buf *out, const uint8_t *bytes, size_t n)
{
    struct atoll_buf packed;
    int r;

    atoll_buf_init(&packed, n + n / BLOCK_MAX * 5 + 64);
    r = deflate(&packed, bytes, n);
    if (r == 0)
        r = atoll_buf_appendf(out, "literal %zu\n", n);
    for (size_t at = 0; r == 0 && at < atoll_buf_size(&packed); at += LINE_BYTES)
        r = add_line(out, atoll_buf_head(&packed) + at,
                     ATOLL_MIN(atoll_buf_size(&packed) - at, LINE_BYTES));
    atoll_buf_done(&packed);
    return r < 0 ? r : atoll_buf_appends(out, "\n");
}

int atoll_git_name(const uint8_t *bytes, size_t n, char ret[static ATOLL_GIT_NAME_LEN + 1])
{
    uint8_t digest[ATOLL_SHA1_BYTES] = {0};
    struct atoll_buf all;
    int r = 0;

    if (bytes) {
        atoll_buf_init(&all, n + 64);
        r = atoll_buf_appendf(&all, "blob %zu", n);
        if (r == 0)
            r = atoll_buf_append(&all, "", 1);
        if (r == 0)
            r = atoll_buf_append(&all, bytes, n);
        if (r == 0)
            atoll_sha1(atoll_buf_head(&all), atoll_buf_size(&all), digest);
        atoll_buf_done(&all);
    }
    for (size_t i = 0; i < sizeof(digest); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", digest[i]);
    return r;
}
