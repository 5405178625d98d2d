#pragma once
#include "base/defs.h"

/*
 * Switches for tests. A build with -Dtest_switches=true reads these environment variables. In every
 * other build the functions are constants and compile to nothing, so that a user's program cannot be
 * made to fail or to omit a layer of isolation.
 *
 *   ATOLL_FAULT        POINT[@N]=ACTION: what happens the Nth time (default: first) that this process
 *                      passes the point. ACTION is the name of an errno (see switches.c), with which
 *                      the point fails, or `die`: SIGKILL.
 *   ATOLL_FAULT_BOARD  a file that the daemon, atoll-spawn and its agents map as shared memory. It has
 *                      a request as above, which may change while they run, and a log of the points
 *                      they pass, so that a test can try every point. See tests/faults.py.
 *   ATOLL_WEAKEN       LAYER[,LAYER...]: layers of isolation to omit, so that a test can check that
 *                      their absence is detected. `own_filter` is the daemon's own seccomp filter
 *                      (valgrind does not support seccomp(2)); `descriptors` is not a layer: the
 *                      daemon takes no descriptors from agents.
 *
 * A point is named folder.operation ("templates.save", "spawn.overlay"). Thread: any.
 */

#ifdef ATOLL_TEST_SWITCHES
/* 0, or the errno with which the operation that follows must fail. May end the process. */
int atoll_fault(const char *point) ATOLL_MUST_CHECK;
/* The same with a formatted name. */
int atoll_faultf(const char *point, ...) ATOLL_PRINTF(1, 2) ATOLL_MUST_CHECK;
/* A point after a completed operation: the only possible fault is the end of the process. */
void atoll_fault_die(const char *point, ...) ATOLL_PRINTF(1, 2);
/* Whether to omit this layer of isolation. */
bool atoll_weakened(const char *layer) ATOLL_MUST_CHECK;
/* The variables above that are set, as the environment for programs that we start. */
char *const *atoll_switches_env(void);
#else
static inline int atoll_fault(const char *point)
{
    (void)point;
    return 0;
}
#define atoll_faultf(...) 0
#define atoll_fault_die(...) ((void)0)
static inline bool atoll_weakened(const char *layer)
{
    (void)layer;
    return false;
}
static inline char *const *atoll_switches_env(void)
{
    static char *const none[] = {NULL};
    return none;
}
#endif
