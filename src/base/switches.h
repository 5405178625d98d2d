#pragma once
#include "base/defs.h"

/*
 * Switches that only tests throw. A build made with -Dtest_switches=true obeys these variables of
 * its environment; in any other build the functions are constants and leave nothing behind, so that
 * no program a user runs can be told to fail or to leave a layer out.
 *
 *   ATOLL_FAULT        POINT[@N]=ACTION: what happens the Nth time (1 when not given) this process
 *                      passes the point. ACTION is an errno by name (see switches.c), which the
 *                      point fails with, or `die`: SIGKILL.
 *   ATOLL_FAULT_BOARD  a file that the daemon, atoll-spawn and its agents share as memory: a wish as
 *                      above, which may change while they run, and a log of the points they pass, so
 *                      that a test can walk through all there are. See tests/faults.py.
 *   ATOLL_WEAKEN       LAYER[,LAYER...]: what a sandbox is made without, so that a test can see its
 *                      absence noticed. `own_filter` is the daemon's: valgrind refuses seccomp(2).
 *
 * A point is named folder.operation ("templates.save", "spawn.overlay"). Thread: any.
 */

#ifdef ATOLL_TEST_SWITCHES
/* 0, or the errno to fail with as if the operation that follows had; may not return. */
int atoll_fault(const char *point) ATOLL_MUST_CHECK;
/* The same for a name that is put together. */
int atoll_faultf(const char *point, ...) ATOLL_PRINTF(1, 2) ATOLL_MUST_CHECK;
/* A point behind something that is done: nothing can fail there but the process. */
void atoll_fault_die(const char *point, ...) ATOLL_PRINTF(1, 2);
/* Whether the sandbox is to be made without this layer. */
bool atoll_weakened(const char *layer) ATOLL_MUST_CHECK;
/* Of our environment, what a program of ours is to be started with. */
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
