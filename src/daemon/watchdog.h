#pragma once
#include "loop/loop.h"

/*
 * Watches the loop's thread, which serves every tenant: how long each round of callbacks took goes into
 * the metrics, and a round that kept all others waiting is logged with what it was doing.
 */
#define ATOLL_STALL_US (100 * 1000)

void atoll_watchdog_start(struct atoll_loop *loop);
