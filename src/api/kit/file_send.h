#pragma once
#include "api/call.h"
#include "loop/offload.h"

/*
 * Answers a call with the contents of an open file, at the pace of the client.
 */
struct atoll_file_part {
    struct atoll_tenant_file *file; /* taken */
    uint64_t offset, length;
    bool to_end; /* its length is not known before: until there is no more */
};

/* The whole file, once it is known whether one of no size has contents all the same: those of procfs do.
 * Calls done once, maybe before it returns; what part names is then the callback's. */
void atoll_file_whole(struct atoll_tenant_file *file, uint64_t size_bytes,
                      void (*done)(void *arg, const struct atoll_file_part *part), void *arg);
/* Headers but the content type are set before. Ends the call. */
void atoll_file_send(struct atoll_api_call *call, int status, const char *content_type,
                     const struct atoll_file_part *part);
