#pragma once
#include "http.h"

/*
 * The few calls of the daemon's REST API that are measured, each checked to have done its work: an
 * exec that did not say exited with 0 is a failure, never a sample.
 */
#define ATOLL_CLIENT_ID_MAX 64

int atoll_client_create(struct atoll_http *h, char ret_id[ATOLL_CLIENT_ID_MAX],
                        struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_client_exec_true(struct atoll_http *h, const char *id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_client_destroy(struct atoll_http *h, const char *id,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Create, /usr/bin/true and destroy in one request. */
int atoll_client_run_true(struct atoll_http *h, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Commands on stdin, see client_fleet.c. */
int atoll_client_fleet(const char *socket_path, struct atoll_error *err) ATOLL_MUST_CHECK;
