#pragma once
#include "proto/msg.h"

/*
 * A plan: the steps that create one sandbox, as data. The daemon builds it (sandbox/plan_builder.h,
 * a pure function); atoll-spawn executes it step by step and has no other way to create anything.
 *
 * A plan is a sequence of steps: u16 operation, u16 zero, u32 payload length, payload (a message of
 * the operation). Steps before START run in spawn itself, steps after it in the new process, which
 * becomes the agent in the last step. Sources on the host are names below the state directory, or
 * /usr, the only host tree that a template may expose.
 */
enum atoll_plan_op {
    ATOLL_PLAN_IDS = 1,       /* atoll_po_ids: the id range of the sandbox */
    ATOLL_PLAN_CGROUP = 2,    /* atoll_po_cgroup: create its cgroup with these limits */
    ATOLL_PLAN_IMAGE = 3,     /* atoll_po_image: the formatted image that is its disk */
    ATOLL_PLAN_START = 4,     /* atoll_po_start: the new process, in new namespaces */
    ATOLL_PLAN_DISK = 5,      /* atoll_po_disk: the bounded file system that takes all writes */
    ATOLL_PLAN_DIRECTORY = 6, /* atoll_po_directory: a directory in the writable layer */
    ATOLL_PLAN_FILE = 7,      /* atoll_po_file: a small file in the writable layer */
    ATOLL_PLAN_LAYER = 8,     /* atoll_po_layer: open a read-only tree under a name */
    ATOLL_PLAN_OVERLAY = 9,   /* atoll_po_overlay: mount stacked layers in the root */
    ATOLL_PLAN_DEV = 10,      /* atoll_po_dev: a fresh /dev */
    ATOLL_PLAN_PROC = 11,     /* atoll_po_proc: /proc, with masked and read-only paths */
    ATOLL_PLAN_COVER = 12,    /* atoll_po_file: a private file mounted over an existing one */
    ATOLL_PLAN_HOSTNAME = 13, /* atoll_po_text */
    ATOLL_PLAN_LOOPBACK = 14, /* empty: bring lo up */
    ATOLL_PLAN_PIVOT = 15,    /* empty: the root becomes /; the old root is detached */
    ATOLL_PLAN_RLIMIT = 16,   /* atoll_po_rlimit */
    ATOLL_PLAN_IDENTITY = 17, /* empty: user namespace, ids, capabilities, no new privileges */
    ATOLL_PLAN_SECCOMP = 18,  /* atoll_po_bytes: a BPF program */
    ATOLL_PLAN_AGENT = 19,    /* atoll_po_agent: become the agent; always last */
    ATOLL_PLAN_ABORT = 20,    /* empty: fail deliberately, so that tests can stop at any step */
    ATOLL_PLAN_RUNSC = 21,    /* atoll_po_runsc: become gVisor's runsc instead of the agent; last */
    ATOLL_PLAN_READ_ONLY =
        22, /* atoll_po_read_only: the root is read-only, except some directories */
    ATOLL_PLAN_NETWORK =
        23, /* empty: what atoll-egress needs in the network namespace; after LOOPBACK */
    ATOLL_PLAN_BIND = 24, /* atoll_po_bind: a part of a builder's disk in the root; after DEV */
    ATOLL_PLAN_FOLDER =
        25, /* atoll_po_folder: a folder or file of the host in the root; after DEV */
};

#define ATOLL_PLAN_MAX (240 * 1024) /* a frame has 256 KiB */

/* Prefix (a number follows) of replaced templates in the state directory: running sandboxes may
 * still use them, new plans do not. atoll-spawn removes them at start, when it has no sandboxes.
 * The native and the gVisor atoll-spawn share them (gVisor's state directory is inside native's),
 * so neither removes them while the other has sandboxes. */
#define ATOLL_TEMPLATE_OLD "template.old-"
#define ATOLL_BELOW_GVISOR "gvisor"
/* The layer that hides files of the host's /usr that are not readable by all of the host's users.
 * atoll-spawn creates it and keeps it up to date. Replaced versions that running sandboxes may
 * still use have a number appended. */
#define ATOLL_PLAN_HIDDEN "hidden/usr"
#define ATOLL_HIDDEN_OLD "hidden.old-"
/* The same prefix for the layer with the programs of every gVisor root, in gVisor's state
 * directory. */
#define ATOLL_PROGRAMS_OLD "layer.old-"

