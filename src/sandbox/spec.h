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
    bool
        cow; /* a directory of the host that is never changed: what is written stays in the sandbox */
};

/* Credentials for pulling an image from a registry. */
struct atoll_registry_login {
    char username[256], password[4097];
};

/* The stack of a root: names of layers below layers/, bottom first as in OCI, separated by single
 * spaces (sandbox/stack.h). A name is the hex SHA-256 of an archive, or x and 32 random
 * hex digits. */
#define ATOLL_LAYERS_MAX 128
#define ATOLL_LAYER_NAME_MAX 64

/* A sandbox that makes a layer. Its disk is a plain directory without a limit, its ids are those of
 * layers, and provider->keep_layer() takes its result. Of the providers, only native has builders. */
enum atoll_builder {
    ATOLL_BUILDER_NONE,
    /* From the host template, to unpack an archive: /import is an empty directory, owned by root, that
     * is no overlay. So whiteouts (character device 0:0) and user.overlay.opaque can be made there.
     * Result: "import". */
    ATOLL_BUILDER_UNPACK,
    /* From a stack, to run one step of a build: the result is "", all changes to the root. Nothing that
     * the sandbox itself needs is part of it: /dev, /proc, /.atoll, /etc/hosts, /etc/hostname and
     * /etc/resolv.conf are mounts. /home/user, /tmp and /run exist only if the stack has them. */
    ATOLL_BUILDER_STEP,
    /* From the host template, to copy files into a stack: /import is the tree of spec.layers, with no mounts
     * in it, so that files such as /etc/hosts and directories such as /dev can be part of the result.
     * Result: "u.import", all changes to /import. */
    ATOLL_BUILDER_COPY,
};

/* A read-only tree in a builder: the stack `layers`, mounted at `path`. Borrowed texts. */
#define ATOLL_TREES_MAX 24
struct atoll_tree {
    const char
        *path; /* absolute, without "." and ".."; below /.atoll/ nothing of an image is hidden */
    const char *layers; /* not empty */
    /* Only this file or directory of the tree, "a/b"; NULL: all of it. */
    const char *part;
    /* The layers as they are on disk: whiteouts are devices 0:0, as an unpacker made them. One layer is at
     * `path`; of several, the lowest is at path/0, the next one at path/1 and so on. */
    bool raw;
};

/* A writable place in a builder that is not part of its result. Borrowed texts. */
#define ATOLL_CACHES_MAX 16
enum atoll_cache_kind {
    ATOLL_CACHE_KEPT,    /* a directory that all builders of the tenant with this `name` share */
    ATOLL_CACHE_SCRATCH, /* an empty directory that ends with the sandbox */
    ATOLL_CACHE_FILE, /* an empty file, mode 0600, in memory, that ends with the sandbox: for secrets */
};
struct atoll_cache {
    enum atoll_cache_kind kind;
    const char *path; /* as in struct atoll_tree */
    const char *name; /* KEPT: as atoll_text_is_name(); on disk caches/TENANT/NAME. Else NULL */
};
/* A mount point that the root lacks is made, and removed again before the result is kept. */

/* First id of built layers on disk: one range for all layers, above the ids that distributions
 * assign to users and below the ranges of sandboxes. */
#define ATOLL_LAYER_BASE 0x0fff0000u
#define ATOLL_ID_RANGE 65536u

/* Which disk a sandbox asks for (docs/adr/0034-copy-on-write-disks.md). */
enum atoll_disk_choice {
    ATOLL_DISK_ANY,       /* what --disks says */
    ATOLL_DISK_IN_POOL,   /* copied at once; refused where the host has no disk pool */
    ATOLL_DISK_IN_MEMORY, /* at most half the memory limit */
    ATOLL_DISK_AS_IMAGE,
    ATOLL_DISK_POOLED_IF_POSSIBLE, /* of a sandbox with checkpoints that asks for none */
};
#define ATOLL_DISK_CHOICES 4 /* that a request can name */

