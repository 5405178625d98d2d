#pragma once
#include "api/json_out.h"
#include "engine/sessions.h"

/* An array of {"path","size","mime"}, and with changes also "change":"created" or "modified". */
void atoll_view_artifacts(struct atoll_json_out *out, const char *key,
                          const struct atoll_session_artifact *files, size_t count, bool changes);
/* By the end of the name; "application/octet-stream" for what is not known. */
const char *atoll_mime_of_path(const char *path);
