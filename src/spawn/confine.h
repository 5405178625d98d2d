#pragma once
#include "base/error.h"

/*
 * Drops privileges of atoll-spawn at its start: capabilities that no step of a plan needs, the
 * ability to gain new ones (no_new_privs), and system calls that spawn and the programs it becomes
 * (the agent, runsc) do not use. Sandboxes inherit this and drop more themselves. As an ordinary
 * user it does nothing, because newuidmap is a set-uid program.
 */
int atoll_confine(struct atoll_error *err) ATOLL_MUST_CHECK;
