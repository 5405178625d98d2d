#pragma once
#include <jansson.h>
#include "api/facade.h"
#include "engine/engine.h"

/* Atoll's own REST API, /api/…; docs/api.md describes it. */
extern const struct atoll_facade atoll_rest_facade;

/* For struct atoll_tasks_config: the sandbox of a task is asked for as in POST /api/sandboxes. The request may be one that an
 * earlier version has stored. */
int atoll_rest_task_decode(const json_t *object, struct atoll_options *ret, void **ret_hold,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_rest_task_release(void *hold); /* accepts NULL */
