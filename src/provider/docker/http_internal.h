#pragma once
#include <pthread.h>
#include "provider/docker/http.h"
#include "provider/remote/http.h"

/* Shared by http.c and hijack.c. */

/* The version used, which is also the minimum (1.41: Engine 20.10). */
#define ATOLL_DOCKER_API "1.41"

struct atoll_docker_http {
    char *base; /* owned: http://..., https://... */
    struct atoll_remote_http *remote;
    pthread_mutex_t lock;
    bool negotiated;
    char version[16];
};

/* The API version in use, negotiated with the engine on the first call. */
int atoll_docker_http_version(struct atoll_docker_http *http, const struct atoll_sync_call *call,
                              char version[16], struct atoll_error *err) ATOLL_MUST_CHECK;
/* Fails with the engine's message in this body; for every status except 2xx and 304. */
int atoll_docker_http_refused(long status, const char *body, size_t n, struct atoll_error *err);
