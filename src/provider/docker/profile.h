#pragma once
#include <jansson.h>
#include "base/defs.h"

/*
 * Our system-call policy (sandbox/seccomp_policy.h) as a profile in Docker's JSON. In that format
 * the rules of one call have no order, and a rule compares an argument once. So "the first row that
 * matches" becomes rules that exclude one another: one per set of argument bits with the same
 * result. Pure. NULL if out of memory.
 */
json_t *atoll_docker_profile(void);
