#pragma once
#include <pthread.h>
#include "base/clock.h"
#include "provider/docker/body.h"
#include "provider/docker/http.h"

/* What the files of this provider share. */

#define ATOLL_DOCKER_POOL_MAX 32
#define ATOLL_DOCKER_PULLS 16 /* at once, with somebody's own credentials */
#define ATOLL_DOCKER_CLEAN_UP_MS 30000

struct atoll_docker_pool; /* pool.c */

struct atoll_docker {
    struct atoll_sync_provider sync;   /* first */
    struct atoll_docker_config config; /* strings owned, see docker.c */
    struct atoll_docker_http *http;
    char *state_dir;  /* owned; one directory per container below */
    char *agent_path; /* owned */
    char *sudo_path;  /* owned */
    char *profile;    /* owned: seccomp, as JSON */
    char daemon_id[40];
    bool local; /* a unix socket of an engine that sees our files */

    pthread_mutex_t lock; /* for what follows */
    struct atoll_docker_info info;
    char pulling[ATOLL_DOCKER_PULLS][264]; /* images on their way for one tenant alone; "" */
    unsigned pulls;                        /* how many such have begun */
    bool agent_sent;                       /* remote: the volume with our agent is complete */
    pthread_mutex_t sending; /* one worker at a time makes that volume, or an image of a layer */

    pthread_mutex_t cleaning;
    bool cleaned; /* what a daemon before us left is gone, or was for another to remove */

    struct atoll_docker_pool *pool; /* NULL: none */
};

static inline struct atoll_docker *atoll_docker_of(struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_docker, sync);
}

/* For what cleans up: it has its own time, whatever became of the caller's. */
static inline struct atoll_sync_call atoll_docker_after(void)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ATOLL_DOCKER_CLEAN_UP_MS,
                                    .cancel_fd = ATOLL_NO_FD};
}

/* For what is held while the engine is asked: whoever waits for it can still be cancelled.
 * DEADLINE_EXCEEDED, ABORTED. */
int atoll_docker_lock(pthread_mutex_t *lock, const struct atoll_sync_call *call,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* What the engine can do; asked once. */
int atoll_docker_info_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                          struct atoll_docker_info *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether streams carry descriptors. */
bool atoll_docker_shares_files(const struct atoll_docker *d, const struct atoll_docker_info *info);
/* How the disk of this spec is limited; REFUSE: not at all. */
enum atoll_docker_disk atoll_docker_disk_of(const struct atoll_docker *d,
                                            const struct atoll_docker_info *info,
                                            const struct atoll_spec *spec);

/* --- images (image.c) --- */

/* Files of state_dir, with a number: an image that is being pulled for one tenant alone. */
#define ATOLL_DOCKER_PULL_NOTE "pull-"
/* Of a daemon that died meanwhile: the image loses the name that everybody knows. */
void atoll_docker_forget_pull(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *name);

/* The image of this spec, pulled or imported where it is missing. */
int atoll_docker_image_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_docker_image *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_docker_image_inspect(struct atoll_docker *d, const struct atoll_sync_call *call,
                               const char *image, struct atoll_docker_image *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_docker_check_image_name(const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
/* A request whose answer is a stream of progress, which is said; pulled: the image it is about, NULL
 * for a build, whose lines are said as they are. */
int atoll_docker_ask_progress(struct atoll_docker *d, const struct atoll_sync_call *call,
                              struct atoll_docker_ask *ask, const char *pulled,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* "NAME: " and the value in base64, as engines take credentials; malloc'd, NULL without memory. */
char *atoll_docker_header_of(const char *name, const json_t *value);

/* --- volumes and directories of the host (volume.c) --- */

/* What the spec wants mounted, as the engine wants to hear it, volumes made where they are missing.
 * PERMISSION_DENIED, RESOURCE_EXHAUSTED. */
int atoll_docker_mounts_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec, json_t **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* As in provider/sync.h. */
int atoll_docker_list_volumes(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                              const char *tenant, atoll_provider_volume_fn *each, void *arg,
                              struct atoll_error *err);
int atoll_docker_drop_volume(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                             const char *tenant, const char *name, struct atoll_error *err);

/* --- containers (container.c) --- */

/* Makes and starts a container named `name` and waits for its agent. With a shared file system its
 * directory is then state_dir/name, with the agent's socket. On an error nothing is left. */
int atoll_docker_container_start(struct atoll_docker *d, const struct atoll_sync_call *call,
                                 const char *name, const struct atoll_spec *spec, char *ret_handle,
                                 size_t cap, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Container and directory; `which` is a name or an id of Docker. Idempotent. */
int atoll_docker_container_remove(struct atoll_docker *d, const struct atoll_sync_call *call,
                                  const char *which, const char *name,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* A stream to the agent of the container `which`, whose directory is `name`. */
int atoll_docker_container_dial(struct atoll_docker *d, const struct atoll_sync_call *call,
                                const char *which, const char *name, int *ret_fd,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- an engine elsewhere (remote.c) --- */

/* The volume with our agent, filled when that has not been done; out holds 64. */
int atoll_docker_remote_agent(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *image_id, char *out,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* One try to have an answer of the agent. UNAVAILABLE: it does not listen yet. */
int atoll_docker_remote_greet(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *which, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_docker_remote_dial(struct atoll_docker *d, const struct atoll_sync_call *call,
                             const char *which, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- networks (network.c) --- */

/* The name of Docker's network for this spec, made where it is missing; out holds 80. */
int atoll_docker_network_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                             const struct atoll_spec *spec, char *out,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* An isolated network that nobody uses any more goes. */
void atoll_docker_network_put(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const struct atoll_spec *spec);

/* --- which are ours (list.c) --- */

/* As in provider/sync.h. */
int atoll_docker_list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      void (*each)(void *arg, const char *id, const char *handle, bool alive),
                      void *arg, struct atoll_error *err);
/* Before anything is made: containers and directories of a daemon before this one that are no
 * sandboxes go. Done once, as soon as the engine answers. */
int atoll_docker_clean(struct atoll_docker *d, const struct atoll_sync_call *call,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- containers that wait (pool.c) --- */

int atoll_docker_pool_new(struct atoll_docker *d, unsigned size, struct atoll_docker_pool **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends its thread, and removes its containers where that takes no time to speak of; the next daemon
 * removes the rest. */
struct atoll_docker_pool *atoll_docker_pool_free(struct atoll_docker_pool *pool);
/* A started container becomes that of the spec. False: there is none for it. */
bool atoll_docker_pool_take(struct atoll_docker_pool *pool, const struct atoll_sync_call *call,
                            struct atoll_spec *spec, int *ret_fd);
/* Whether a container of that name waits in it, or is about to, or has just been taken out. */
bool atoll_docker_pool_may_have(struct atoll_docker_pool *pool, const char *name);

/* --- tar (tar.c) --- */

/* A tar archive of one file, or of a tree, read piece by piece. */
struct atoll_docker_tar;
int atoll_docker_tar_file(const char *path, const char *name, struct atoll_docker_tar **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ids on disk are shifted down by id_base; what is below it or beyond its range becomes 0. Devices
 * and sockets are left out. */
int atoll_docker_tar_tree(const char *dir, uint32_t id_base, struct atoll_docker_tar **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_docker_tar *atoll_docker_tar_free(struct atoll_docker_tar *tar);
atoll_docker_read_fn atoll_docker_tar_read; /* arg is the archive */
