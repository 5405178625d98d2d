#pragma once
#include "api/json_out.h"
#include "base/error.h"

/*
 * How a failure looks to a client: the HTTP status of its kind and
 * {"error":{"code","message","hint","request_id","evidence"}}. The text of an INTERNAL error stays here: the
 * client gets the request id to look for in the daemon's log.
 */
int atoll_api_status_of(const struct atoll_error *error);
/* What the client could do about it, or NULL. */
const char *atoll_api_hint_of(const struct atoll_error *error);
/* Writes the member "error":{…}; call it inside an open object. FILE: where providers.yaml is, which
 * hints tell to those who may know; or NULL. */
void atoll_api_error_write(struct atoll_json_out *out, const struct atoll_error *error,
                           const char *request_id, const char *file);
