#pragma once
#include "base/error.h"

/*
 * A bare HTTP/1.1 client for measurements: one kept connection over a unix socket, one request at a
 * time, one write and usually one read per exchange, no allocation. It understands exactly what the
 * REST API of the daemon promises for the calls measured here: a status line, Content-Length (or
 * 204), a JSON body.
 * Blocking. Thread: one connection belongs to one thread.
 */
#define ATOLL_HTTP_MAX (64 * 1024) /* bytes of a whole request or response */

struct atoll_http {
    int fd;
    int status; /* of the last response */
    char *body; /* borrowed from `in`, ends with NUL */
    size_t body_len;
    char in[ATOLL_HTTP_MAX + 1];
    char out[ATOLL_HTTP_MAX];
};

int atoll_http_open(struct atoll_http *h, const char *socket_path,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_http_close(struct atoll_http *h);

/* Sends and waits for the whole response; fails unless its status is `expect`. `json` may be
 * NULL. */
int atoll_http_call(struct atoll_http *h, const char *method, const char *path, const char *json,
                    int expect, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The value of `key` where it stands inside exactly `depth` braces, as a pointer to its first byte;
 * NULL when it is not there. Enough JSON to read an answer whose shape is known. */
const char *atoll_http_find(const char *json, int depth, const char *key);
