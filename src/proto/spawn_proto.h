#pragma once
#include "proto/frame.h"
#include "proto/plan.h"

/*
 * Messages between the daemon and atoll-spawn, in the frames of proto/frame.h. The daemon sends
 * requests (id != 0), spawn answers with REPLY or ERROR of that id; EXITED is an event (id 0).
 */
#define ATOLL_SPAWN_VERSION 1
/* Exit status of the program: another one serves the state directory. */
#define ATOLL_SPAWN_SERVED 75

enum atoll_spawn_type {
    ATOLL_SPAWN_REPLY = 1,  /* payload by the request */
    ATOLL_SPAWN_ERROR = 2,  /* atoll_sm_error */
    ATOLL_SPAWN_PART = 3,   /* more follow */
    ATOLL_SPAWN_EXITED = 4, /* event, atoll_sm_exited: the sandbox's first process exited */

    ATOLL_SPAWN_HELLO = 32, /* atoll_sm_hello → atoll_sm_hello */
    /* atoll_sm_create → atoll_sm_created. With the descriptors of SOCKETS if it has a network, unless others
     * wait to be read. */
    ATOLL_SPAWN_CREATE = 33,
    ATOLL_SPAWN_REMOVE = 34, /* atoll_sm_remove → atoll_sm_exited, once all of it is removed */
    ATOLL_SPAWN_LIMIT = 35,  /* atoll_sm_limit → empty */
    ATOLL_SPAWN_LIST = 36,   /* empty → PART atoll_sm_created …, REPLY empty */
    /* atoll_sm_commit → atoll_sm_layer: ends the processes of a builder, and makes a directory of its disk a
     * layer. The sandbox has to be removed afterwards, also after an error. */
    ATOLL_SPAWN_COMMIT = 37,
    ATOLL_SPAWN_DROP_LAYER = 38, /* atoll_sm_ref (layer) → empty, once the layer is removed */
    ATOLL_SPAWN_END = 39,        /* empty; no answer: exit, the last sandbox is gone */
    ATOLL_SPAWN_FREEZE = 40,     /* atoll_sm_freeze → empty, once all its processes are frozen */
    ATOLL_SPAWN_TAKE_IDS = 41,   /* empty → atoll_sm_ids: one more block of id ranges */
    ATOLL_SPAWN_GIVE_IDS = 42,   /* atoll_sm_ids → empty: returns a block without sandboxes */
    ATOLL_SPAWN_PING = 43,       /* empty → empty, once spawn can create sandboxes */
    /* atoll_sm_ref → empty, with two descriptors: the sockets of struct atoll_netspace, tcp first.
     * NOT_FOUND: no such sandbox, or it has no network. */
    ATOLL_SPAWN_SOCKETS = 44,
    /* atoll_sm_snapshot → atoll_sm_layer: copies what a sandbox changed in its root to a layer. Its
     * processes stand still for a part of that time. Of a sandbox that does not run, the kept disk is
     * copied. */
    ATOLL_SPAWN_SNAPSHOT = 45,
    /* atoll_sm_ref (TENANT/NAME) → empty, once the volume is removed. NOT_FOUND. No sandbox mounts it. */
    ATOLL_SPAWN_DROP_VOLUME = 46,
    /* atoll_sm_ref → atoll_sm_disk. NOT_FOUND: the sandbox has no disk in the pool. */
    ATOLL_SPAWN_DISK = 47,
    /* atoll_sm_ref → empty: memory of a frozen sandbox was freed, as much as was possible in some
     * seconds. */
    ATOLL_SPAWN_RECLAIM = 48,
    /* atoll_sm_copy → empty, once the copy of a volume that is an image exists. NOT_FOUND, ALREADY_EXISTS. */
    ATOLL_SPAWN_COPY_VOLUME = 49,
};

#define ATOLL_SPAWN_LACKS_MEMORY 1u
#define ATOLL_SPAWN_LACKS_CPU 2u
#define ATOLL_SPAWN_LACKS_PIDS 4u
#define ATOLL_SPAWN_GIVES_IO 1u
#define ATOLL_SPAWN_GIVES_NETWORK 2u /* ATOLL_PLAN_NETWORK and ATOLL_SPAWN_SOCKETS */
#define ATOLL_SPAWN_GIVES_STACKS \
    4u /* stacks in OVERLAY, ATOLL_PLAN_BIND, COMMIT of any part of a disk */
