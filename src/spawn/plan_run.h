#pragma once
#include "agent/views.h"
#include "base/error.h"
#include "proto/plan.h"
#include "spawn/folders.h"
#include "sys/cgroup.h"

/*
 * Executes a plan. struct atoll_plan_run is the state of one execution; steps read and change it.
 * Steps before START run in spawn, the others in the new process.
 */

/* What spawn knows about the host; one per process. */
struct atoll_spawn_host {
    bool root;
    uid_t uid;
    gid_t gid;
    int state_fd;     /* the state directory, which is also the current directory */
    int sandboxes_fd; /* state/sandboxes: <id>.sock, .img, .io and .disk of each living sandbox */
    int layers_fd;    /* state/layers */
    int disks_fd;     /* state/disks: <id>.img or .cow of each sandbox whose disk can outlive it */
    int pool_fd;      /* state/pool, if there are copy-on-write disks (pool.h), or ATOLL_NO_FD */
    int pool_groups_fd;  /* figures of its quota groups, in sysfs; or ATOLL_NO_FD */
    uint64_t pool_group; /* what new subvolumes of the pool are members of (sys/btrfs.h) */
    char instance[17];
    struct atoll_id_blocks *ids; /* with root: id ranges of this instance */
    int shared_fd;               /* with root: /run/atoll of the host */
    int packages_fd;             /* the host's package database, if it is of a known kind */
    struct atoll_spare *spare;   /* with root: namespaces of the next sandbox */
    bool below; /* state/above is the state directory of the native instance (own_root.h) */
    struct atoll_cgroups cgroups;
    bool network;                       /* sandboxes can have a network */
    struct atoll_spawn_folders folders; /* of the host, that sandboxes may mount */
};

/* Name of the agent's socket in sandboxes/<id>.run, which an agent under gVisor creates. The daemon
 * moves it to sandboxes/<id>.sock and removes the directory, so that the sandbox cannot fill it. */
#define ATOLL_AGENT_SOCKET_NAME "agent"

/* The directory at the top of the disk that is always in memory (steps_kernel.c). */
#define ATOLL_DISK_PARTS "d"
/* A file at the top of a PLAIN disk: mount points that were made in the root, as paths in the writable
 * layer, each with a NUL. */
#define ATOLL_DISK_POINTS "points"

struct atoll_plan_run {
    const struct atoll_spawn_host *host;
    const char *id;
    struct atoll_po_ids ids;
    bool has_cgroup;
    bool new_network;
    bool own_clock;
    bool kept_disk;          /* the image can outlive the sandbox */
    bool existing_disk;      /* the image is this sandbox's disk from an earlier run */
    bool disk_in_memory;     /* the disk is a tmpfs */
    bool cow_disk;           /* the disk is a subvolume of the pool */
    uint64_t cow_disk_bytes; /* its limit, which PIVOT sets */
    bool plain_disk;         /* the disk is a directory: the sandbox is a builder */
    bool has_stack;          /* the slot ATOLL_SLOT_STACK is mounted */
    unsigned binds;          /* number of BIND steps so far */
    bool laid_out;       /* existing_disk: it already has the directories and files of the plan */
    int listen_fd;       /* the agent's listening socket */
    int userns_fd;       /* RANGE: the sandbox's user namespace */
    int netns_fd;        /* RANGE: the sandbox's network namespace, if it was prepared */
    int layer_userns_fd; /* RANGE: id map that shows built layers with the sandbox's ids */
    int image_fd;        /* the disk image */
    int boot_id_fd;      /* the file that covers the kernel's boot_id, for the agent to rewrite */
    bool has_views;
    struct atoll_view_fds views; /* files over /proc that the agent writes */
    int oom_fd, peak_fd;         /* cgroup files from which the agent reports OOM kills */
    int status_fd; /* a socket; the new process reports its status, and sends the sockets of NETWORK */
    int go_fd;     /* rootless: read end; one byte once the id maps are written */
    /* in the new process */
    int state_fd; /* the state directory, in the new mount namespace */
    int mount_fd; /* state/mnt: each sandbox mounts its disk there, in its own mount namespace */
    int upper_fd; /* writable layer, before it is part of the root */
    int root_fd;  /* the new root */
};

void atoll_plan_run_init(struct atoll_plan_run *b, const struct atoll_spawn_host *host,
                         const char *id);