#define ATOLL_WARNING_MAX 200

struct atoll_spec {
    char id[ATOLL_ID_LEN + 1];
    struct atoll_limits limits;
    uint32_t waived; /* ATOLL_LIMIT_* that the caller waived: not enforced */
    enum atoll_template_kind template_kind;
    /* ROOTFS: the only layer of a sandbox that an earlier version made; "" if `layers` is set. Its
     * overlay has trusted.* attributes, that of a stack has user.*: a kept disk needs the same ones. */
    char layer[72];
    uint32_t layer_base;        /* ROOTFS: first id of its layers on disk */
    uint32_t outside_id;        /* first id of the sandbox's range, with root */
    enum atoll_builder builder; /* makes a layer */
    bool persistent;            /* its disk can outlive it: always an image, never in memory */
    enum atoll_disk_choice disk_choice;
    uint64_t
        history_bytes; /* of checkpoints, on top of disk_bytes; create() sets it to 0 if the disk
                                 * is not in the disk pool */
    bool cow_disk;     /* set by native create(): its disk is in the disk pool */
    bool resume_disk;  /* with persistent: reuse the existing disk and the same outside_id */
    bool unwritten;    /* stop() need not wait until the disk is on stable storage */
    bool allow_sudo;
    bool read_only; /* the root; homes, /tmp, /var/tmp, /run and /dev/shm are writable */
    enum atoll_network network;
    char tenant[65];  /* ISOLATED: sandboxes of one tenant can reach each other */
    char image[256];  /* a container image instead of a template; "": none */
    char handle[129]; /* the provider's name for it, if not its id; "" until it is created */
    /* Borrowed; for every operation: the request's own key at the service; NULL: that of the provider. */
    const char *credential;
    /* Set by create(): what the client should know about it; "": nothing. Not stored. */
    char warning[ATOLL_WARNING_MAX];
    /* Borrowed; used by create() only. */
    const char *layers;             /* ROOTFS: its stack; NULL or "": see layer */
    const struct atoll_tree *trees; /* of builders only */
    size_t tree_count;
    const struct atoll_cache *caches; /* of builders only */
    size_t cache_count;
    const char *metadata_json; /* an object whose values are strings, or NULL */
    const char *const *env;    /* NAME=VALUE, NULL-terminated, or NULL */
    const char *region;        /* as in struct atoll_options */
    const char *network_json;  /* likewise */
    const struct atoll_mount *mounts;
    size_t mount_count;
    /* The default user, who owns what the owner of a mounted directory of the host owns; UINT32_MAX: not known. */
    uint32_t mount_uid, mount_gid;
    uint64_t volume_bytes; /* limit of the volumes that it makes; 0: the provider's default */
    const struct atoll_registry_login *login; /* overrides the provider's own; NULL: not set */
};

/* Which disks native sandboxes get where the host has a disk pool (docs/adr/0034-copy-on-write-disks.md). */
enum atoll_disks {
    ATOLL_DISKS_AUTO,  /* in memory if half of it suffices, else in the pool */
    ATOLL_DISKS_COW,   /* in the pool */
    ATOLL_DISKS_PLAIN, /* in memory if half of it suffices, else an image: there is no pool */
};

/* The features of the host that the plan builder may use. */
struct atoll_plan_host {
    bool root;
    int cgroup_version;
    uint32_t lacking;                     /* ATOLL_LIMIT_* that the host's cgroups cannot enforce */
    uint32_t subuid, subgid, subid_count; /* rootless; count 0: single id */
    bool stacks;  /* atoll-spawn knows stacks, BIND and builders; an older version does not */
    bool pool;    /* atoll-spawn has a disk pool */
    bool folders; /* atoll-spawn mounts folders of the host; an older version does not */
    enum atoll_disks disks;
    bool hides;     /* atoll-spawn has the layer ATOLL_PLAN_HIDDEN; an older version does not */
    char cpu[4096]; /* the /proc/cpuinfo text of one CPU; "": unknown */
};
