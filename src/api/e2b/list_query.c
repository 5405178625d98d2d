#include "api/e2b/list_query.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/rfc3339.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/text.h"
#include "net/url.h"

#define SEPARATOR "__"

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Percent-decoding; '+' is a space. -EINVAL for a bad escape or a NUL byte. */
static int unescape(struct atoll_buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        char c = *p == '+' ? ' ' : *p;
        int r;
        if (*p == '%') {
            int high = hex_value(p[1]), low = high < 0 ? -1 : hex_value(p[2]);
            if (low < 0 || (high | low) == 0)
                return -EINVAL;
            c = (char)(high << 4 | low);
            p += 2;
        }
        r = atoll_buf_append(out, &c, 1);
        if (r < 0)
            return r;
    }
    return 0;
}

int atoll_e2b_metadata_decode(struct atoll_buf *out, const char *text)
{
    struct atoll_buf once;
    int r;

    atoll_buf_init(&once, strlen(text) + 1);
    r = unescape(&once, text);
    if (r == 0)
        r = atoll_url_decode_query(out, atoll_buf_str(&once), atoll_buf_size(&once));
    atoll_buf_done(&once);
    return r;
}

/* Cursors. */

void atoll_e2b_cursor_format(const struct atoll_e2b_cursor *cursor, char *out)
{
    char text[96], when[ATOLL_CLOCK_TEXT_MAX];
    int n = snprintf(text, sizeof(text), "%s" SEPARATOR "%s%s",
                     atoll_clock_format(cursor->unix_ms, when), cursor->id,
                     cursor->ascending ? SEPARATOR "asc" : "");

    atoll_base64_text(out, text, (size_t)n);
    out[strcspn(out, "=")] = '\0';
    for (char *p = out; *p; p++)
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
}

static ssize_t decode_url_base64(const char *text, char *out, size_t cap)
{
    char padded[ATOLL_E2B_CURSOR_MAX + 4];
    size_t n = strcspn(text, "=");

    if (n > ATOLL_E2B_CURSOR_MAX || strspn(text + n, "=") > 2 || text[n + strspn(text + n, "=")])
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        padded[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    while (n % 4)
        padded[n++] = '=';
    return atoll_base64_bytes(out, cap, padded, n);
}

int atoll_e2b_cursor_parse(const char *text, struct atoll_e2b_cursor *ret)
{
    char decoded[ATOLL_E2B_CURSOR_MAX], *id, *order;
    ssize_t n = decode_url_base64(text, decoded, sizeof(decoded) - 1);
    int64_t us;

    if (n < 0)
        return -EINVAL;
    decoded[n] = '\0';
    if (strlen(decoded) != (size_t)n || !(id = strstr(decoded, SEPARATOR)))
        return -EINVAL;
    *id = '\0';
    id += sizeof(SEPARATOR) - 1;
    order = strstr(id, SEPARATOR);
    if (order)
        *order = '\0';
    if (order && strcmp(order + sizeof(SEPARATOR) - 1, "asc") != 0)
        return -EINVAL;
    if (atoll_rfc3339_parse(decoded, &us) < 0 || !atoll_text_is_id(id))
        return -EINVAL;
    *ret = (struct atoll_e2b_cursor){.unix_ms = us / 1000, .ascending = order != NULL};
    return atoll_text_copy(ret->id, sizeof(ret->id), id);
}
