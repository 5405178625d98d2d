#pragma once
#include "api/call.h"
#include "engine/sandbox/ended.h"

/* Records of ended sandboxes (engine/sandbox/ended.h) as JSON. */
#define ATOLL_REST_STATE_ENDED "ended"

void atoll_rest_ended_view(struct atoll_json_out *out, const char *key,
                           const struct atoll_store_ended *row);
/* Answer calls whose subject is an ended sandbox. */
void atoll_rest_ended_get(struct atoll_api_call *call);
void atoll_rest_ended_execs(struct atoll_api_call *call);
void atoll_rest_ended_exec(struct atoll_api_call *call);
void atoll_rest_ended_session(struct atoll_api_call *call);
