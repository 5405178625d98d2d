#pragma once
#include "api/json_out.h"
#include "engine/build/build.h"

/* Shared by the handlers of builds. */
struct atoll_api_call;

void atoll_view_make(struct atoll_json_out *out, const char *key,
                     const struct atoll_make_view *view);
/* The build that {name} is the id of, if the caller may see it. NOT_FOUND. */
int atoll_rest_make_find(struct atoll_api_call *call, struct atoll_make_view *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
