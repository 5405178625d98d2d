#pragma once
#include "provider/sync.h"

/*
 * Sandboxes that are containers of a Docker engine: our agent is their first process, on any image.
 *
 * On an engine of this host the agent's socket is in a directory both sides see, and descriptors
 * pass through it. An engine elsewhere gets the agent as a volume, and streams run through a relay
 * that is executed in the container.
 *
 * Blocking: everything but missing_limits. Thread: any worker, several at a time.
 */
struct atoll_docker_registry {
    const char *host, *username, *password;
};

struct atoll_docker_bind {
    const char *source, *target; /* absolute */
    bool writable;
};

/* How the limit of the disk is kept. */
enum atoll_docker_disk {
    ATOLL_DOCKER_DISK_AUTO,  /* QUOTA where the engine's storage looks as if it could, else TMPFS */
    ATOLL_DOCKER_DISK_QUOTA, /* by the engine's storage driver */
    ATOLL_DOCKER_DISK_TMPFS, /* the image is read-only; /home, /tmp and the like are in memory */
    ATOLL_DOCKER_DISK_REFUSE, /* not at all: requests have to waive it */
};

struct atoll_docker_config {
    const char *host; /* unix://PATH or tcp://HOST:PORT; NULL: unix:///var/run/docker.sock */
    const char *ca, *cert, *key; /* PEM files; any of them makes TCP into TLS */
    bool remote;                 /* a unix socket whose engine does not see this host's files */
    const char *runtime;         /* of its containers, by the engine's name for it; NULL: its own.
                                  * With one that has a kernel of its own nothing can be shared by
                                  * descriptor, so its engine counts as remote */
    const char *state_dir;       /* its own, below an existing directory; made when missing */
    bool succeeds;               /* another of this process that may still be at work there */
    const char *libexec_dir;     /* has atoll-agent and atoll-sudo */
    const char *layers_dir;      /* layers of rootfs templates; NULL: these are refused */
    const char *default_image;   /* stands for the host template; NULL: that is refused */
    const char *bridge;          /* network of ATOLL_NETWORK_BRIDGE; NULL: "bridge" */
    enum atoll_docker_disk disk;
    const struct atoll_docker_registry *registries;
    size_t registry_count;
    bool private_registries; /* images may come from private networks, too, not only `registries` */
    const struct atoll_docker_bind *binds; /* in every sandbox */
    size_t bind_count;
    unsigned pool;        /* containers of default_image that wait, started; 0: none */
    unsigned connections; /* kept to the engine at most; 0: 8 */
    unsigned volumes;     /* most a tenant may have; 0: none, for nobody limits their size */
    const struct atoll_docker_bind *host_paths; /* what requests may mount; target is not used */
    size_t host_path_count;
};

/* Copies what it needs of the config. Asks the engine nothing: it may come up later. */
int atoll_docker_provider_new(const struct atoll_docker_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Bytes of a tar archive, 0 at its end, < 0 on failure. */
typedef ssize_t atoll_docker_read_fn(void *arg, void *out, size_t cap);

/* The image `name` from the tar archive of a root file system. */
int atoll_docker_import(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        const char *name, atoll_docker_read_fn *read, void *arg,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* As in provider/sync.h. By the engine's own builder: its steps are no sandboxes of ours. */
int atoll_docker_build(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                       const struct atoll_provider_build *build, struct atoll_provider_image *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same; processes stand still meanwhile. FAILED_PRECONDITION for one whose disk is in memory
 * (ATOLL_DOCKER_DISK_TMPFS). */
int atoll_docker_snapshot(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, const char *image,
                          struct atoll_provider_image *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Idempotent. */
int atoll_docker_image_remove(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                              const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
