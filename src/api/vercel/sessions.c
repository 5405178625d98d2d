/*
 * Ids of sessions.
 */
#include <stdio.h>
#include <string.h>
#include "api/vercel/vercel_internal.h"
#include "base/clock.h"
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
    return atoll_fact_number(facts, "session", 1);
}

json_t *atoll_vercel_session_record(const json_t *facts, int64_t number)
{
    const json_t *records = json_object_get(facts, "sessions");
    size_t i;
    json_t *record;

    json_array_foreach(records, i,
                       record) if (atoll_fact_number(record, "n", 0) == number) return record;
    return NULL;
}

void atoll_vercel_session_add(json_t *facts, int64_t ended_unix_ms, int64_t timeout_ms,
                              const char *source)
{
    int64_t now = atoll_clock_unix_ms(), number = atoll_vercel_session_number(facts);
    json_t *last = atoll_vercel_session_record(facts, number), *next;
    json_t *records = json_object_get(facts, "sessions");

    if (!records) {
        records = json_array();
        (void)json_object_set_new(facts, "sessions", records);
    }
    if (last) {
        (void)json_object_set_new(last, "stoppedAt", json_integer(ended_unix_ms));
        number++;
    }
    next = json_pack("{s:I,s:I,s:I,s:I}", "n", (json_int_t)number, "createdAt", (json_int_t)now,
                     "startedAt", (json_int_t)now, "timeout", (json_int_t)timeout_ms);
    if (*source)
        (void)json_object_set_new(next, "sourceSnapshotId", json_string(source));
    (void)json_array_append_new(records, next);
    if (json_array_size(records) > ATOLL_VERCEL_SESSIONS_MAX)
        (void)json_array_remove(records, 0);
    (void)json_object_set_new(facts, "session", json_integer(number));
}
