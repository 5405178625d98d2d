#pragma once
#include <jansson.h>
#include "provider/docker/docker.h"

/*
 * What we say to the engine and what its answers mean, as JSON. Pure.
 */
#define ATOLL_DOCKER_NAME "atoll-"      /* and a sandbox's id: a container's name */
#define ATOLL_DOCKER_POOL "atoll-pool-" /* and an id: waits for a sandbox to be */
#define ATOLL_DOCKER_LABEL "atoll.daemon"
#define ATOLL_DOCKER_USER \
    "atoll.user" /* of a snapshot: who its image said, even if that is nobody */
#define ATOLL_DOCKER_OWNER "atoll.owner"   /* the tenant */
#define ATOLL_DOCKER_VOLUME "atoll.volume" /* its name among the tenant's */
#define ATOLL_DOCKER_INSIDE "/.atoll"
#define ATOLL_DOCKER_PRIVATE "atoll-private:" /* and a hash of tenant and name: one tenant's */
#define ATOLL_DOCKER_SOCKET "agent.sock"
#define ATOLL_DOCKER_VOLUMES_MAX 16

/* What an image says about itself. */
struct atoll_docker_image {
    char id[80];
    char user[64]; /* "": it does not say */
    char volumes[ATOLL_DOCKER_VOLUMES_MAX][128];
    size_t volume_count;
};
int atoll_docker_image_parse(const json_t *inspect, struct atoll_docker_image *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* What the engine can do. */
struct atoll_docker_info {
    bool known;
    uint32_t missing; /* ATOLL_LIMIT_* but DISK that it cannot keep */
    bool quota;       /* its storage looks as if it could keep a disk's size */
    bool shifted;     /* users inside are not those of this host: userns-remap, rootless */
    unsigned cpus;
    char version[32], storage[32];
};
void atoll_docker_info_parse(const json_t *info, struct atoll_docker_info *ret);

/* A container to be. */
struct atoll_docker_place {
    const struct atoll_spec *spec;
    const struct atoll_docker_image *image;
    const char *daemon_id;
    const char *network;         /* of Docker */
    const char *profile;         /* seccomp, JSON as text */
    const char *agent, *sudo;    /* files of this host; sudo NULL: none */
    const char *run_dir;         /* of this host: the agent's socket goes there; NULL: remote */
    const char *agent_volume;    /* remote: has the agent */
    const char *runtime;         /* NULL: the engine's own */
    unsigned cpus;               /* that there are; 0: unknown */
    enum atoll_docker_disk disk; /* QUOTA, TMPFS, or REFUSE for no limit */
    const struct atoll_docker_bind *binds;
    size_t bind_count;
    const json_t *mounts; /* more of them, as the engine wants to hear it; NULL: none */
};
/* The body of POST /containers/create. NULL without memory. */
json_t *atoll_docker_body_create(const struct atoll_docker_place *place);
/* The body of POST /containers/ID/update; cpus as above. */
json_t *atoll_docker_body_update(const struct atoll_limits *limits, uint32_t waived, unsigned cpus);

void atoll_docker_inspect_parse(const json_t *inspect, struct atoll_provider_inspection *ret);
void atoll_docker_stats_parse(const json_t *stats, struct atoll_provider_stats *ret);
/* The sandbox's id of an entry of GET /containers/json: out holds ATOLL_ID_LEN + 1. False: it is
 * none. */
bool atoll_docker_entry_id(const json_t *entry, char *out);

/* Characters of names of images, so that they can stand in a path. */
bool atoll_docker_is_image_name(const char *text);
/* The name as it can only be a name: engines take anything in hex for the beginning of an image's id. With
 * its tag; out holds 264. -EINVAL, and -EPERM for those of images that are not everybody's. */
int atoll_docker_requested_image(const char *image, char *out) ATOLL_MUST_CHECK;
/* The registry an image's name belongs to ("docker.io" when it names none); out holds 256. */
const char *atoll_docker_registry_of(const char *image, char *out);
/* Whether that registry ("HOST[:PORT]") is an address, or a name of this host or its private network.
 * Blocking: may ask a name server. */
bool atoll_docker_registry_is_inner(const char *registry);
/* Engines call every failure of a pull their own (500): what it was is in their words. Changes kind and
 * errnum of such an error. */
void atoll_docker_judge_pull(struct atoll_error *err);
