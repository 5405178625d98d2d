#include "provider/remote/wait.h"

#include <poll.h>

#define FIRST_MS 100
#define MOST_MS 1000
#define FAILURES_MAX 8
#define ASKED_MAX_MS 30000

int atoll_remote_wait(struct atoll_remote_wait *wait, const struct atoll_remote_http *http,
                      const struct atoll_sync_call *call, const char *what, int r,
                      struct atoll_error *err)
{
    struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
    int64_t ms = ATOLL_MAX(wait->next_ms, (int64_t)FIRST_MS);

    wait->failures = r < 0 ? wait->failures + 1 : 0;
    if (r < 0 && (err->kind != ATOLL_ERR_UNAVAILABLE || wait->failures >= FAILURES_MAX))
        return r;
    wait->next_ms = ATOLL_MIN(ms + ms / 2, (int64_t)MOST_MS);
    if (r < 0 && err->retry_ms > 0)
        ms = ATOLL_MAX(ms, ATOLL_MIN((int64_t)err->retry_ms, (int64_t)ASKED_MAX_MS));
    (void)poll(&cancel, 1, (int)ATOLL_MIN(ms, (int64_t)atoll_sync_left_ms(call)));
    if (atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
        return atoll_remote_http_given_up(http, call, what, err);
    return 0;
}
