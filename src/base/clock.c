#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t atoll_clock_ms(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t atoll_clock_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t atoll_clock_unix_ms(void)
{
    return read_clock(CLOCK_REALTIME);
}

const char *atoll_clock_format(int64_t unix_ms, char *out)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;
    char date[24];

    (void)gmtime_r(&seconds, &tm);
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out, ATOLL_CLOCK_TEXT_MAX, "%s.%03dZ", date, (int)(unix_ms % 1000));
    return out;
}
