#pragma once
#include "api/e2b/envd.h"

/* entry.c: writes the EntryInfo of an entry that was read with ATOLL_ENVD_ATTRIBUTES. */
void atoll_entry_write(struct atoll_json_out *out, const char *key,
                       const struct atoll_am_entry *entry);
/* Writes only "metadata"; nothing if the entry has none. */
void atoll_entry_write_metadata(struct atoll_json_out *out, const struct atoll_am_entry *entry);
const char *atoll_entry_name(const char *path);

/* filesystem.c: translates an error of the agent about a path into the texts and codes of envd. */
void atoll_fs_explain(const struct atoll_error *error, const char *user, struct atoll_error *ret);

/*
 * watch_source.c: changes in a directory as events of envd. With include_entry, each event of an
 * existing file contains its EntryInfo; events keep their order, so an event waits until its entry
 * was read. At most EVENTS_MAX events wait; further ones are lost.
 */
struct atoll_watch_source;
struct atoll_watch_source_events {
    /* Called once; on an error source is NULL. */
    void (*started)(void *arg, struct atoll_watch_source *source, const struct atoll_error *error);
    /* entry: NULL if not available. */
    void (*changed)(void *arg, enum atoll_watch_kind kind, const char *name,
                    const struct atoll_am_entry *entry);
    /* The sandbox was destroyed. The owner must still close the source. */
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
/* Reads path and flags from a message; user as for every call. INVALID_ARGUMENT,
 * UNAUTHENTICATED. */
int atoll_watch_request_take(struct atoll_api_call *call, const json_t *message, char *user,
                             struct atoll_watch_request *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the members {"name","type","entry"?} of an open object. */
void atoll_watch_event_write(struct atoll_json_out *out, enum atoll_watch_kind kind,
                             const char *name, const struct atoll_am_entry *entry);
