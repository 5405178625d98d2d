#pragma once
#include "api/call.h"

/*
 * Answers a call with the contents of an open file, at the pace of the client.
 */
struct atoll_file_part {
    int fd; /* taken */
    uint64_t offset, length;
    bool to_end; /* its length is not known before: until there is no more */
};

/* The whole file. A file of no size may have contents all the same: those of procfs do. */
struct atoll_file_part atoll_file_whole(int fd, uint64_t size_bytes);
/* Headers but the content type are set before. Ends the call. */
void atoll_file_send(struct atoll_api_call *call, int status, const char *content_type,
                     const struct atoll_file_part *part);
