#pragma once
#include <pthread.h>
#include "base/clock.h"
#include "provider/docker/body.h"
#include "provider/docker/http.h"

/* Shared by the files of this provider. */

#define ATOLL_DOCKER_POOL_MAX 32
#define ATOLL_DOCKER_PULLS 16 /* pulls with a tenant's own credentials at the same time */
#define ATOLL_DOCKER_CLEAN_UP_MS 30000

struct atoll_docker_pool; /* pool.c */

/* What the mounts of a disk in memory hide of an image; hidden.c. */
#define ATOLL_DOCKER_HIDDEN_MAX 32
struct atoll_docker_hidden {
    char image[80];  /* its id; "": unused */
    char places[40]; /* "/home, /root"; "": nothing */
};

struct atoll_docker {
    struct atoll_sync_provider sync;   /* first */
    struct atoll_docker_config config; /* strings are owned, see docker.c */
    struct atoll_docker_http *http;
    char *state_dir;  /* owned; has one directory per container */
    char *agent_path; /* owned */
    char *sudo_path;  /* owned */
    char *profile;    /* owned: seccomp profile as JSON */
    char daemon_id[40];
    bool local; /* unix socket of an engine that sees our files */

    pthread_mutex_t lock; /* guards the members below */
    struct atoll_docker_info info;
    bool no_bridge; /* the last check did not find the network of ATOLL_NETWORK_BRIDGE */
    char pulling[ATOLL_DOCKER_PULLS][264]; /* images being pulled for one tenant; "": free */
    unsigned pulls;                        /* number of such pulls started so far */
    struct atoll_docker_hidden hidden[ATOLL_DOCKER_HIDDEN_MAX];
    unsigned hidden_next;    /* which one is replaced next */
    bool agent_sent;         /* remote engine: the volume with our agent is complete */
    pthread_mutex_t sending; /* held by the worker that makes that volume */

    pthread_mutex_t cleaning;
    bool cleaned; /* remnants of an earlier daemon were removed; not needed if config.succeeds */

    struct atoll_docker_pool *pool; /* NULL: no pool */
};

static inline struct atoll_docker *atoll_docker_of(struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_docker, sync);
}

/* A call for cleaning up, with a deadline of its own, independent of the caller's. */
static inline struct atoll_sync_call atoll_docker_after(void)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ATOLL_DOCKER_CLEAN_UP_MS,
                                    .cancel_fd = ATOLL_NO_FD};
}

/* Takes a lock that is held during requests to the engine; the wait can be cancelled.
 * DEADLINE_EXCEEDED, ABORTED. */
