#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int atoll_text_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return -EINVAL;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -ERANGE;
    }
    if (value < min || value > max)
        return -ERANGE;
    *ret_value = value;
    return 0;
}

int atoll_text_double(const char *text, double min, double max, double *ret_value)
{
    char *end;
    double value;

    if (!isdigit((unsigned char)*text) && *text != '.')
        return -EINVAL;
    value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return -EINVAL;
    if (value < min || value > max)
        return -ERANGE;
    *ret_value = value;
    return 0;
}

static int unit_factor(const char *unit, double *ret_factor)
{
    static const struct {
        char letter;
        double factor;
    } units[] = {{'k', 1024.0}, {'m', 1048576.0}, {'g', 1073741824.0}, {'t', 1099511627776.0}};
    const char *rest;

    if (strcmp(unit, "") == 0 || strcasecmp(unit, "b") == 0) {
        *ret_factor = 1;
        return 0;
    }
    rest = unit + 1;
    if (*rest && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0)
        return -EINVAL;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(units); i++)
        if (tolower((unsigned char)*unit) == units[i].letter) {
            *ret_factor = units[i].factor;
            return 0;
        }
    return -EINVAL;
}

int atoll_text_size(const char *text, uint64_t *ret_bytes)
{
    char number[32];
    size_t digits = strspn(text, "0123456789.");
    double factor, value;
    int r;

    if (digits == 0 || digits >= sizeof(number))
        return -EINVAL;
    memcpy(number, text, digits);
    number[digits] = '\0';
    r = unit_factor(text + digits, &factor);
    if (r < 0)
        return r;
    r = atoll_text_double(number, 0, 1e15, &value);
    if (r < 0)
        return r;
    if (value * factor > 9e18)
        return -ERANGE;
    *ret_bytes = (uint64_t)(value * factor);
    return 0;
}

const char *atoll_text_format_size(uint64_t bytes, char *out)
{
    static const char letters[] = "KMGTPE";
    double value = (double)bytes;
    int unit = -1;

    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        (void)snprintf(out, 16, "%u", (unsigned)bytes);
    else
        (void)snprintf(out, 16, value < 10 && value != floor(value) ? "%.1f%c" : "%.0f%c", value,
                       letters[unit]);
    return out;
}

bool atoll_text_is_id(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
    return n >= 1 && n <= 32 && text[n] == '\0';
}

bool atoll_text_is_name(const char *text)
{
    size_t n;

    if (!isalnum((unsigned char)text[0]))
        return false;
    for (n = 1; text[n]; n++)
        if (n >= 64 || (!isalnum((unsigned char)text[n]) && !strchr("._-", text[n])))
            return false;
    return true;
}

size_t atoll_text_utf8_len(const uint8_t *p, size_t n)
{
    uint32_t code;
    size_t len;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;
        code = p[0] & 0x1fu;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        len = 3;
        code = p[0] & 0x0fu;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;
        code = p[0] & 0x07u;
    } else {
        return 0;
    }
    if (n < len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if ((len == 3 && code < 0x800) || (len == 4 && code < 0x10000) || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return len;
}

static int quote_one(struct atoll_buf *out, const uint8_t *p, size_t len)
{
    static const char shorts[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *s;

    if (len == 0)
        return atoll_buf_appends(out, "\xef\xbf\xbd");
    if (len == 1 && *p && (s = strchr(shorts, *p)) != NULL)
        return atoll_buf_appendf(out, "\\%c", letters[s - shorts]);
    if (len == 1 && (*p < 0x20 || *p == 0x7f))
        return atoll_buf_appendf(out, "\\u%04x", *p);
    return atoll_buf_append(out, p, len);
}

int atoll_text_json_quote(struct atoll_buf *out, const char *bytes, size_t n)
{
    const uint8_t *p = (const uint8_t *)bytes;
    int r = atoll_buf_appends(out, "\"");

    for (size_t i = 0; r == 0 && i < n;) {
        size_t len = atoll_text_utf8_len(p + i, n - i);
        r = quote_one(out, p + i, len);
        i += len ? len : 1;
    }
    return r < 0 ? r : atoll_buf_appends(out, "\"");
}

bool atoll_text_is_below(const char *path, const char *top)
{
    size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);

    return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

int atoll_text_copy(char *out, size_t cap, const char *text)
{
    size_t n = strlen(text);

    if (n >= cap)
        return -ENAMETOOLONG;
    memcpy(out, text, n + 1);
    return 0;
}
