#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/build/build.h"

/*
 * Builds of the engine in memory: at most one is in progress, and it ends when the test says so with
 * fake_build_end().
 */
struct atoll_make_watch {
    void (*fn)(void *arg);
    void *arg;
};

static struct {
    unsigned started;
    enum atoll_make_state state; /* of the last one */
    char name[65], definition[4096];
    enum atoll_network network;
    struct atoll_error error;
    const char *log;
    struct atoll_make_watch *watches[4];
} fake_builds;

static inline void fake_builds_reset(void)
{
    memset(&fake_builds, 0, sizeof(fake_builds));
    fake_builds.log = "";
}

static inline void fake_build_view(struct atoll_make_view *ret)
{
    *ret = (struct atoll_make_view){.id = "build0",
                                    .name = fake_builds.name,
                                    .owner = "",
                                    .state = fake_builds.state,
                                    .log_bytes = strlen(fake_builds.log),
                                    .error = &fake_builds.error};
}

int atoll_make_start(struct atoll_engine *engine ATOLL_UNUSED,
                     const struct atoll_make_request *request, struct atoll_make_view *ret,
                     struct atoll_error *err ATOLL_UNUSED)
{
    fake_builds.started++;
    fake_builds.state = ATOLL_MAKE_RUNNING;
    fake_builds.network = request->network;
    (void)snprintf(fake_builds.name, sizeof(fake_builds.name), "%s", request->name);
    (void)snprintf(fake_builds.definition, sizeof(fake_builds.definition), "%s",
                   request->definition);
    if (ret)
        fake_build_view(ret);
    return 0;
}

int atoll_make_find(struct atoll_engine *engine ATOLL_UNUSED, const char *tenant ATOLL_UNUSED,
                    const char *id ATOLL_UNUSED, struct atoll_make_view *ret,
                    struct atoll_error *err ATOLL_UNUSED)
{
    fake_build_view(ret);
    return 0;
}

bool atoll_make_next(struct atoll_engine *engine ATOLL_UNUSED, size_t *pos,
                     struct atoll_make_view *ret)
{
    fake_build_view(ret);
    return fake_builds.started > 0 && (*pos)++ == 0;
}

ssize_t atoll_make_log(struct atoll_engine *engine ATOLL_UNUSED, const char *id ATOLL_UNUSED,
                       uint64_t offset, void *buf, size_t n, struct atoll_error *err ATOLL_UNUSED)
{
    size_t len = strlen(fake_builds.log) - offset;

    memcpy(buf, fake_builds.log + offset, ATOLL_MIN(len, n));
    return (ssize_t)ATOLL_MIN(len, n);
}

int atoll_make_watch(struct atoll_engine *engine ATOLL_UNUSED, const char *id ATOLL_UNUSED,
                     void (*fn)(void *arg), void *arg, struct atoll_make_watch **ret,
                     struct atoll_error *err ATOLL_UNUSED)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fake_builds.watches); i++) {
        if (fake_builds.watches[i])
            continue;
        *ret = calloc(1, sizeof(**ret));
        if (!*ret)
            abort();
        **ret = (struct atoll_make_watch){fn, arg};
        fake_builds.watches[i] = *ret;
        return 0;
    }
    abort();
}

struct atoll_make_watch *atoll_make_unwatch(struct atoll_make_watch *watch)
{
    for (size_t i = 0; watch && i < ATOLL_ARRAY_LEN(fake_builds.watches); i++)
        if (fake_builds.watches[i] == watch)
            fake_builds.watches[i] = NULL;
    free(watch);
    return NULL;
}

static inline void fake_build_end(enum atoll_make_state state)
{
    fake_builds.state = state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fake_builds.watches); i++)
        if (fake_builds.watches[i])
            fake_builds.watches[i]->fn(fake_builds.watches[i]->arg);
}
