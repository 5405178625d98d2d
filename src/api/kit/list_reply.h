#pragma once
#include "api/call.h"

/* A response with a list whose elements are written as they arrive: {"NAME":[…]},
 * {"NAME":{…}} or, without a name, […]. */
struct atoll_list_reply {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out; /* writer for the next element */
    char closing;
    bool bare; /* without a name */
};

/* name: or NULL; closing: ']' or '}'. Freed by atoll_list_reply_done(). */
struct atoll_list_reply *atoll_list_reply_new(struct atoll_api_call *call, const char *name,
                                              char closing);
/* The atoll_done_fn of a listing: answers its call. */
void atoll_list_reply_done(void *arg, const struct atoll_error *error);