enum atoll_plan_id_mode {
    ATOLL_IDS_RANGE = 1,  /* as root: maps 0..count to outside.. */
    ATOLL_IDS_SUBIDS = 2, /* as a user: through newuidmap and the user's sub-ids */
    ATOLL_IDS_SINGLE = 3, /* as a user: maps the one id `inside` to our own id */
};

struct atoll_po_ids {
    uint32_t mode;
    uint32_t inside, outside, count; /* RANGE and SUBIDS: the uid extent; SINGLE: inside only */
    uint32_t outside_gid;            /* SUBIDS: first group id */
    uint32_t agent_uid, agent_gid;   /* ids of the agent inside the sandbox */
    uint32_t layer_base;             /* RANGE: first id that built layers have on disk, or 0 */
};

struct atoll_po_cgroup {
    uint64_t memory_bytes; /* 0: no limit */
    uint32_t cpu_millis, pids;
};

struct atoll_po_image {
    const char *source; /* below the state directory; copied */
    uint8_t keep;       /* the disk can outlive the sandbox: disks/<id>.img */
    uint8_t existing;   /* use the existing disks/<id>.img with its contents; copy nothing */
    uint8_t cow;        /* the disk is of the kind COW, kept: disks/<id>.cow marks it; no source */
};

struct atoll_po_start {
    uint8_t new_network; /* a new network namespace */
    uint8_t own_clock;   /* clocks since boot start at zero with the sandbox */
};

enum atoll_plan_disk_kind {
    ATOLL_DISK_TMPFS = 1, /* in memory, charged to the sandbox's memory */
    ATOLL_DISK_IMAGE = 2, /* the image of ATOLL_PLAN_IMAGE, through a loop device */
    ATOLL_DISK_PLAIN =
        3, /* a directory in the sandbox's directory: no limit, for building layers */
    /* A subvolume of the pool, with the ids of layers on disk; the ids need layer_base. Needs
     * ATOLL_SPAWN_GIVES_POOL. All overlays on it have user.overlay.* marks, as layers do. */
    ATOLL_DISK_COW = 4,
};

struct atoll_po_disk {
    uint32_t kind;
    uint64_t size_bytes, inodes;
    uint64_t io_bytes; /* IMAGE: a second, read and as many written; 0: no limit */
};

struct atoll_po_layer {
    const char *slot;   /* name that overlay steps refer to: letters and digits */
    const char *source; /* "/usr", or a path below the state directory */
    uint32_t disk_base; /* first id on disk: 0, or layer_base of the ids */
};

/* The slot of the directory with all layers, and its source (gVisor: above/layers): one mount for a
 * stack of any length, which is detached before the sandbox's own processes start. */
#define ATOLL_SLOT_STACK "layers"

struct atoll_po_overlay {
    const char *target; /* "": the root, else a directory in it; made if missing, as by BIND */
    const char *lowers; /* slots, uppermost first, joined by ':' */
    uint8_t writable;   /* writes go to the disk, to a separate directory for each overlay; else the
                         * overlay is read-only */
    struct atoll_strv
        stack;          /* names in the slot ATOLL_SLOT_STACK, uppermost first, below `lowers` */
    uint8_t userxattr;  /* marks are user.overlay.*; without root they always are */
    const char *below;  /* slots below the stack, as `lowers`; "": none */
    const char *within; /* of each layer of the stack only this directory, "usr"; "": all of it */
};

enum atoll_plan_bind_kind {
    ATOLL_BIND_IMPORT = 1,    /* the directory `import` of the disk */
    ATOLL_BIND_DIRECTORY = 2, /* an empty directory of the disk */
    ATOLL_BIND_FILE = 3,      /* a file in memory with `content` */
    ATOLL_BIND_CACHE = 4,     /* caches/NAME, made if missing */
    ATOLL_BIND_PART = 5,  /* `content`, a path, of the tree that is mounted at NAME in the root */
    ATOLL_BIND_LAYER = 6, /* NAME of the slot ATOLL_SLOT_STACK as it is on disk, read-only */
    /* volumes/NAME, made if missing. On disk its files have the ids of layers, with RANGE those of
     * layer_base; so all sandboxes see the same owners. */
    ATOLL_BIND_VOLUME = 7,
    ATOLL_BIND_VOLUME_READ = 8, /* the same, read-only */
};

/* Mounted nosuid and nodev and, but for LAYER and VOLUME_READ, writable. What is made is owned by root
 * inside. Except for volumes the disk has to be PLAIN. A missing mount point is made; on a PLAIN disk it
 * is written to ATOLL_DISK_POINTS, so that COMMIT can remove it. */