/* Closes the descriptors. sandbox.c removes cgroups, files and processes. */
void atoll_plan_run_done(struct atoll_plan_run *b);

/* The uid to which the namespaces of this sandbox are charged; 0: our own. */
uid_t atoll_plan_run_owner(const struct atoll_plan_run *b);

/* The host id of the id `inside`. Rootless, this process is in the sandbox's user namespace and the
 * kernel translates. */
uint32_t atoll_plan_run_outside(const struct atoll_plan_run *b, uint32_t inside);

/* Runs one step. The error text does not name the step; the caller adds it. */
int atoll_plan_run_step(struct atoll_plan_run *b, const struct atoll_plan_step *step,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* "overlay", or "unknown". */
const char *atoll_plan_run_step_name(enum atoll_plan_op op);

/* The steps, by where they are implemented. Each gets its decoded message. */
typedef int atoll_step_fn(struct atoll_plan_run *b, const void *step, struct atoll_error *err);
atoll_step_fn atoll_step_ids, atoll_step_cgroup, atoll_step_image;    /* steps_host.c */
atoll_step_fn atoll_step_disk, atoll_step_directory, atoll_step_file; /* steps_disk.c */
atoll_step_fn atoll_step_layer, atoll_step_overlay, atoll_step_read_only,
    atoll_step_pivot;                                            /* steps_root.c */
atoll_step_fn atoll_step_bind;                                   /* steps_bind.c */
atoll_step_fn atoll_step_folder;                                 /* steps_folder.c */
atoll_step_fn atoll_step_dev, atoll_step_proc, atoll_step_cover; /* steps_kernel.c */
atoll_step_fn atoll_step_hostname, atoll_step_loopback, atoll_step_rlimit, atoll_step_identity,
    atoll_step_seccomp, atoll_step_agent, atoll_step_abort; /* steps_self.c */
atoll_step_fn atoll_step_runsc;                             /* steps_runsc.c */
atoll_step_fn atoll_step_network;                           /* steps_network.c */

/* steps_host.c: copies data extents only: a new file system is nearly all holes. */
int atoll_copy_sparse(int from, int to) ATOLL_MUST_CHECK;

/* steps_disk.c: mounts the kept disk of a sandbox that does not run, and returns the top of it; the mount
 * ends with the descriptor. -ENOENT: it has no kept disk. -EBUSY: it is in use. */
int atoll_disk_mount_kept(const struct atoll_spawn_host *host, const char *id) ATOLL_MUST_CHECK;

/* steps_root.c: detaches the mount of all layers; overlays keep those that they use. */
int atoll_root_drop_layers(struct atoll_plan_run *b, struct atoll_error *err) ATOLL_MUST_CHECK;
/* steps_root.c: sends the top of the disk to spawn, for snapshots. The current directory is the top. */
int atoll_root_hand_out_disk(struct atoll_plan_run *b, struct atoll_error *err) ATOLL_MUST_CHECK;

/* steps_bind.c: opens a mount point in the root of a builder (O_PATH). Links in the path are followed as
 * inside. Missing parts are made, and noted in ATOLL_DISK_POINTS. */
int atoll_point_open(struct atoll_plan_run *b, const char *path, bool directory,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* steps_network.c: tries NETWORK in a process and a namespace of its own. Blocking: some milliseconds.
 * False if this kernel, or this user, cannot; the reason is logged. */
bool atoll_network_works(bool root);

/* steps_views.c: mounts files over /proc that the agent will write, and opens its sources for them.
 * cpu: the /proc/cpuinfo text of one CPU. The current directory is the root of the sandbox. */
int atoll_views_make(struct atoll_plan_run *b, struct atoll_bytes cpu, int disk_fd,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* steps_self.c: shared by the two last steps, AGENT and RUNSC. */
/* Makes the sandbox die with spawn, its parent, because only spawn can remove it. */
int atoll_self_die_with_spawn(struct atoll_plan_run *b, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Redirects standard input, output and error to /dev/null. */
int atoll_self_silence_stdio(void) ATOLL_MUST_CHECK;

/* The new process sends this to status_fd once, when the agent is ready or a step failed; before, NETWORK
 * sends it with its two sockets, and PIVOT or RUNSC with the top of the disk. */
struct atoll_plan_run_status {
    uint32_t step; /* index in the plan */
    uint32_t op;
    struct atoll_error error; /* kind NONE: ready */
};
