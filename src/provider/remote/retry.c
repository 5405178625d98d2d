#include "provider/remote/retry.h"

#include "base/defs.h"

#define FIRST_MS 250
#define DOUBLINGS_MAX 5

bool atoll_remote_is_later(long status)
{
    return status == 429 || status == 503;
}

int64_t atoll_remote_delay_ms(unsigned tries, uint32_t retry_after_s, uint32_t random)
{
    unsigned doublings = ATOLL_MIN(tries > 0 ? tries - 1 : 0u, (unsigned)DOUBLINGS_MAX);
    int64_t delay = ATOLL_MAX((int64_t)FIRST_MS << doublings, (int64_t)retry_after_s * 1000);

    return delay + (int64_t)(random % (uint32_t)(delay / 4 + 1));
}
