#include "sys/thread.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include "sys/caps.h"
#include "sys/landlock.h"

void atoll_thread_enter(void)
{
    /* Fails for an ordinary user, who lacks CAP_SETPCAP and has no capabilities to bound. */
    (void)!atoll_caps_bound(0);
    if (atoll_caps_set(0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        atoll_landlock_enter() < 0)
        abort();
}
