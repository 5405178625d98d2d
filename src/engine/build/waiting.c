#include "engine/build/waiting.h"

#include "engine/engine_internal.h"

int atoll_make_waiting_put(struct atoll_engine *engine, const struct atoll_store_waiting *row,
                           struct atoll_error *err)
{
    return engine->config.store ? atoll_store_put_waiting(engine->config.store, row, err) : 0;
}

int atoll_make_waiting_drop(struct atoll_engine *engine, const char *id, struct atoll_error *err)
{
    return engine->config.store ? atoll_store_drop_waiting(engine->config.store, id, err) : 0;
}

int atoll_make_waiting_each(struct atoll_engine *engine,
                            int (*fn)(void *arg, const struct atoll_store_waiting *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err)
{
    return engine->config.store ? atoll_store_each_waiting(engine->config.store, fn, arg, err) : 0;
}
