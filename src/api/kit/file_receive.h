#pragma once
#include "api/call.h"

/*
 * Writes the body of a call to a file of a sandbox, completely or not at all, at the pace of the sandbox's disk.
 * done is called once; with an error nothing of the file is left. CANCELED: the client disconnected, and
 * call->req is NULL. The caller ends the call.
 */
struct atoll_file_receive_request {
    const char *sandbox_id, *user, *path; /* as in the engine's functions for files */
    uint32_t mode;                        /* 0: the default */
};
void atoll_file_receive(struct atoll_api_call *call,
                        const struct atoll_file_receive_request *request, atoll_entry_fn *done,
                        void *arg);
