#include "api/kit/rfc3339.h"

#include <errno.h>
#include <time.h>

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

int atoll_rfc3339_parse(const char *text, int64_t *ret_unix_us)
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
