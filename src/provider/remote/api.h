#pragma once
#include <jansson.h>
#include "provider/remote/http.h"

/*
 * Requests with JSON to the API of a service. They carry the request id and the trace of the call.
 * Blocking. Thread: any.
 */
struct atoll_remote_api {
    struct atoll_remote_http *http;
    const struct atoll_remote_service *service;
    char *url;                  /* in front of every path */
    struct curl_slist *headers; /* of every request, the key among them */
    const char *secret;         /* removed from error texts; may be NULL */
    const char *scope;          /* of a service whose keys need more to name an account */
    const char *header;         /* header of every answer to return; may be NULL */
    int64_t timeout_ms;         /* of one request; 0: only the deadline of the call */
};

/* path includes the query; ownership of body (may be NULL) passes. Errors: see
 * atoll_remote_http_ask(). */
int atoll_remote_api_ask(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                         const char *what, const char *method, const char *path, json_t *body,
                         struct atoll_remote_answer *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same; every status except 2xx is an error, and *ret_json (may be NULL) is the answer. */
int atoll_remote_api_json(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                          const char *what, const char *method, const char *path, json_t *body,
                          json_t **ret_json, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends bytes that are not JSON, by POST: content_type is "Content-Type: …", more_header a further one
 * or NULL. Repeated after "later" (retry.h). Every status except 2xx is an error. */
int atoll_remote_api_send(const struct atoll_remote_api *api, const struct atoll_sync_call *call,
                          const char *what, const char *path, const char *content_type,
                          const char *more_header, const void *bytes, size_t n,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether a failed request to make something may have made it all the same. status 0: no answer. */
bool atoll_remote_is_unconfirmed(long status);
/* The error of an answer whose status is not 2xx. */
int atoll_remote_api_refused(const struct atoll_remote_api *api, const char *what,
                             const struct atoll_remote_answer *answer, struct atoll_error *err);

/* The JSON of an answer; NULL if it is not JSON. */
json_t *atoll_remote_answer_json(const struct atoll_remote_answer *answer);
/* Serializes a body; NULL if out of memory. The message is freed. */
char *atoll_remote_dump(json_t *message);

static inline void atoll_remote_auto_json(json_t **json)
{
    json_decref(*json);
}
#define ATOLL_REMOTE_AUTOJSON ATOLL_CLEANUP(atoll_remote_auto_json)
