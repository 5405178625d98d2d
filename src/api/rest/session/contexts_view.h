#pragma once
#include "api/json_out.h"
#include "interpreter/contexts.h"

/* The results of an execution as an array, and whether some were dropped. */
void atoll_view_context_results(struct atoll_json_out *out, const char *key,
                                const struct atoll_context_collect *collect);