struct atoll_po_bind {
    uint32_t kind;
    const char *target;
    uint32_t mode;
    /* FILE; VOLUME: a new one has the limit of this formatted image, a path below the state directory */
    struct atoll_bytes content;
    const char *name; /* CACHE, VOLUME: TENANT/NAME; PART: a mount point in the root; LAYER: of
                                 * the layer */
};

/* What a sandbox may do with a folder of the host. Each kind permits those before it. */
enum atoll_folder_access {
    ATOLL_FOLDER_COW = 1,   /* read; what it writes stays on its disk */
    ATOLL_FOLDER_READ = 2,  /* read, and connect to sockets in it */
    ATOLL_FOLDER_WRITE = 3, /* write, too */
};
#define ATOLL_HOST_FOLDERS_MAX 16

/* The only other host trees that a plan may mount: those that the operator has listed, which atoll-spawn got
 * when it was started (spawn/folders.h). Mounted nosuid and nodev. A missing mount point is made. */
struct atoll_po_folder {
    const char *path; /* on the host; absolute, without links */
    const char *target;
    uint32_t access; /* enum atoll_folder_access */
    uint32_t uid,
        gid; /* inside; files of the owner of `path` show as theirs, where ids can be mapped */
    uint32_t number; /* of the mount: its changes with COW are in that directory of the disk */
};

struct atoll_po_directory {
    const char *path;        /* missing parents are created, 0755 and owned by root */
    uint32_t mode, uid, gid; /* inside */
};

struct atoll_po_file {
    const char *path;
    uint32_t mode;
    struct atoll_bytes content;
};

struct atoll_po_proc {
    struct atoll_strv masked;    /* below /proc; a missing path is not an error */
    struct atoll_strv read_only; /* likewise */
    uint8_t views;               /* the agent serves the files of agent/views.h */
    struct atoll_bytes cpu;      /* with views: the /proc/cpuinfo text of one CPU */
};

struct atoll_po_dev {
    uint64_t shm_bytes,
        shm_inodes; /* of /dev/shm; unused if the disk is in memory, which bounds it */
    uint32_t max_ptys;
};

struct atoll_po_read_only {
    struct atoll_strv mounts;   /* other mounts in the root that become read-only */
    struct atoll_strv writable; /* directories that stay writable; a missing one is not an error */
};

struct atoll_po_text {
    const char *text;
};

struct atoll_po_rlimit {
    uint32_t resource;
    uint64_t soft, hard;
};

struct atoll_po_bytes {
    struct atoll_bytes bytes;
};

struct atoll_po_agent {
    uint8_t allow_sudo;
    uint8_t many_ids;
    const char *user, *home; /* the default user */
    uint32_t uid, gid;
    uint64_t memory_limit_bytes;
};

/* runsc uses the root that the previous steps built. The agent's socket is in the directory
 * "socket" of the bundle, which is the sandbox's directory on the host. */
struct atoll_po_runsc {
    const char *program;       /* below /usr */
    const char *platform;      /* of gVisor: "systrap", "ptrace", "kvm" */
    struct atoll_bytes config; /* the bundle's config.json; paths in it are relative */
    uint8_t network; /* runs in the sandbox's network namespace, and in its user namespace */
};

extern const struct atoll_msg_desc atoll_po_ids_desc, atoll_po_cgroup_desc, atoll_po_image_desc,
    atoll_po_start_desc, atoll_po_disk_desc, atoll_po_layer_desc, atoll_po_overlay_desc,
    atoll_po_directory_desc, atoll_po_file_desc, atoll_po_proc_desc, atoll_po_dev_desc,
    atoll_po_text_desc, atoll_po_rlimit_desc, atoll_po_bytes_desc, atoll_po_agent_desc,
    atoll_po_runsc_desc, atoll_po_read_only_desc, atoll_po_bind_desc, atoll_po_folder_desc;

/* Appends one step. desc NULL: no payload. -ENOBUFS. */
int atoll_plan_add(struct atoll_buf *plan, enum atoll_plan_op op, const struct atoll_msg_desc *desc,
                   const void *step) ATOLL_MUST_CHECK;

struct atoll_plan_step {
    enum atoll_plan_op op;
    const uint8_t *payload;
    size_t len;
};

/* Removes the next step from the front of [*bytes, *bytes + *n). 1: got one, 0: end, -EBADMSG. */
int atoll_plan_next(const uint8_t **bytes, size_t *n,
                    struct atoll_plan_step *ret_step) ATOLL_MUST_CHECK;
