#pragma once
#include "base/defs.h"
#include "base/rand.h"

/*
 * What a sandbox is to be, before anybody thinks about how: the input of the plan builder.
 */
/* The agent itself has about 30 descriptors open. */
#define ATOLL_OPEN_FILES_MIN 64

struct atoll_limits {
    uint64_t memory_bytes;
    uint32_t cpu_millis; /* 1500: one and a half CPUs */
    uint32_t pids;
    uint64_t disk_bytes;
    uint64_t inodes;
    uint32_t open_files;
    uint32_t timeout_s; /* wall clock; 0: none */
};

/* Limits that a host may be unable to give; a request can waive them by name. */
#define ATOLL_LIMIT_MEMORY 1u
#define ATOLL_LIMIT_CPU 2u
#define ATOLL_LIMIT_PIDS 4u
#define ATOLL_LIMIT_DISK 8u
#define ATOLL_LIMIT_ALL 15u

/* Who may talk with whom. Requests through the agent (previews, files) work with each of them. */
enum atoll_network {
    ATOLL_NETWORK_NONE,     /* nobody with nobody */
    ATOLL_NETWORK_ISOLATED, /* sandboxes of one tenant with each other */
    ATOLL_NETWORK_BRIDGE,   /* with the world */
};

enum atoll_template_kind {
    ATOLL_TEMPLATE_HOST,
    ATOLL_TEMPLATE_ROOTFS,
    ATOLL_TEMPLATE_IMAGE, /* something that a provider keeps: spec.image names it there */
};

/* What is mounted into a sandbox beside its disk: a volume of its tenant, or a directory of the
 * host. */
#define ATOLL_MOUNTS_MAX 8
struct atoll_mount {
    char volume[65];  /* its name among the tenant's; "": a directory of the host */
    char source[256]; /* that; absolute */
    char path[256];   /* inside; absolute, without "." and ".." */
    bool read_only;
};

/* Who asks a registry for an image. */
struct atoll_registry_login {
    char username[256], password[4097];
};

/* Where built layers keep their ids on disk: one range for all, whoever built them, far above what
 * distributions hand out to users and below the ranges of sandboxes. */
#define ATOLL_LAYER_BASE 0x0fff0000u
#define ATOLL_ID_RANGE 65536u

struct atoll_spec {
    char id[ATOLL_ID_LEN + 1];
    struct atoll_limits limits;
    uint32_t waived; /* ATOLL_LIMIT_* that are not enforced, by the caller's own wish */
    enum atoll_template_kind template_kind;
    char layer[72];      /* ROOTFS: its name below layers/ */
    uint32_t layer_base; /* ROOTFS: where its ids start on disk */
    uint32_t outside_id; /* first id of its range, with root */
    bool builder;        /* makes a layer: its disk is a plain directory */
    bool persistent;     /* its disk can outlive it: an image, and in memory never */
    bool resume_disk;    /* PERSISTENT: starts on the disk it has, with the outside_id it had */
    bool allow_sudo;
    enum atoll_network network;
    char tenant[65];  /* ISOLATED: sandboxes of the same one see each other */
    char image[256];  /* instead of a template: a container image; "" for none */
    char handle[129]; /* what its provider calls it, if not by its id; "" until it is made */
    /* Borrowed, and for create() alone. */
    const char *metadata_json; /* an object of texts, or NULL */
    const char *const *env;    /* NAME=VALUE, NULL-terminated, or NULL */
    const struct atoll_mount *mounts;
    size_t mount_count;
    const struct atoll_registry_login *login; /* instead of the provider's own; NULL: none */
};

/* What the machine gives the planner to work with. */
struct atoll_plan_host {
    bool root;
    int cgroup_version;
    uint32_t lacking;                     /* ATOLL_LIMIT_* that no cgroup here can give */
    uint32_t subuid, subgid, subid_count; /* rootless; count 0: single id */
    bool
        hides; /* its atoll-spawn has the layer ATOLL_PLAN_HIDDEN; one of an earlier version has not */
    char cpu[4096]; /* what /proc/cpuinfo says about one CPU; "": unknown */
};
