#include "api/e2b/list_query.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
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

/* Times. */

/* The digits of a fraction as microseconds; advances *text behind them. */
static int64_t take_fraction(const char **text)
{
    int64_t us = 0, weight = 100000;

    for (; **text >= '0' && **text <= '9'; ++*text, weight /= 10)
        us += (**text - '0') * weight;
    return us;
}

/* Whether text starts with this form; 'd' matches any digit, 'T' also "t" and a blank. */
static bool has_form(const char *text, const char *form)
{
    for (; *form; form++, text++) {
        bool fits = *form == 'd'   ? *text >= '0' && *text <= '9'
                    : *form == 'T' ? *text == 'T' || *text == 't' || *text == ' '
                                   : *text == *form;
        if (!fits)
            return false;
    }
    return true;
}

static int two_digits(const char *text)
{
    return (text[0] - '0') * 10 + text[1] - '0';
}

/* "Z" or "+hh:mm", as seconds to subtract. */
static int take_offset(const char *text, int *ret_seconds)
{
    int seconds;

    *ret_seconds = 0;
    if ((text[0] | 0x20) == 'z' && text[1] == '\0')
        return 0;
    if ((text[0] != '+' && text[0] != '-') || !has_form(text + 1, "dd:dd") || text[6] != '\0' ||
        two_digits(text + 1) > 23 || two_digits(text + 4) > 59)
        return -EINVAL;
    seconds = (two_digits(text + 1) * 60 + two_digits(text + 4)) * 60;
    *ret_seconds = text[0] == '-' ? -seconds : seconds;
    return 0;
}

int atoll_e2b_time_parse(const char *text, int64_t *ret_unix_us)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";
    struct tm tm;
    int64_t us = 0;
    int offset;

    if (!has_form(text, form))
        return -EINVAL;
    tm = (struct tm){
        .tm_year = two_digits(text) * 100 + two_digits(text + 2) - 1900,
        .tm_mon = two_digits(text + 5) - 1,
        .tm_mday = two_digits(text + 8),
        .tm_hour = two_digits(text + 11),
        .tm_min = two_digits(text + 14),
        .tm_sec = two_digits(text + 17),
    };
    if (tm.tm_mon < 0 || tm.tm_mon > 11 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60)
        return -EINVAL;
    text += sizeof(form) - 1;
    if (*text == '.') {
        text++;
        if (*text < '0' || *text > '9')
            return -EINVAL;
        us = take_fraction(&text);
    }
    if (take_offset(text, &offset) < 0)
        return -EINVAL;
    *ret_unix_us = ((int64_t)timegm(&tm) - offset) * 1000000 + us;
    return 0;
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
    if (atoll_e2b_time_parse(decoded, &us) < 0 || !atoll_text_is_id(id))
        return -EINVAL;
    *ret = (struct atoll_e2b_cursor){.unix_ms = us / 1000, .ascending = order != NULL};
    return atoll_text_copy(ret->id, sizeof(ret->id), id);
}
