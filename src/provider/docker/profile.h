#pragma once
#include <jansson.h>
#include "base/defs.h"

/*
 * Our system-call policy (sandbox/seccomp_policy.h) as a profile in Docker's JSON. There rules of
 * one call have no order and an argument is compared once per rule, so "the first row that
 * matches" becomes rules that exclude one another: one per piece of the arguments' bits with the
 * same fate. Pure. NULL without memory.
 */
json_t *atoll_docker_profile(void);
