#pragma once
#include "api/call.h"
#include "task/task.h"

/* Shared by the files of tasks. */

/* The task in the route, if the caller may see it. NOT_FOUND. */
int atoll_rest_task_find(struct atoll_api_call *call, struct atoll_task_view *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* whole: with what takes room, such as the content of files. */
void atoll_view_task(struct atoll_json_out *out, const char *key, struct atoll_engine *engine,
                     const struct atoll_task_view *view, bool whole);
