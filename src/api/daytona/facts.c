/*
 * Facts: what this facade stores about a sandbox in addition to the engine's record.
 */
#include "api/daytona/daytona_internal.h"

#define ARCHIVE_MINUTES_MAX ((int64_t)30 * 24 * 60)

/* A sandbox of another facade ends as it would there. */
const struct atoll_facts_kind atoll_daytona_kind = {
    .facade = "daytona",
    .foreign = "{\"" ATOLL_DAYTONA_AUTO_STOP "\":0,\"" ATOLL_DAYTONA_AUTO_PAUSE
               "\":0,\"" ATOLL_DAYTONA_AUTO_ARCHIVE "\":0,\"" ATOLL_DAYTONA_AUTO_DELETE "\":-1}",
    .changed = "updated",
    .subject = "Sandbox with ID or name",
    .max = ATOLL_DAYTONA_FACTS_MAX,
};

int64_t atoll_daytona_archive_minutes(int64_t minutes)
{
    return minutes == 0 ? ARCHIVE_MINUTES_MAX : ATOLL_MIN(minutes, ARCHIVE_MINUTES_MAX);
}

json_t *atoll_daytona_facts(const struct atoll_sandbox *sandbox)
{
    return atoll_facts_of(&atoll_daytona_kind, sandbox);
}

int atoll_daytona_facts_store(struct atoll_engine *engine, const char *id, json_t *facts,
                              struct atoll_error *err)
{
    return atoll_facts_store(&atoll_daytona_kind, engine, id, facts, err);
}

int atoll_daytona_change(struct atoll_engine *engine, const char *id, const char *name,
                         json_t *value, struct atoll_error *err)
{
    return atoll_facts_change(&atoll_daytona_kind, engine, id, name, value, err);
}
