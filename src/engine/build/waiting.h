#pragma once
#include "engine/engine.h"
#include "store/waiting.h"

/*
 * Rows for sandboxes that wait for a build, whose ids clients know already. The facade that gave the id makes
 * the sandbox, and keeps the row meanwhile: after a restart it reads its rows and goes on.
 *
 * Blocking: as store/waiting.h. Thread: the loop's.
 */
int atoll_make_waiting_put(struct atoll_engine *engine, const struct atoll_store_waiting *row,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_make_waiting_drop(struct atoll_engine *engine, const char *id,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* As atoll_store_each_waiting(). */
int atoll_make_waiting_each(struct atoll_engine *engine,
                            int (*fn)(void *arg, const struct atoll_store_waiting *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
