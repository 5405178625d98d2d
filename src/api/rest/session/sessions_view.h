#pragma once
#include "api/call.h"
#include "session/sessions.h"

/* An array of {"path","size","mime"}, and with changes also "change":"created" or "modified". */
void atoll_view_artifacts(struct atoll_json_out *out, const char *key,
                          const struct atoll_session_artifact *files, size_t count, bool changes);
/* One that lives (sessions.c). */
void atoll_rest_session_view(struct atoll_json_out *out, const char *key,
                             struct atoll_api_call *call, const struct atoll_session *session);
/* session_url.c. The port its environment names is shown from now on; one that cannot be shown is
 * no failure. */
void atoll_rest_session_show_port(struct atoll_api_call *call, const struct atoll_session *session);
#define ATOLL_REST_SESSION_URL_MAX 512
/* The preview of that port, or else the session in this API. */
void atoll_rest_session_url(struct atoll_api_call *call, const struct atoll_session_view *view,
                            char *out);
/* By the end of the name; "application/octet-stream" for what is not known. */
const char *atoll_mime_of_path(const char *path);
