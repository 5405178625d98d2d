#pragma once
#include "base/buf.h"
#include "base/list.h"
#include "provider/native/id_ranges.h"
#include "provider/native/native.h"
#include "provider/spawn_client.h"
#include "sandbox/host_folders.h"
#include "sandbox/plan_builder.h"
#include "sys/cgroup.h"

/*
 * Shared by the files of the native provider: create.c makes sandboxes, layers.c makes
 * layers from them, stats.c measures them, sockets.c hands out their networks, spawn_link.c keeps the connection to atoll-spawn, native.c has the rest.
 *
 * If atoll-spawn does not answer for long, the operation fails with DEADLINE_EXCEEDED. atoll-spawn
 * still carries it out once it continues, in the order of the requests. So an opposite request
 * (resume after pause) can simply be sent, and a sandbox whose create has failed that way is
 * removed when it is ready.
 */

/* Longer than the retries of checked.h, so that the same request is never pending twice. */
#define ATOLL_NATIVE_ANSWER_MS 120000
/* For list, which needs no work in atoll-spawn and also serves as its health check. */
#define ATOLL_NATIVE_LIST_MS 30000
/* For layers, which can be large. */
#define ATOLL_NATIVE_LAYER_MS 600000

#define ATOLL_NATIVE_EARLY_MAX 16

struct atoll_native {
    struct atoll_provider base;
    struct atoll_loop *loop;
    char *state_dir, *spawn_program;
    uint32_t volumes;                  /* that a tenant may have */
    uint64_t volume_bytes;             /* limit of each; 0: none */
    bool images;                       /* the host has loop devices and mkfs.ext4 */
    char free_tenant[65];              /* it may have ATOLL_NATIVE_VOLUMES; "": none */
    char operator[65];                 /* the operator's own tenant; "": none */
    struct atoll_host_folders folders; /* whose paths have no links */
    struct atoll_spawn_info spawn;
    struct atoll_rpc *rpc; /* NULL: not connected; see absence */
    struct {
        struct atoll_rpc *rpc;       /* to the next atoll-spawn, during the handshake */
        struct atoll_timer again;    /* the next try, or the timeout of the handshake */
        struct atoll_timer patience; /* after it the sandboxes are reported lost in any case */
        int64_t delay_ms;            /* before the next try */
        bool told;                   /* they were reported lost */
    } absence;
    int64_t answer_ms; /* timeout of an answer */
    unsigned lost;     /* how often atoll-spawn died: ids taken before are invalid */
    struct atoll_plan_host plan_host;
    struct atoll_cgroups cgroups; /* for reading */
    struct atoll_buf seccomp;
    struct atoll_id_ranges homes;
    struct atoll_list id_waiters; /* creates without a range; ids.c */
    bool asking_ids;              /* a request for a block of ranges is pending */
    struct atoll_provider_caps caps;
    /* Sockets that came with the answer to a create, until they are asked for; sockets.c */
    struct atoll_native_early {
        char id[ATOLL_ID_LEN + 1];
        int tcp_fd, dns_fd; /* owned */
    } early[ATOLL_NATIVE_EARLY_MAX];
    size_t early_count; /* the oldest is first */
    bool ending;
};

static inline struct atoll_native *atoll_native_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_native, base);
}

/* sockets.c: keeps those that came with the answer to a create; drops them. */
void atoll_native_keep_sockets(struct atoll_native *native, const char *id,
                               struct atoll_frame *frame);
void atoll_native_drop_sockets(struct atoll_native *native, const char *id);
void atoll_native_drop_all_sockets(struct atoll_native *native);
/* volumes.c */
void atoll_native_list_volumes(struct atoll_provider *provider, const char *tenant,
                               atoll_provider_volume_fn *each, atoll_provider_done_fn *done,
                               void *arg);
/* Whether the tenant may have the volumes that the sandbox mounts. Sets the limit of those that it makes.
 * RESOURCE_EXHAUSTED, PERMISSION_DENIED, FAILED_PRECONDITION. */
int atoll_native_check_volumes(const struct atoll_native *native, struct atoll_spec *spec,
                               bool *ret_makes, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether the tenant may have a copy of the volume. NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION,
 * RESOURCE_EXHAUSTED, PERMISSION_DENIED. */
int atoll_native_check_copy(const struct atoll_native *native, const char *tenant, const char *from,
                            const char *to, struct atoll_error *err) ATOLL_MUST_CHECK;

/* folders.c: reads the list of the configuration, and resolves links in it. INVALID_ARGUMENT. */
int atoll_native_read_folders(struct atoll_native *native, const char *text,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the sandbox may mount the folders of the host that it names. PERMISSION_DENIED. */
int atoll_native_check_folders(const struct atoll_native *native, const struct atoll_spec *spec,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* native.c: the error of an operation that waited that long. */
int atoll_native_silent(struct atoll_error *err, int64_t waited_ms);
/* spawn_link.c: connects to atoll-spawn or starts it. Blocking; for the start of the daemon. */
int atoll_native_connect_spawn(struct atoll_native *native,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* UNAVAILABLE, with advice for the operator; while rpc is NULL. */
int atoll_native_absent(const struct atoll_native *native, struct atoll_error *err);
void atoll_native_end_return(struct atoll_native *native);
/* create.c: opens a stream to the agent, or -errno. */
int atoll_native_connect(struct atoll_native *native, const char *id,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* ids.c: id ranges beyond the blocks that atoll-spawn has. */
struct atoll_native_id_waiter {
    struct atoll_list node;
    void (*done)(struct atoll_native_id_waiter *waiter, const struct atoll_error *error);
};
/* Requests another block from atoll-spawn; all waiters are called, with or without an error.
 * UNAVAILABLE. */
int atoll_native_more_ids(struct atoll_native *native, struct atoll_native_id_waiter *waiter,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Frees the range of a removed sandbox, and gives back a block that is empty now. */
void atoll_native_forget(struct atoll_native *native, const char *id);
/* Updates the metric of id ranges. */
void atoll_native_note_ids(const struct atoll_native *native);
/* As in provider.h; RESOURCE_EXHAUSTED while there is no range for another sandbox. */
void atoll_native_health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg);

/* native.c: as in provider.h. */
void atoll_native_drop_layer(struct atoll_provider *p, const char *layer,
                             atoll_provider_done_fn *done, void *arg);

/* layers.c: as in provider.h. */
void atoll_native_keep_layer(struct atoll_provider *p, const struct atoll_spec *spec,
                             const char *path, const char *layer, atoll_provider_layer_fn *done,
                             void *arg);
void atoll_native_snapshot_layer(struct atoll_provider *p, const struct atoll_spec *spec,
                                 const char *layer, atoll_provider_layer_fn *done, void *arg);

/* stats.c: as in provider.h. */
void atoll_native_stats(struct atoll_provider *p, const struct atoll_spec *spec,
                        atoll_provider_stats_fn *done, void *arg);

/* sockets.c: as in provider.h. */
void atoll_native_sockets(struct atoll_provider *p, const struct atoll_spec *spec,
                          atoll_provider_sockets_fn *done, void *arg);

/* create.c: as in provider.h. */
void atoll_native_create(struct atoll_provider *p, struct atoll_spec *spec,
                         atoll_provider_created_fn *done, void *arg);
