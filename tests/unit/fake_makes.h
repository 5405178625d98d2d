#pragma once
#include <errno.h>
#include "engine/build/build.h"

/* The build functions of an engine without builds: included by fake_engine.h. */

bool atoll_context_find(struct atoll_engine *engine, const char *tenant, const char *name)
{
    (void)engine;
    (void)tenant;
    (void)name;
    return false;
}

void atoll_context_open(struct atoll_engine *engine, const char *tenant, const char *name,
                        atoll_context_upload_fn *ready, void *arg)
{
    struct atoll_error err;

    (void)engine;
    (void)tenant;
    (void)name;
    (void)atoll_fail(&err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "the fake unpacks nothing");
    ready(arg, NULL, &err);
}

void atoll_context_write(struct atoll_context_upload *upload, const uint8_t *bytes, size_t n,
                         atoll_done_fn *done, void *arg)
{
    (void)upload;
    (void)bytes;
    (void)n;
    done(arg, NULL);
}

void atoll_context_finish(struct atoll_context_upload *upload, const char *digest,
                          atoll_done_fn *done, void *arg)
{
    (void)upload;
    (void)digest;
    done(arg, NULL);
}

void atoll_context_drop(struct atoll_context_upload *upload)
{
    (void)upload;
}

const char *atoll_make_state_name(enum atoll_make_state state)
{
    (void)state;
    return "waiting";
}

int atoll_make_start(struct atoll_engine *engine, const struct atoll_make_request *request,
                     struct atoll_make_view *ret, struct atoll_error *err)
{
    (void)engine;
    (void)request;
    (void)ret;
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "the fake builds nothing");
}

int atoll_make_find(struct atoll_engine *engine, const char *tenant, const char *id,
                    struct atoll_make_view *ret, struct atoll_error *err)
{
    (void)engine;
    (void)tenant;
    (void)ret;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no build %.64s", id);
}

bool atoll_make_next(struct atoll_engine *engine, size_t *pos, struct atoll_make_view *ret)
{
    (void)engine;
    (void)pos;
    (void)ret;
    return false;
}

int atoll_make_cancel(struct atoll_engine *engine, const char *id, const char *who,
                      struct atoll_error *err)
{
    (void)engine;
    (void)who;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no build %.64s", id);
}

ssize_t atoll_make_log(struct atoll_engine *engine, const char *id, uint64_t offset, void *buf,
                       size_t n, struct atoll_error *err)
{
    (void)engine;
    (void)offset;
    (void)buf;
    (void)n;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no build %.64s", id);
}

int atoll_make_watch(struct atoll_engine *engine, const char *id, void (*fn)(void *arg), void *arg,
                     struct atoll_make_watch **ret, struct atoll_error *err)
{
    (void)engine;
    (void)fn;
    (void)arg;
    (void)ret;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no build %.64s", id);
}

struct atoll_make_watch *atoll_make_unwatch(struct atoll_make_watch *watch)
{
    (void)watch;
    return NULL;
}
