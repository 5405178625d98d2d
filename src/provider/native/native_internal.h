#pragma once
#include "base/buf.h"
#include "base/list.h"
#include "provider/native/id_ranges.h"
#include "provider/native/native.h"
#include "provider/spawn_client.h"
#include "sandbox/plan_builder.h"
#include "sys/cgroup.h"

/*
 * What the files of the native provider share: create.c makes sandboxes, spawn_link.c keeps the
 * connection to atoll-spawn, native.c does the rest.
 *
 * Whoever waits for atoll-spawn is told DEADLINE_EXCEEDED when it does not answer for long. What it was
 * asked for is still done when it goes on, in the order in which it was asked: so a request that takes
 * the other back (a resume after a pause) needs no more than to be made, and a sandbox that nobody waits for
 * any more is taken down when it is there.
 */

/* Longer than checked.h goes on trying: what was given up is never asked for twice at a time. */
#define ATOLL_NATIVE_ANSWER_MS 120000
/* Of what it says by heart: whether it is well is asked this way. */
#define ATOLL_NATIVE_LIST_MS 30000
/* A layer can be large. */
#define ATOLL_NATIVE_LAYER_MS 600000

struct atoll_native {
    struct atoll_provider base;
    struct atoll_loop *loop;
    char *state_dir, *spawn_program;
    struct atoll_spawn_info spawn;
    struct atoll_rpc *rpc; /* NULL: atoll-spawn is not there; see absence */
    struct {
        struct atoll_rpc *rpc;       /* to the next one, before its answer to the first request */
        struct atoll_timer again;    /* the next try, or the end of waiting for that answer */
        struct atoll_timer patience; /* until the sandboxes are called lost in any case */
        int64_t delay_ms;            /* before the next try */
        bool told;                   /* they are */
    } absence;
    int64_t answer_ms; /* how long that may take */
    unsigned lost;     /* how often atoll-spawn died: ids handed out before are others' by now */
    struct atoll_plan_host plan_host;
    struct atoll_cgroups cgroups; /* for reading */
    struct atoll_buf seccomp;
    struct atoll_id_ranges homes;
    struct atoll_list id_waiters; /* of creations without a range; ids.c */
    bool asking_ids;              /* atoll-spawn is being asked for a block of ranges */
    struct atoll_provider_caps caps;
    bool ending;
};

static inline struct atoll_native *atoll_native_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_native, base);
}

/* native.c: what they are told who have waited that long. */
int atoll_native_silent(struct atoll_error *err, int64_t waited_ms);
/* spawn_link.c: finds atoll-spawn or starts it. Blocking; for the start of the daemon. */
int atoll_native_connect_spawn(struct atoll_native *native,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* UNAVAILABLE, with what the operator can do; while rpc is NULL. */
int atoll_native_absent(const struct atoll_native *native, struct atoll_error *err);
void atoll_native_end_return(struct atoll_native *native);
/* create.c: a stream to the agent, or -errno. */
int atoll_native_connect(struct atoll_native *native, const char *id,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* ids.c: id ranges beyond the blocks that atoll-spawn has. */
struct atoll_native_id_waiter {
    struct atoll_list node;
    void (*done)(struct atoll_native_id_waiter *waiter, const struct atoll_error *error);
};
/* Asks atoll-spawn for another block; all that wait are told, error or not. UNAVAILABLE. */
int atoll_native_more_ids(struct atoll_native *native, struct atoll_native_id_waiter *waiter,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Nothing is left of that sandbox: its range is free, and a block that is empty now goes back. */
void atoll_native_forget(struct atoll_native *native, const char *id);
/* Sets the metric of ranges. */
void atoll_native_note_ids(const struct atoll_native *native);
/* As in provider.h; RESOURCE_EXHAUSTED while there is no range for another sandbox. */
void atoll_native_health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg);

/* create.c: as in provider.h. */
void atoll_native_create(struct atoll_provider *p, struct atoll_spec *spec,
                         atoll_provider_created_fn *done, void *arg);
