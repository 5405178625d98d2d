#pragma once
#include "api/call.h"

/* The output of a command as the answer to a request. */
struct atoll_exec_output {
    bool follow;      /* stay until the command has ended */
    bool announce;    /* begin with {"exec_id":…} */
    uint64_t from[2]; /* offsets in stdout and stderr */
};

/* Answers the call, as lines of JSON or, when the client prefers it, as Server-Sent Events. */
void atoll_exec_output_send(struct atoll_api_call *call, struct atoll_exec *exec,
                            const struct atoll_exec_output *options);
