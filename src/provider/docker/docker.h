#pragma once
#include "provider/sync.h"

/*
 * Sandboxes as containers of a Docker engine. Our agent is the first process; any image works.
 *
 * With an engine on this host the agent's socket is in a shared directory and passes descriptors. A
 * remote engine gets the agent as a volume, and streams go through a relay that is executed in the
 * container.
 *
 * Blocking: everything except missing_limits. Thread: any worker, several at a time.
 */
struct atoll_docker_registry {
    const char *host, *username, *password;
};

struct atoll_docker_bind {
    const char *source, *target; /* absolute */
    bool writable;
};

/* How the size of the disk is limited. */
enum atoll_docker_disk {
    /* QUOTA if the engine's storage driver seems to support it, else TMPFS. */
    ATOLL_DOCKER_DISK_AUTO,
    ATOLL_DOCKER_DISK_QUOTA,  /* by the engine's storage driver */
    ATOLL_DOCKER_DISK_TMPFS,  /* the image is read-only; /home, /tmp and similar are tmpfs */
    ATOLL_DOCKER_DISK_REFUSE, /* not limited: requests must waive the limit */
};

struct atoll_docker_config {
    const char *host; /* unix://PATH or tcp://HOST:PORT; NULL: unix:///var/run/docker.sock */
    const char *ca, *cert, *key; /* PEM files; if one is set, TCP uses TLS */
    bool remote;                 /* unix socket of an engine that does not see this host's files */
    /* Container runtime by the engine's name for it; NULL: the engine's default. A runtime with
     * a kernel of its own cannot pass descriptors, so its engine counts as remote. */
    const char *runtime;
    const char *state_dir; /* its own directory; created if missing, in an existing parent */
    bool succeeds; /* replaces a provider of this process that may still use that directory */
    const char *libexec_dir;   /* has atoll-agent and atoll-sudo */
    const char *default_image; /* used for the host template; NULL: that template is refused */
    const char *bridge;        /* network of ATOLL_NETWORK_BRIDGE; NULL: "bridge" */
    enum atoll_docker_disk disk;
    const struct atoll_docker_registry *registries;
    size_t registry_count;
    bool private_registries; /* allows images from private networks, not only from `registries` */
    const struct atoll_docker_bind *binds; /* mounted in every sandbox */
    size_t bind_count;
    unsigned pool;        /* started containers of default_image kept ready; 0: no pool */
    unsigned connections; /* maximum of idle connections to the engine; 0: 8 */
    /* Maximum of volumes per tenant; 0: volumes are refused, since their size is not limited. */
    unsigned volumes;
    const struct atoll_docker_bind *host_paths; /* what requests may mount; target is not used */
    size_t host_path_count;
};

/* Copies the config. Does not contact the engine, which may start later. */
int atoll_docker_provider_new(const struct atoll_docker_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* As in provider/sync.h. The engine's own builder runs the steps, not a sandbox. */
int atoll_docker_build(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                       const struct atoll_provider_build *build, struct atoll_provider_image *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* As in provider/sync.h; the processes are paused meanwhile. FAILED_PRECONDITION if the disk is
 * in memory (ATOLL_DOCKER_DISK_TMPFS). */
int atoll_docker_snapshot(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, const char *image,
                          struct atoll_provider_image *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* As in provider/sync.h. */
int atoll_docker_load(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      const char *image, int archive_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Idempotent. */
int atoll_docker_image_remove(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                              const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
