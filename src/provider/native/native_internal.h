#pragma once
#include "base/buf.h"
#include "provider/native/homes.h"
#include "provider/native/native.h"
#include "provider/spawn_client.h"
#include "sandbox/plan_builder.h"
#include "sys/cgroup.h"

/*
 * What the files of the native provider share: create.c makes sandboxes, native.c does the rest.
 */
struct atoll_native {
    struct atoll_provider base;
    struct atoll_loop *loop;
    char *state_dir, *spawn_program;
    struct atoll_spawn_info spawn;
    struct atoll_rpc *rpc;
    unsigned lost; /* how often atoll-spawn died: ids handed out before are others' by now */
    struct atoll_plan_host plan_host;
    struct atoll_cgroups cgroups; /* for reading */
    struct atoll_buf seccomp;
    struct atoll_homes homes;
    struct atoll_provider_caps caps;
    bool ending;
};

static inline struct atoll_native *atoll_native_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_native, base);
}

/* create.c: a stream to the agent, or -errno. */
int atoll_native_connect(struct atoll_native *native, const char *id,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* As in provider.h. */
void atoll_native_create(struct atoll_provider *p, struct atoll_spec *spec,
                         atoll_provider_created_fn *done, void *arg);
