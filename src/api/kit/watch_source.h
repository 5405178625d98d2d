#pragma once
#include "engine/engine.h"

/*
 * Changes in a directory. With include_entry, an event of an existing file comes with its entry;
 * events keep their order, so an event waits until its entry was read. At most 4096 events wait;
 * further ones are lost.
 */
#define ATOLL_WATCH_PATH_CAP 4096
#define ATOLL_WATCH_USER_CAP 72

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
    const char *user, *path; /* shorter than the CAPs above */
    bool recursive, include_entry;
    const char *attributes; /* prefix of the extended attributes of entries; static storage */
};
void atoll_watch_source_open(struct atoll_engine *engine, const char *sandbox_id,
                             const struct atoll_watch_request *request,
                             const struct atoll_watch_source_events *events, void *arg);
struct atoll_watch_source *atoll_watch_source_close(struct atoll_watch_source *source);
