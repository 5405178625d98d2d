#pragma once
#include <curl/curl.h>
#include <pthread.h>
#include "provider/docker/http.h"

/* Shared by http.c and hijack.c. */

/* The version used, which is also the minimum (1.41: Engine 20.10). */
#define ATOLL_DOCKER_API "1.41"
#define ATOLL_DOCKER_CONNECTIONS_MAX 32

/* One kept connection. */
struct atoll_docker_line {
    CURL *easy;
    CURLM *multi;
    bool busy;
    bool is_own; /* for one request, not kept */
};

struct atoll_docker_http {
    char *base;            /* owned: http://..., https://... */
    char *socket_path;     /* owned; NULL: TCP */
    char *ca, *cert, *key; /* owned; NULL: not set */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    bool negotiated;
    char version[16];
    unsigned count;
    struct atoll_docker_line lines[ATOLL_DOCKER_CONNECTIONS_MAX];
};

/* Sets the options that every connection to this engine has. */
void atoll_docker_http_aim(const struct atoll_docker_http *http, CURL *easy);
/* The API version in use, negotiated with the engine on the first call. */
int atoll_docker_http_version(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                              char version[16], struct atoll_error *err) ATOLL_MUST_CHECK;
/* The error of a failed transfer. */
int atoll_docker_http_broken(CURLcode code, const struct atoll_sync_call *call,
                             struct atoll_error *err);
/* Fails with the engine's message in this body; for every status except 2xx and 304. */
int atoll_docker_http_refused(long status, const char *body, size_t n, struct atoll_error *err);
