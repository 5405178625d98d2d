#pragma once
#include <pthread.h>
#include "base/list.h"
#include "proto/spawn_proto.h"
#include "provider/gvisor/gvisor.h"
#include "provider/id_pool.h"
#include "provider/spawn_client.h"
#include "sys/cgroup.h"

/* Shared by the files of this provider. */

#define ATOLL_GVISOR_EXITS_MAX 256

/* How a sandbox ended. Kept until the sandbox is destroyed or newer entries replace it. */
struct atoll_gvisor_exit {
    char id[ATOLL_ID_LEN + 1];
    struct atoll_provider_exit exit;
};

/* The connection to atoll-spawn. One request at a time, except those that take long: the caller holds the
 * lock meanwhile. */
struct atoll_gvisor_link {
    pthread_mutex_t lock;
    const char *state_dir; /* the provider's directory */
    struct atoll_spawn_info info;
    /* Number of atoll-spawn processes seen so far; each one's sandboxes end with it. */
    unsigned lives;
    bool open;
    /* Its process, for the loop's thread, which must not wait for `lock`. */
    pthread_mutex_t keeper_lock;
    int keeper_fd; /* owned; ATOLL_NO_FD: not connected */
    struct atoll_channel channel;
    uint32_t last_id;
    struct atoll_list apart; /* requests of atoll_gvisor_ask_apart() */
    struct atoll_gvisor_exit exits[ATOLL_GVISOR_EXITS_MAX]; /* ring buffer */
    size_t exit_next;
};

/* A range of ids. A new atoll-spawn assigns the same ranges to other sandboxes. */
struct atoll_gvisor_range {
    uint32_t first_id; /* 0: no range */
    unsigned life;     /* link.lives when it was taken or seen */
};

struct atoll_gvisor {
    struct atoll_sync_provider base;
    struct atoll_sync_ops ops;
    char *state_dir; /* owned; STATE/gvisor */
    char *sandboxes; /* owned; STATE/gvisor/sandboxes */
    char *runsc;     /* owned */
    char platform[33];
    char version[80];
    struct atoll_plan_host plan_host;
    struct atoll_cgroups cgroups; /* for reading */
    struct atoll_gvisor_link link;
    pthread_mutex_t lock;       /* guards the members below */
    struct atoll_id_pool slots; /* id ranges of the current atoll-spawn */
    unsigned slots_life;        /* link.lives of that one */
    bool tried;                 /* a sandbox has started successfully */
    char trial[ATOLL_ID_LEN + 1];
};

/* link.c. program NULL: its keeper starts it. */
int atoll_gvisor_link_open(struct atoll_gvisor_link *link, const char *state_dir,
                           const char *program, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_gvisor_link_close(struct atoll_gvisor_link *link);
/* A pidfd of atoll-spawn, which the caller owns; -errno. Does not block. */
int atoll_gvisor_link_keeper(struct atoll_gvisor_link *link) ATOLL_MUST_CHECK;
/* Sends one request and waits for its answer. part: called for each PART and for the REPLY; may
 * be NULL. It may take descriptors of the frame with ATOLL_TAKE_FD; the others are closed. */
int atoll_gvisor_ask(struct atoll_gvisor_link *link, const struct atoll_sync_call *call,
                     uint16_t type, const struct atoll_msg_desc *desc, const void *msg,
                     void (*part)(void *arg, struct atoll_frame *frame), void *arg,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a request that may take minutes: others are served meanwhile. part may be called on any worker,
 * with the lock held, until this returns. */
int atoll_gvisor_ask_apart(struct atoll_gvisor_link *link, const struct atoll_sync_call *call,
                           uint16_t type, const struct atoll_msg_desc *desc, const void *msg,
                           void (*part)(void *arg, struct atoll_frame *frame), void *arg,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* CREATE, only by the atoll-spawn of that life; UNAVAILABLE if another one runs. */
int atoll_gvisor_ask_create(struct atoll_gvisor_link *link, const struct atoll_sync_call *call,
                            unsigned life, const struct atoll_sm_create *msg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* What atoll-spawn reported about itself; returns its life. */
unsigned atoll_gvisor_link_info(struct atoll_gvisor_link *link, struct atoll_spawn_info *ret);
/* How the sandbox ended, if atoll-spawn reported it. */
bool atoll_gvisor_exit_of(struct atoll_gvisor_link *link, const char *id,
                          struct atoll_provider_exit *ret);

/* bundle.c: the bundle's config.json. Pure. */
int atoll_gvisor_bundle(const struct atoll_spec *spec, struct atoll_buf *out,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* runsc.c: finds the program and its capabilities; fills runsc, platform and version. */
int atoll_gvisor_find_runsc(struct atoll_gvisor *g, const struct atoll_gvisor_config *config,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* ranges.c: an id range for each live sandbox. Ranges of sandboxes made by an earlier daemon are
 * found by the owner of their socket, so nothing is stored. */
/* Sets spec->outside_id. RESOURCE_EXHAUSTED. */
int atoll_gvisor_range_take(struct atoll_gvisor *g, struct atoll_spec *spec,
                            struct atoll_gvisor_range *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The range of sandbox `id`. */
struct atoll_gvisor_range atoll_gvisor_range_of(struct atoll_gvisor *g, const char *id);
/* Gives a range back. Ignores one that is not ours, or that of an atoll-spawn that has ended. */
void atoll_gvisor_range_give(struct atoll_gvisor *g, const struct atoll_gvisor_range *range);

/* snapshot.c */
int atoll_gvisor_snapshot_layer(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                                const struct atoll_spec *spec, const char *layer,
                                struct atoll_provider_layer *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* start.c */
/* After a resume: if the sandbox was restored from disk, waits until its agent listens, and removes what was
 * saved. */
int atoll_gvisor_restored(struct atoll_gvisor *g, const struct atoll_sync_call *call,
                          const char *id, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_gvisor_create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        struct atoll_spec *spec, int *ret_fd,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* gvisor.c: 1 alive, 0 its first process has ended, NOT_FOUND. */
int atoll_gvisor_alive(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_gvisor_remove(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same, and frees its id range; for a sandbox that got as far as having a socket. */
int atoll_gvisor_clear(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
