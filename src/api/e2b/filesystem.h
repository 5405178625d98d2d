#pragma once
#include "api/e2b/envd.h"
#include "api/kit/watch_source.h"

/* entry.c: writes the EntryInfo of an entry that was read with ATOLL_ENVD_ATTRIBUTES. */
void atoll_entry_write(struct atoll_json_out *out, const char *key,
                       const struct atoll_am_entry *entry);
/* Writes only "metadata"; nothing if the entry has none. */
void atoll_entry_write_metadata(struct atoll_json_out *out, const struct atoll_am_entry *entry);
const char *atoll_entry_name(const char *path);

/* filesystem.c: translates an error of the agent about a path into the texts and codes of envd. */
void atoll_fs_explain(const struct atoll_error *error, const char *user, struct atoll_error *ret);

/* watch_stream.c */
/* Reads path and flags from a message; user as for every call. INVALID_ARGUMENT,
 * UNAUTHENTICATED. */
int atoll_watch_request_take(struct atoll_api_call *call, const json_t *message, char *user,
                             struct atoll_watch_request *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the members {"name","type","entry"?} of an open object. */
void atoll_watch_event_write(struct atoll_json_out *out, enum atoll_watch_kind kind,
                             const char *name, const struct atoll_am_entry *entry);
