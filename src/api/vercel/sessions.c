/*
 * Ids of sessions.
 */
#include <stdio.h>
#include <string.h>
#include "api/vercel/vercel_internal.h"
#include "base/rand.h"
#include "base/text.h"

#define PREFIX "sbx_"
#define NUMBER_MAX 1000000000

void atoll_vercel_sid_write(const char *sandbox_id, int64_t number, char out[ATOLL_VERCEL_SID_MAX])
{
    if (number <= 1)
        (void)snprintf(out, ATOLL_VERCEL_SID_MAX, PREFIX "%.32s", sandbox_id);
    else
        (void)snprintf(out, ATOLL_VERCEL_SID_MAX, PREFIX "%.32s_%lld", sandbox_id,
                       (long long)number);
}

bool atoll_vercel_sid_read(const char *text, char *id, int64_t *ret_number)
{
    const size_t n = strlen(PREFIX);
    uint64_t number = 1;

    if (strncmp(text, PREFIX, n) != 0 || strlen(text) < n + ATOLL_ID_LEN)
        return false;
    (void)snprintf(id, ATOLL_ID_LEN + 1, "%s", text + n);
    text += n + ATOLL_ID_LEN;
    if (!atoll_text_is_id(id))
        return false;
    if (*text && (*text != '_' || atoll_text_u64(text + 1, 2, NUMBER_MAX, &number) < 0))
        return false;
    *ret_number = (int64_t)number;
    return true;
}

int64_t atoll_vercel_session_number(const json_t *facts)
{
    return atoll_vercel_fact_number(facts, "session", 1);
}
