#pragma once
#include "base/defs.h"

/*
 * Switches that only tests throw. A build made with -Dtest_switches=true obeys these variables of
 * its environment; in any other build the functions are constants and leave nothing behind, so that
 * no program a user runs can be told to fail or to leave a layer out.
 *
 *   ATOLL_FAULT      POINT[@N]=ACTION: what happens the Nth time (1 when not given) this process
 *                    passes the point. ACTION is an errno by name (EIO, ENOSPC, ENOMEM, EMFILE,
 *                    EAGAIN, ETIMEDOUT, ECONNRESET), which the point fails with, or `die`: SIGKILL.
 *   ATOLL_FAULT_LOG  a file to which each process adds a line "POINT" when it passes one, so that a
 *                    test can walk through all there are.
 *   ATOLL_WEAKEN     LAYER[,LAYER...]: what a sandbox is made without, so that a test can see its
 *                    absence noticed.
 *
 * A point is named folder.operation ("store.put_sandbox", "spawn.overlay"). Thread: any.
 */

#ifdef ATOLL_TEST_SWITCHES
/* 0, or the errno to fail with as if the operation that follows had; may not return. */
int atoll_fault(const char *point) ATOLL_MUST_CHECK;
/* Whether the sandbox is to be made without this layer. */
bool atoll_weakened(const char *layer) ATOLL_MUST_CHECK;
#else
static inline int atoll_fault(const char *point)
{
    (void)point;
    return 0;
}
static inline bool atoll_weakened(const char *layer)
{
    (void)layer;
    return false;
}
#endif
