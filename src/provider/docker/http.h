#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "provider/sync.h"

/*
 * A client of the Docker Engine API: requests with deadlines over a few kept connections.
 * Blocking. Thread: any.
 */
struct atoll_docker_http;

struct atoll_docker_http_config {
    const char *host; /* unix://PATH or tcp://HOST:PORT */
    const char *ca, *cert, *key;
    unsigned connections; /* maximum of requests at the same time; others wait */
};

int atoll_docker_http_new(const struct atoll_docker_http_config *config,
                          struct atoll_docker_http **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_docker_http *atoll_docker_http_free(struct atoll_docker_http *http);

struct atoll_docker_ask {
    const char *method;
    const char *path; /* with query, without version */
    json_t *json;     /* the body; the reference is stolen */
    /* Or a body of unknown length, read in pieces: 0 at its end, < 0 on failure. */
    ssize_t (*read)(void *arg, void *out, size_t cap);
    void *read_arg;
    const char *header; /* one extra header; may be secret */
    /* Receives the body of a successful answer in pieces, instead of parsing it as JSON; < 0
     * aborts. */
    int (*sink)(void *arg, const void *bytes, size_t n);
    void *sink_arg;
    /* May take minutes: uses a connection of its own, so that other requests do not wait. */
    bool slow;
};

/* Returns the status, 2xx or 304. ret_json (may be NULL) is NULL if the answer is not JSON.
 * Errors carry the engine's message: NOT_FOUND (ENOENT) for 404, FAILED_PRECONDITION (EEXIST)
 * for 409, ... */
int atoll_docker_http_ask(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                          const struct atoll_docker_ask *ask, json_t **ret_json,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same without a body, path by format. */
int atoll_docker_http_askf(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                           json_t **ret_json, struct atoll_error *err, const char *method,
                           const char *path, ...) ATOLL_PRINTF(6, 7) ATOLL_MUST_CHECK;

/* A POST whose connection becomes a byte stream: the caller owns ret_fd, and a thread copies
 * between it and the connection. */
int atoll_docker_http_hijack(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                             const char *path, const char *body, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* Escapes a value for a query; malloc'd, NULL if out of memory. */
char *atoll_docker_escape(const char *text);

static inline void atoll_docker_auto_json(json_t **json)
{
    json_decref(*json);
}
#define ATOLL_DOCKER_AUTOJSON ATOLL_CLEANUP(atoll_docker_auto_json)
