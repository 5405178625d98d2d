#pragma once
#include "api/json_out.h"
#include "base/error.h"

/*
 * The form of an error for clients: an HTTP status by kind, and
 * {"error":{"code","message","hint","request_id","evidence"}}. The text of an INTERNAL error is not
 * sent: the client gets the request id, which identifies the entry in the daemon's log.
 */
int atoll_api_status_of(const struct atoll_error *error);
/* What the client can do about the error, or NULL. */
const char *atoll_api_hint_of(const struct atoll_error *error);
/* Writes the member "error":{…}; call it inside an open object. FILE: the path of
 * providers.yaml, which replaces its name in hints; NULL if the caller may not see it. */
void atoll_api_error_write(struct atoll_json_out *out, const struct atoll_error *error,
                           const char *request_id, const char *file);
