#pragma once
#include "api/e2b/envd.h"

/* entry.c: EntryInfo of an entry that was looked at with ATOLL_ENVD_ATTRIBUTES. */
void atoll_entry_write(struct atoll_json_out *out, const char *key,
                       const struct atoll_am_entry *entry);
/* Its "metadata" alone; nothing when there is none. */
void atoll_entry_write_metadata(struct atoll_json_out *out, const struct atoll_am_entry *entry);
const char *atoll_entry_name(const char *path);

/* filesystem.c: what the agent says about a path, in the words and codes of envd. */
void atoll_fs_explain(const struct atoll_error *error, const char *user, struct atoll_error *ret);

/*
 * watch_source.c: changes of a directory as events of envd. With include_entry each event of a file
 * that is still there brings its EntryInfo along, in the order of the changes: an event waits until its
 * entry was looked up. At most EVENTS_MAX wait; more are lost.
 */
struct atoll_watch_source;
struct atoll_watch_source_events {
    /* Once; on an error there is no source. */
    void (*started)(void *arg, struct atoll_watch_source *source, const struct atoll_error *error);
    /* entry: NULL where there is none. */
    void (*changed)(void *arg, enum atoll_watch_kind kind, const char *name,
                    const struct atoll_am_entry *entry);
    /* The sandbox is gone. Still to be closed. */
    void (*ended)(void *arg);
};
struct atoll_watch_request {
    const char *user, *path;
    bool recursive, include_entry;
};
void atoll_watch_source_open(struct atoll_engine *engine, const char *sandbox_id,
                             const struct atoll_watch_request *request,
                             const struct atoll_watch_source_events *events, void *arg);
struct atoll_watch_source *atoll_watch_source_close(struct atoll_watch_source *source);
/* Takes path and flags from a message; user as for every call. INVALID_ARGUMENT, UNAUTHENTICATED. */
int atoll_watch_request_take(struct atoll_api_call *call, const json_t *message, char *user,
                             struct atoll_watch_request *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* {"name","type","entry"?} as members of an open object. */
void atoll_watch_event_write(struct atoll_json_out *out, enum atoll_watch_kind kind,
                             const char *name, const struct atoll_am_entry *entry);
