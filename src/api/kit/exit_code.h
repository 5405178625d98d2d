#pragma once
#include "engine/engine.h"

/* The exit status as a shell shows it: 128 + signal for a process that a signal ended. Not for an end
 * that is LOST. */
int atoll_exit_code(const struct atoll_exec_result *result);
