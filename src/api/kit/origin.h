#pragma once
#include "api/api.h"
#include "net/http_server.h"

#define ATOLL_ORIGIN_MAX 300

/* "http://host:port" as the client of the request reaches this daemon; req may be NULL. */
void atoll_origin(const struct atoll_api *api, const struct atoll_http_request *req,
                  char out[ATOLL_ORIGIN_MAX]);
