#pragma once
#include "provider/remote/http.h"

/*
 * Asking a service again and again until a change has happened there: 100 ms after the first answer, then
 * half as long again each time up to 1 s, or as long as the service asks for. Initialize with zeros.
 * Blocking. Thread: any.
 */
struct atoll_remote_wait {
    int64_t next_ms;
    unsigned failures; /* in sequence */
};

/* Waits before the next question. r, *err: the result of the last one. An error that another try may mend
 * (UNAVAILABLE) is waited for up to eight times in sequence; any other is returned. Else ABORTED or
 * DEADLINE_EXCEEDED. */
int atoll_remote_wait(struct atoll_remote_wait *wait, const struct atoll_remote_http *http,
                      const struct atoll_sync_call *call, const char *what, int r,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
