#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "provider/sync.h"

/*
 * The Docker Engine API: requests with a deadline over a few connections that are kept.
 * Blocking. Thread: any.
 */
struct atoll_docker_http;

struct atoll_docker_http_config {
    const char *host; /* unix://PATH or tcp://HOST:PORT */
    const char *ca, *cert, *key;
    unsigned connections; /* more requests than this wait for one another */
};

int atoll_docker_http_new(const struct atoll_docker_http_config *config,
                          struct atoll_docker_http **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_docker_http *atoll_docker_http_free(struct atoll_docker_http *http);

struct atoll_docker_ask {
    const char *method;
    const char *path; /* with query, without version */
    json_t *json;     /* the body; stolen */
    /* Or a body of unknown length in pieces: 0 at its end, < 0 on failure. */
    ssize_t (*read)(void *arg, void *out, size_t cap);
    void *read_arg;
    const char *header; /* one more; may be secret */
    /* Takes a good answer in pieces instead of having it as JSON; < 0 gives up. */
    int (*sink)(void *arg, const void *bytes, size_t n);
    void *sink_arg;
    bool slow; /* may take minutes: on a connection of its own, so that nobody waits for it */
};

/* Returns the status, 2xx or 304. ret_json (may be NULL) is NULL when the answer is no JSON.
 * Others: NOT_FOUND (ENOENT) for 404, FAILED_PRECONDITION (EEXIST) for 409, ... with the engine's
 * words. */
int atoll_docker_http_ask(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                          const struct atoll_docker_ask *ask, json_t **ret_json,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* A short form: no body, path by format. */
int atoll_docker_http_askf(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                           json_t **ret_json, struct atoll_error *err, const char *method,
                           const char *path, ...) ATOLL_PRINTF(6, 7) ATOLL_MUST_CHECK;

/* POST whose connection becomes a stream: ret_fd is ours, a thread carries what stands between. */
int atoll_docker_http_hijack(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                             const char *path, const char *body, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* For values in a query; malloc'd, NULL without memory. */
char *atoll_docker_escape(const char *text);

static inline void atoll_docker_auto_json(json_t **json)
{
    json_decref(*json);
}
#define ATOLL_DOCKER_AUTOJSON ATOLL_CLEANUP(atoll_docker_auto_json)