#define ATOLL_SPAWN_GIVES_SNAPSHOTS 8u /* ATOLL_SPAWN_SNAPSHOT, of sandboxes that it made itself */
#define ATOLL_SPAWN_GIVES_VOLUMES 16u  /* ATOLL_BIND_VOLUME, ATOLL_SPAWN_DROP_VOLUME */
#define ATOLL_SPAWN_GIVES_VOLUME_IMAGES 64u /* ATOLL_BIND_VOLUME with an image */
#define ATOLL_SPAWN_GIVES_POOL 32u          /* ATOLL_DISK_COW */
#define ATOLL_SPAWN_GIVES_FOLDERS 128u      /* ATOLL_PLAN_FOLDER */
#define ATOLL_SPAWN_GIVES_SAVE 512u         /* ATOLL_FREEZE_SAVE */
#define ATOLL_SPAWN_GIVES_RECLAIM 256u      /* ATOLL_SPAWN_RECLAIM */
#define ATOLL_SPAWN_GIVES_VOLUME_COPIES 1024u

struct atoll_sm_hello {
    uint32_t version;
    uint32_t pid;
    uint8_t root;               /* spawn runs as root */
    uint32_t cgroup_version;    /* 0: none */
    uint32_t id_base, id_slots; /* with root: first block of ranges (ATOLL_ID_RANGE ids each) */
    const char *instance;       /* part of the names of its cgroups */
    const char *cgroup_path;    /* v2: the directory of its cgroups */
    uint32_t cgroup_lacks;      /* ATOLL_SPAWN_LACKS_*: limits that its cgroups cannot enforce */
    struct atoll_bytes id_more; /* uint32_t each: first ids of other blocks of id_slots ranges */
    uint8_t hides;              /* the layer ATOLL_PLAN_HIDDEN exists, so /usr can be writable */
    uint32_t gives;             /* ATOLL_SPAWN_GIVES_*: what earlier versions did not know */
};

struct atoll_sm_ids {
    uint32_t base, slots; /* first id, number of ranges */
};

struct atoll_sm_create {
    const char *id;
    struct atoll_bytes plan;
};

struct atoll_sm_created {
    const char *id;
    uint32_t pid;     /* of the agent, in spawn's pid namespace */
    uint64_t boot_us; /* from the request to the agent being ready */
};

struct atoll_sm_error {
    uint32_t kind; /* enum atoll_error_kind */
    int32_t errnum;
    const char *text; /* "step 7 (overlay): mount: …" */
    const char *step;
};

struct atoll_sm_copy {
    const char *from; /* TENANT/NAME */
    const char *to;   /* NAME */
};

struct atoll_sm_ref {
    const char *id;
    /* The user's sub-ids (first uid, first gid, count), which may own files of the layer. 0:
     * none */
    uint32_t outside, outside_gid, count;
};

struct atoll_sm_remove {
    const char *id;
    uint8_t keep_disk; /* keep the disk if it can outlive the sandbox */
    uint8_t unwritten; /* with keep_disk: what it has need not be on stable storage yet */
};

enum {
    ATOLL_FREEZE_THAW, /* of one that was saved: it is restored, and makes sandboxes/<id>.run again */
    ATOLL_FREEZE_FREEZE,
    ATOLL_FREEZE_SAVE, /* ends runsc after it has written sandboxes/<id>.saved */
};
struct atoll_sm_freeze {
    const char *id;
    uint8_t frozen; /* ATOLL_FREEZE_* */
};

struct atoll_sm_exited {
    const char *id;
    int32_t code;   /* exit code of the first process, or -1 */
    int32_t signal; /* the signal that killed it, or 0 */
    uint64_t oom_kills, memory_peak_bytes, cpu_us;
};

struct atoll_sm_limit {
    const char *id;
    uint64_t memory_bytes;
    uint32_t cpu_millis, pids;
};

struct atoll_sm_commit {
    const char *id; /* a sandbox whose disk is PLAIN */
    const char
        *path; /* "import", "u.import" (of an overlay there), or "": all changes to its root */
    const char *layer; /* becomes layers/<layer> */
};

struct atoll_sm_snapshot {
    const char *id;
    const char *layer; /* becomes layers/<layer> */
    /* With root: first id of the sandbox's range, and of the range that layers have. */
    uint32_t outside, layer_base;
    uint8_t userxattr; /* its overlays have user.overlay.* attributes, not trusted.overlay.* */
};

struct atoll_sm_layer {
    uint64_t bytes, files; /* content of files, number of entries */
    uint64_t frozen_us;    /* SNAPSHOT: how long the processes stood still */
    uint64_t flush_us;     /* SNAPSHOT: what was done before that, while they ran */
};

/* struct atoll_btrfs_group of the disk. */
struct atoll_sm_disk {
    struct atoll_bytes file_system;
    uint64_t subvolume;
};

extern const struct atoll_msg_desc atoll_sm_hello_desc, atoll_sm_create_desc, atoll_sm_created_desc,
    atoll_sm_error_desc, atoll_sm_ref_desc, atoll_sm_exited_desc, atoll_sm_limit_desc,
    atoll_sm_commit_desc, atoll_sm_remove_desc, atoll_sm_freeze_desc, atoll_sm_ids_desc,
    atoll_sm_snapshot_desc, atoll_sm_layer_desc, atoll_sm_disk_desc, atoll_sm_copy_desc;
