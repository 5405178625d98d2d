#pragma once
#include "base/defs.h"

/* Milliseconds since boot (CLOCK_MONOTONIC): for timeouts and deadlines. */
int64_t atoll_clock_ms(void);
/* The same in microseconds: for measuring. */
int64_t atoll_clock_us(void);
/* Milliseconds since 1970 (CLOCK_REALTIME): for timestamps. */
int64_t atoll_clock_unix_ms(void);
/* "2026-01-31T12:00:00.123Z"; out holds ATOLL_CLOCK_TEXT_MAX bytes. */
#define ATOLL_CLOCK_TEXT_MAX 32
const char *atoll_clock_format(int64_t unix_ms, char *out);
