#pragma once
#include "api/call.h"

/* Shared by the routes below …/files. */

#define ATOLL_REST_PATH_MAX 4095

/* ?path= and ?user=, borrowed from the request or from the room of the struct. */
struct atoll_rest_file_target {
    const char *path, *user;
    char in_volume[ATOLL_REST_PATH_MAX + 16];
};

/* False when a parameter is invalid; the call has been answered then. */
bool atoll_rest_file_target(struct atoll_api_call *call, struct atoll_rest_file_target *ret);

/* Answers the call in arg with the entry. */
void atoll_rest_file_entry(void *arg, const struct atoll_am_entry *entry,
                           const struct atoll_error *error);

/* Answers the call with the file's bytes (transfer.c). */
void atoll_rest_file_send(struct atoll_api_call *call, const struct atoll_rest_file_target *target);
/* The same for an open file; takes ownership of fd. The last segment of path is its name. */
void atoll_rest_file_send_fd(struct atoll_api_call *call, int fd, uint64_t size_bytes,
                             const char *path);
