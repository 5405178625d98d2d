#pragma once
#include "loop/loop.h"

/*
 * Measures the loop's thread, which serves every tenant. The duration of each turn goes into the
 * metrics; a turn of ATOLL_STALL_US or more is logged with the callback that took longest.
 */
#define ATOLL_STALL_US (100 * 1000)

void atoll_watchdog_start(struct atoll_loop *loop);
