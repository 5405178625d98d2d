#pragma once
#include "api/call.h"

/* An answer with a list whose elements are written as they come: {"NAME":[…]} or {"NAME":{…}}. */
struct atoll_rest_listing {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out; /* where the next one goes */
    char closing;
};

/* closing: ']' or '}'. Freed by the next. */
struct atoll_rest_listing *atoll_rest_listing_new(struct atoll_api_call *call, const char *name,
                                                  char closing);
/* The atoll_done_fn of a listing: answers its call. */
void atoll_rest_listing_done(void *arg, const struct atoll_error *error);
