#pragma once
#include "base/defs.h"
#include "base/rand.h"

/*
 * The description of a sandbox, independent of how it is created: the input of the plan builder.
 */
/* The agent itself has about 30 descriptors open. */
#define ATOLL_OPEN_FILES_MIN 64

/* limits.def has a row for each. */
struct atoll_limits {
    uint64_t memory_bytes;
    uint32_t cpu_millis; /* 1500: one and a half CPUs */
    uint32_t pids;
    uint64_t disk_bytes;
    uint64_t inodes;
    uint32_t open_files;
    uint32_t timeout_s; /* wall clock; 0: none */
    uint64_t io_bytes;  /* a second, read from its disk and as many written; 0: no limit */
};

/* Sets the limits that are 0 to those of base. */
static inline void atoll_limits_merge(struct atoll_limits *l, const struct atoll_limits *base)
{
#define LIMIT(member, ...) l->member = l->member ?: base->member;
#include "sandbox/limits.def"
}

/* Limits that a host may be unable to enforce; a request can waive them by name. */
#define ATOLL_LIMIT_MEMORY 1u
#define ATOLL_LIMIT_CPU 2u
#define ATOLL_LIMIT_PIDS 4u
#define ATOLL_LIMIT_DISK 8u
#define ATOLL_LIMIT_IO 16u
#define ATOLL_LIMIT_ALL 31u

/* Network access of a sandbox. Requests through the agent (previews, files) work in every mode. */
enum atoll_network {
    ATOLL_NETWORK_NONE,     /* loopback only */
    ATOLL_NETWORK_ISOLATED, /* the sandboxes of the same tenant */
    ATOLL_NETWORK_BRIDGE,   /* external networks */
};

/* In native sandboxes, whatever their template: the certificates of the host, and that of atoll-egress. */
#define ATOLL_TRUSTED_FILE "/usr/share/atoll/ca-certificates.crt"

enum atoll_template_kind {
    ATOLL_TEMPLATE_HOST,
    ATOLL_TEMPLATE_ROOTFS,
    ATOLL_TEMPLATE_IMAGE, /* an image stored by the provider: spec.image is its name there */
};

/* An additional mount in a sandbox: a volume of its tenant, or a directory of the host. */
#define ATOLL_MOUNTS_MAX 8
struct atoll_mount {
    char volume[65];  /* name of the tenant's volume; "": a directory of the host */
    char source[256]; /* the directory of the host; absolute */
    char path[256];   /* mount point inside; absolute, without "." and ".." */
    bool read_only;
};

/* Credentials for pulling an image from a registry. */
struct atoll_registry_login {
    char username[256], password[4097];
};

/* First id of built layers on disk: one range for all layers, above the ids that distributions
 * assign to users and below the ranges of sandboxes. */
#define ATOLL_LAYER_BASE 0x0fff0000u
#define ATOLL_ID_RANGE 65536u

#define ATOLL_WARNING_MAX 200

struct atoll_spec {
    char id[ATOLL_ID_LEN + 1];
    struct atoll_limits limits;
    uint32_t waived; /* ATOLL_LIMIT_* that the caller waived: not enforced */
    enum atoll_template_kind template_kind;
    char layer[72];      /* ROOTFS: its name below layers/ */
    uint32_t layer_base; /* ROOTFS: first id of the layer on disk */
    uint32_t outside_id; /* first id of the sandbox's range, with root */
    bool builder;        /* builds a layer: its disk is a plain directory */
    bool persistent;     /* its disk can outlive it: always an image, never in memory */
    bool resume_disk;    /* with persistent: reuse the existing disk and the same outside_id */
    bool allow_sudo;
    bool read_only; /* the root; homes, /tmp, /var/tmp, /run and /dev/shm are writable */
    enum atoll_network network;
    char tenant[65];  /* ISOLATED: sandboxes of one tenant can reach each other */
    char image[256];  /* a container image instead of a template; "": none */
    char handle[129]; /* the provider's name for it, if not its id; "" until it is created */
    /* Set by create(): what the client should know about it; "": nothing. Not stored. */
    char warning[ATOLL_WARNING_MAX];
    /* Borrowed; used by create() only. */
    const char *metadata_json; /* an object whose values are strings, or NULL */
    const char *const *env;    /* NAME=VALUE, NULL-terminated, or NULL */
    const char *region;        /* as in struct atoll_options */
    const struct atoll_mount *mounts;
    size_t mount_count;
    const struct atoll_registry_login *login; /* overrides the provider's own; NULL: not set */
};

/* The features of the host that the plan builder may use. */
struct atoll_plan_host {
    bool root;
    int cgroup_version;
    uint32_t lacking;                     /* ATOLL_LIMIT_* that the host's cgroups cannot enforce */
    uint32_t subuid, subgid, subid_count; /* rootless; count 0: single id */
    bool hides;     /* atoll-spawn has the layer ATOLL_PLAN_HIDDEN; an older version does not */
    char cpu[4096]; /* the /proc/cpuinfo text of one CPU; "": unknown */
};