int atoll_docker_lock(pthread_mutex_t *lock, const struct atoll_sync_call *call,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* The engine's capabilities; asked once and cached. */
int atoll_docker_info_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                          struct atoll_docker_info *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether streams to the agent carry descriptors. */
bool atoll_docker_shares_files(const struct atoll_docker *d, const struct atoll_docker_info *info);
/* How the disk of this spec is limited; REFUSE: not limited. */
enum atoll_docker_disk atoll_docker_disk_of(const struct atoll_docker *d,
                                            const struct atoll_docker_info *info,
                                            const struct atoll_spec *spec);

/* --- images (image.c) --- */

/* Name prefix of files in state_dir: each names an image that is being pulled for one tenant. */
#define ATOLL_DOCKER_PULL_NOTE "pull-"
/* For an image whose pull a killed daemon left behind: removes its public name. */
void atoll_docker_forget_pull(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *name);

/* The image of this spec, pulled or imported if it is missing. */
int atoll_docker_image_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_docker_image *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_docker_image_inspect(struct atoll_docker *d, const struct atoll_sync_call *call,
                               const char *image, struct atoll_docker_image *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_docker_check_image_name(const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
/* A request whose answer is a stream of progress messages, which are reported. pulled: the
 * image; NULL for a build, whose lines are reported unchanged. */
int atoll_docker_ask_progress(struct atoll_docker *d, const struct atoll_sync_call *call,
                              struct atoll_docker_ask *ask, const char *pulled,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* "NAME: " and the value in base64, the engine's format of credentials; malloc'd, NULL if out of
 * memory. */
char *atoll_docker_header_of(const char *name, const json_t *value);

/* --- files that mounts hide (hidden.c) --- */

/* Looks which files of the image a container that is not started yet will hide. Cached by image. */
void atoll_docker_hidden_look(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *container, const char *image);
/* A sentence for the client about what was found; "": nothing. */
void atoll_docker_hidden_get(struct atoll_docker *d, const char *image, char *out, size_t cap);

/* --- volumes and directories of the host (volume.c) --- */

/* The mounts of the spec as a JSON array for the engine; missing volumes are created.
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

/* Creates and starts a container and waits for its agent. With a shared file system its
 * directory is state_dir/name, with the agent's socket. On an error nothing is left. */
int atoll_docker_container_start(struct atoll_docker *d, const struct atoll_sync_call *call,
                                 const char *name, const struct atoll_spec *spec, char *ret_handle,
                                 size_t cap, char ret_warning[ATOLL_WARNING_MAX],
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes container and directory; `which` is the container's name or its Docker id. Idempotent. */
int atoll_docker_container_remove(struct atoll_docker *d, const struct atoll_sync_call *call,
                                  const char *which, const char *name,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens a stream to the agent of the container `which`, whose directory is `name`. */
int atoll_docker_container_dial(struct atoll_docker *d, const struct atoll_sync_call *call,
                                const char *which, const char *name, int *ret_fd,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- remote engines (remote.c) --- */

/* The name of the volume with our agent, which is filled if it is not yet; out holds 64. */
int atoll_docker_remote_agent(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *image_id, char *out,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Tries once to get an answer of the agent. UNAVAILABLE: it does not listen yet. */
int atoll_docker_remote_greet(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *which, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_docker_remote_dial(struct atoll_docker *d, const struct atoll_sync_call *call,
                             const char *which, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- names at the engine (name.c) --- */

#define ATOLL_DOCKER_HASHED_MAX 96
/* PREFIX and the SHA-256 of the text in hexadecimal. */
void atoll_docker_hashed_name(const char *prefix, const char *text,
                              char out[ATOLL_DOCKER_HASHED_MAX]);
/* The same with SHA-1: the names that earlier versions gave. Objects that have one keep it. */
void atoll_docker_former_name(const char *prefix, const char *text,
                              char out[ATOLL_DOCKER_HASHED_MAX]);

/* --- networks (network.c) --- */

/* The name of the Docker network for this spec, created if missing; out holds 80. */
int atoll_docker_network_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                             const struct atoll_spec *spec, char *out,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the engine says that the network of ATOLL_NETWORK_BRIDGE does not exist. */
bool atoll_docker_lacks_bridge(struct atoll_docker *d, const struct atoll_sync_call *call);
/* Removes the isolated network of the spec if no container uses it. */
void atoll_docker_network_put(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const struct atoll_spec *spec);

/* --- ownership (list.c) --- */

/* As in provider/sync.h. */
int atoll_docker_list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      void (*each)(void *arg, const char *id, const char *handle, bool alive),
                      void *arg, struct atoll_error *err);
/* Removes containers and directories of an earlier daemon that are not sandboxes. Done once, as
 * soon as the engine answers and before anything is created. */
int atoll_docker_clean(struct atoll_docker *d, const struct atoll_sync_call *call,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- pool (pool.c) --- */

int atoll_docker_pool_new(struct atoll_docker *d, unsigned size, struct atoll_docker_pool **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the pool's thread and removes its containers within a few seconds; the next daemon
 * removes the rest. */
struct atoll_docker_pool *atoll_docker_pool_free(struct atoll_docker_pool *pool);
/* Turns a started container of the pool into that of the spec. False: no container of the pool
 * fits. */
bool atoll_docker_pool_take(struct atoll_docker_pool *pool, const struct atoll_sync_call *call,
                            struct atoll_spec *spec, int *ret_fd);
/* Whether a container of that name is in the pool, is being made for it, or was just taken from
 * it. */
bool atoll_docker_pool_may_have(struct atoll_docker_pool *pool, const char *name);

/* --- tar (tar.c) --- */

/* A tar archive of one file, generated while it is read. */
struct atoll_docker_tar;
int atoll_docker_tar_file(const char *path, const char *name, struct atoll_docker_tar **ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_docker_tar *atoll_docker_tar_free(struct atoll_docker_tar *tar);
/* `read` of struct atoll_docker_ask. */
ssize_t atoll_docker_tar_read(void *tar, void *out, size_t cap);
