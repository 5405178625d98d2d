#pragma once
#include "api/call.h"
#include "api/fields.h"
#include "task/task.h"

/* Shared by the files of tasks. */

/* The task in the route, if the caller may see it. NOT_FOUND. */
int atoll_rest_task_find(struct atoll_api_call *call, struct atoll_task_view *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Checks the request for a task, and gives its members the names that task/task.h knows. where: names the
 * object in messages. INVALID_ARGUMENT. */
int atoll_rest_task_check(struct atoll_body *body, json_t *object, const char *where,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* INVALID_ARGUMENT */
int atoll_rest_task_check_change(const struct atoll_task_change *change,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* Starts the task that a parsed body asks for, and answers the call. */
void atoll_rest_task_begin(struct atoll_api_call *call, struct atoll_body *body);
#define ATOLL_VIEW_FILES_MAX ((size_t)1024 * 1024) /* of contents of files in an answer */
/* room: with what takes room, and with contents of files of at most so many bytes, which are taken from it.
 * NULL: without. */
void atoll_view_task(struct atoll_json_out *out, const char *key, struct atoll_engine *engine,
                     const struct atoll_task_view *view, size_t *room);
