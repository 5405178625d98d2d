#pragma once
#include "api/call.h"
#include "session/sessions.h"

/* An array of {"path","size","mime"}, and with changes also "change":"created" or "modified". */
void atoll_view_artifacts(struct atoll_json_out *out, const char *key,
                          const struct atoll_session_artifact *files, size_t count, bool changes);
/* A session that exists (sessions.c). */
void atoll_rest_session_view(struct atoll_json_out *out, const char *key,
                             struct atoll_api_call *call, const struct atoll_session *session);
/* session_url.c. Creates the preview of the environment's port. A failure is logged, not
 * returned. */
void atoll_rest_session_show_port(struct atoll_api_call *call, const struct atoll_session *session);
#define ATOLL_REST_SESSION_URL_MAX 512
/* The URL of that preview, or else the path of the session in this API. */
void atoll_rest_session_url(struct atoll_api_call *call, const struct atoll_session_view *view,
                            char *out);
/* The type by file extension; "application/octet-stream" if unknown. */
const char *atoll_mime_of_path(const char *path);
