#pragma once
#include <jansson.h>
#include "provider/docker/docker.h"

/*
 * Bodies of requests to the Docker engine and the meaning of its answers, as JSON. Pure.
 */
#define ATOLL_DOCKER_NAME "atoll-"      /* + sandbox id: name of a container */
#define ATOLL_DOCKER_POOL "atoll-pool-" /* + id: a container in the pool */
#define ATOLL_DOCKER_LABEL "atoll.daemon"
#define ATOLL_DOCKER_USER \
    "atoll.user" /* label of a snapshot: the user of its image, also if that is empty */
#define ATOLL_DOCKER_OWNER "atoll.owner"   /* label: the tenant */
#define ATOLL_DOCKER_VOLUME "atoll.volume" /* label: the tenant's name for the volume */
#define ATOLL_DOCKER_INSIDE "/.atoll"
/* + hash of tenant and name: an image of one tenant. */
#define ATOLL_DOCKER_PRIVATE "atoll-private:"
#define ATOLL_DOCKER_SOCKET "agent.sock"
#define ATOLL_DOCKER_VOLUMES_MAX 16

/* The configuration of an image. */
struct atoll_docker_image {
    char id[80];
    char user[64]; /* "": not set */
    char volumes[ATOLL_DOCKER_VOLUMES_MAX][128];
    size_t volume_count;
};
int atoll_docker_image_parse(const json_t *inspect, struct atoll_docker_image *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* The capabilities of the engine. */
struct atoll_docker_info {
    bool known;
    uint32_t missing; /* ATOLL_LIMIT_* except DISK that it cannot enforce */
    bool quota;       /* its storage driver seems to support a size limit */
    bool shifted;     /* ids inside differ from those of this host: userns-remap, rootless */
    unsigned cpus;
    char version[32], storage[32];
};
void atoll_docker_info_parse(const json_t *info, struct atoll_docker_info *ret);

/* Input of atoll_docker_body_create(). */
struct atoll_docker_place {
    const struct atoll_spec *spec;
    const struct atoll_docker_image *image;
    const char *daemon_id;
    const char *network;      /* name of the Docker network */
    const char *profile;      /* seccomp profile, JSON as text */
    const char *agent, *sudo; /* files of this host; sudo NULL: not mounted */
    const char *run_dir; /* directory of this host for the agent's socket; NULL: remote engine */
    const char *agent_volume;    /* remote engine: the volume with the agent */
    const char *runtime;         /* NULL: the engine's default */
    unsigned cpus;               /* CPUs of the engine; 0: unknown */
    enum atoll_docker_disk disk; /* QUOTA, TMPFS, or REFUSE for no limit */
    const struct atoll_docker_bind *binds;
    size_t bind_count;
    const json_t *mounts; /* further mounts as a JSON array; NULL: none */
};
/* The body of POST /containers/create. NULL if out of memory. */
json_t *atoll_docker_body_create(const struct atoll_docker_place *place);
/* The body of POST /containers/ID/update; cpus as in struct atoll_docker_place. */
json_t *atoll_docker_body_update(const struct atoll_limits *limits, uint32_t waived, unsigned cpus);

void atoll_docker_inspect_parse(const json_t *inspect, struct atoll_provider_inspection *ret);
void atoll_docker_stats_parse(const json_t *stats, struct atoll_provider_stats *ret);
/* The sandbox id of an entry of GET /containers/json; out holds ATOLL_ID_LEN + 1. False: the
 * container is not a sandbox. */
bool atoll_docker_entry_id(const json_t *entry, char *out);

/* Whether the text has only characters of image names, so that it is safe in a URL path. */
bool atoll_docker_is_image_name(const char *text);
/* Normalizes the image name of a request to NAME:TAG, so that the engine cannot take hexadecimal
 * text for an image id; out holds 264. -EINVAL; -EPERM for names reserved for images of the
 * engine and of single tenants. */
int atoll_docker_requested_image(const char *image, char *out) ATOLL_MUST_CHECK;
/* The registry of an image's name ("docker.io" if it has none); out holds 256. */
const char *atoll_docker_registry_of(const char *image, char *out);
/* Whether that registry ("HOST[:PORT]") is an IP address, a name of this host, or resolves to a
 * private network. Blocking: may ask a name server. */
bool atoll_docker_registry_is_inner(const char *registry);
/* Engines report every failure of a pull as 500; the reason is only in the text. Sets kind and
 * errnum of such an error accordingly. */
void atoll_docker_judge_pull(struct atoll_error *err);
