#pragma once
#include "api/call.h"

/* Calls that are answered when a task or a swarm has ended (?wait=true). */
struct atoll_end_source {
    /* Also true if it does not exist any more. */
    bool (*ended)(const struct atoll_api_call *call, const char *id);
    /* fn is called when the state may have changed. */
    int (*watch)(const struct atoll_api_call *call, const char *id, void (*fn)(void *arg),
                 void *arg, void **ret_watch, struct atoll_error *err);
    void (*unwatch)(void *watch);
    /* Answers the call with what the task or the swarm is now. */
    void (*reply)(struct atoll_api_call *call, int status, const char *id);
};

/* Answers the call, with status 200 or an error. source: static. */
void atoll_rest_wait_end(struct atoll_api_call *call, const struct atoll_end_source *source,
                         const char *id);
