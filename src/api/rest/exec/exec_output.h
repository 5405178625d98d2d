#pragma once
#include "api/call.h"

/* The output of a command as the response to a request. */
struct atoll_exec_output {
    bool follow;      /* keep sending until the command has ended */
    bool announce;    /* begin with {"exec_id":…} */
    uint64_t from[2]; /* offsets in stdout and stderr */
};

/* Answers the call with lines of JSON or, if the client prefers them, Server-Sent Events. */
void atoll_exec_output_send(struct atoll_api_call *call, struct atoll_exec *exec,
                            const struct atoll_exec_output *options);
