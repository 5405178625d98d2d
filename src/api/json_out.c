#include "api/json_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/clock.h"
#include "base/text.h"

void atoll_json_out_init(struct atoll_json_out *out, struct atoll_buf *buf)
{
    *out = (struct atoll_json_out){.buf = buf};
}

static void put(struct atoll_json_out *out, const void *bytes, size_t n)
{
    if (out->error == 0)
        out->error = atoll_buf_append(out->buf, bytes, n);
}

static void puts_text(struct atoll_json_out *out, const char *text)
{
    put(out, text, strlen(text));
}

static bool quote(struct atoll_json_out *out, const uint8_t *p, size_t n);

/* Writes comma and key. Some keys are names that a tenant chose, and need quoting. */
static void begin(struct atoll_json_out *out, const char *key)
{
    if (out->comma)
        put(out, ",", 1);
    out->comma = true;
    if (key) {
        (void)quote(out, (const uint8_t *)key, strlen(key));
        put(out, ":", 1);
    }
}

void atoll_json_open(struct atoll_json_out *out, const char *key, char bracket)
{
    begin(out, key);
    put(out, &bracket, 1);
    out->comma = false;
}

void atoll_json_close(struct atoll_json_out *out, char bracket)
{
    put(out, &bracket, 1);
    out->comma = true;
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escaped(struct atoll_json_out *out, uint8_t c)
{
    static const char raw[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *found = c ? strchr(raw, c) : NULL;
    char text[8];

    if (found)
        (void)snprintf(text, sizeof(text), "\\%c", letters[found - raw]);
    else
        (void)snprintf(text, sizeof(text), "\\u%04x", c);
    puts_text(out, text);
}

/* Copies runs of plain characters, since output can be a megabyte. True if all of it was UTF-8. */
static bool quote(struct atoll_json_out *out, const uint8_t *p, size_t n)
{
    size_t start = 0, i = 0;
    bool valid = true;

    put(out, "\"", 1);
    while (i < n) {
        size_t len = is_plain(p[i]) ? 1 : p[i] < 0x80 ? 0 : atoll_text_utf8_len(p + i, n - i);
        if (len > 0) {
            i += len;
            continue;
        }
        put(out, p + start, i - start);
        if (p[i] < 0x80) {
            put_escaped(out, p[i]);
        } else {
            puts_text(out, "\xef\xbf\xbd");
            valid = false;
        }
        start = ++i;
    }
    put(out, p + start, i - start);
    put(out, "\"", 1);
    return valid;
}

void atoll_json_text(struct atoll_json_out *out, const char *key, const char *text)
{
    begin(out, key);
    (void)quote(out, (const uint8_t *)text, strlen(text));
}

void atoll_json_text_or_null(struct atoll_json_out *out, const char *key, const char *text)
{
    if (*text)
        atoll_json_text(out, key, text);
    else
        atoll_json_null(out, key);
}

void atoll_json_bytes(struct atoll_json_out *out, const char *key, const void *bytes, size_t n)
{
    char name[64];

    begin(out, key);
    if (quote(out, n > 0 ? bytes : (const void *)"", n) || !key)
        return;
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    atoll_json_base64(out, name, bytes, n);
}

void atoll_json_base64(struct atoll_json_out *out, const char *key, const void *bytes, size_t n)
{
    begin(out, key);
    put(out, "\"", 1);
    if (out->error == 0)
        out->error = atoll_base64_encode(out->buf, bytes, n);
    put(out, "\"", 1);
}

void atoll_json_u64(struct atoll_json_out *out, const char *key, uint64_t value)
{
    char text[24];

    begin(out, key);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    puts_text(out, text);
}

void atoll_json_i64(struct atoll_json_out *out, const char *key, int64_t value)
{
    char text[24];

    begin(out, key);
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    puts_text(out, text);
}

void atoll_json_double(struct atoll_json_out *out, const char *key, double value, int digits)
{
    char text[32];

    if (!isfinite(value)) {
        atoll_json_null(out, key);
        return;
    }
    begin(out, key);
    (void)snprintf(text, sizeof(text), "%.*g", digits, value);
    puts_text(out, text);
}

void atoll_json_bool(struct atoll_json_out *out, const char *key, bool value)
{
    atoll_json_raw(out, key, value ? "true" : "false");
}

void atoll_json_null(struct atoll_json_out *out, const char *key)
{
    atoll_json_raw(out, key, "null");
}

void atoll_json_raw(struct atoll_json_out *out, const char *key, const char *json)
{
    begin(out, key);
    puts_text(out, json);
}

void atoll_json_time(struct atoll_json_out *out, const char *key, int64_t unix_ms)
{
    char text[ATOLL_CLOCK_TEXT_MAX];

    if (unix_ms == 0)
        atoll_json_null(out, key);
    else
        atoll_json_text(out, key, atoll_clock_format(unix_ms, text));
}

size_t atoll_json_utf8_prefix(const uint8_t *bytes, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t len = bytes[i] < 0x80 ? 1 : atoll_text_utf8_len(bytes + i, n - i);
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

/* The second byte is checked as well (RFC 3629 section 4): 0xe0 0x80, for example, can never
 * become a character, so waiting for more bytes would be useless. */
static bool can_follow(uint8_t lead, uint8_t second)
{
    if ((second & 0xc0) != 0x80)
        return false;
    switch (lead) {
    case 0xe0:
        return second >= 0xa0;
    case 0xed:
        return second < 0xa0;
    case 0xf0:
        return second >= 0x90;
    case 0xf4:
        return second < 0x90;
    default:
        return true;
    }
}

size_t atoll_json_utf8_open_tail(const uint8_t *bytes, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const uint8_t *p = bytes + n - back;
        size_t need = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
        if ((p[0] & 0xc0) == 0x80)
            continue;
        if (p[0] < 0xc2 || p[0] > 0xf4 || need <= back || (back > 1 && !can_follow(p[0], p[1])))
            return 0;
        return back;
    }
    return 0;
}
