#pragma once
#include "api/call.h"
#include "api/kit/paging.h"
#include "engine/sandbox/ended.h"

/* Records of ended sandboxes (engine/sandbox/ended.h) as JSON. */
#define ATOLL_REST_STATE_ENDED "ended"

void atoll_rest_ended_view(struct atoll_json_out *out, const char *key,
                           const struct atoll_store_ended *row);
/* As the record of its session. */
void atoll_rest_ended_session_view(struct atoll_json_out *out, const struct atoll_store_ended *row);

/* ?state=, with the states of living sandboxes and ATOLL_REST_STATE_ENDED; NULL without it.
 * INVALID_ARGUMENT. */
int atoll_rest_state_take(const struct atoll_api_call *call, const char **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* A page of records in the order in which the sandboxes ended: calls show for each. Page.shown
 * counts those examined, so that a page may have fewer elements than its limit. */
struct atoll_rest_ended_list {
    struct atoll_page_out page;
    void (*show)(void *arg, const struct atoll_store_ended *row);
    void *arg;
};
int atoll_rest_ended_list(struct atoll_api_call *call, struct atoll_rest_ended_list *list,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Answer calls whose subject is an ended sandbox. */
void atoll_rest_ended_get(struct atoll_api_call *call);
void atoll_rest_ended_execs(struct atoll_api_call *call);
void atoll_rest_ended_exec(struct atoll_api_call *call);
void atoll_rest_ended_session(struct atoll_api_call *call);
