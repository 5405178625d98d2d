#pragma once
#include <curl/curl.h>
#include <pthread.h>
#include "provider/docker/http.h"

/* What http.c and hijack.c share. */

/* The version we speak, and the oldest engine that knows what we need (1.41: Engine 20.10). */
#define ATOLL_DOCKER_API "1.41"
#define ATOLL_DOCKER_CONNECTIONS_MAX 32

/* One kept connection. */
struct atoll_docker_line {
    CURL *easy;
    CURLM *multi;
    bool busy;
    bool is_own; /* of one request, not kept */
};

struct atoll_docker_http {
    char *base;            /* owned: http://..., https://... */
    char *socket_path;     /* owned; NULL: TCP */
    char *ca, *cert, *key; /* owned; NULL: none */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    bool negotiated;
    char version[16];
    unsigned count;
    struct atoll_docker_line lines[ATOLL_DOCKER_CONNECTIONS_MAX];
};

/* What every connection to this engine is told. */
void atoll_docker_http_aim(const struct atoll_docker_http *http, CURL *easy);
/* The version in use, settled with the engine on the first call. */
int atoll_docker_http_version(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                              char version[16], struct atoll_error *err) ATOLL_MUST_CHECK;
/* A transfer that failed, in words. */
int atoll_docker_http_broken(CURLcode code, const struct atoll_sync_call *call,
                             struct atoll_error *err);
/* Fails with the engine's message of this body, for every status but 2xx and 304. */
int atoll_docker_http_refused(long status, const char *body, size_t n, struct atoll_error *err);
