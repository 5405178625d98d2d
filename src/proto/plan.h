#pragma once
#include "proto/msg.h"

/*
 * A plan: how to make one sandbox, as data. The daemon writes it (sandbox/plan_builder.h, a pure
 * function), atoll-spawn carries it out step by step and knows no other way to make anything.
 *
 * A plan is a run of steps: u16 operation, u16 zero, u32 payload length, payload (a message of the
 * operation). Steps before START run in spawn itself, steps after it in the new process, which
 * becomes the agent at the last step. Sources on the host are names below the state directory, or
 * the one host tree a template may show: /usr.
 */
enum atoll_plan_op {
    ATOLL_PLAN_IDS = 1,       /* atoll_po_ids: the id range of the sandbox */
    ATOLL_PLAN_CGROUP = 2,    /* atoll_po_cgroup: make its cgroup with these limits */
    ATOLL_PLAN_IMAGE = 3,     /* atoll_po_image: a formatted image to be its disk */
    ATOLL_PLAN_START = 4,     /* atoll_po_start: the new process, in new namespaces */
    ATOLL_PLAN_DISK = 5,      /* atoll_po_disk: the bounded file system all writes go to */
    ATOLL_PLAN_DIRECTORY = 6, /* atoll_po_directory: a directory in the writable layer */
    ATOLL_PLAN_FILE = 7,      /* atoll_po_file: a small file in the writable layer */
    ATOLL_PLAN_LAYER = 8,     /* atoll_po_layer: bring a read-only tree into reach */
    ATOLL_PLAN_OVERLAY = 9,   /* atoll_po_overlay: stack layers at a place of the root */
    ATOLL_PLAN_DEV = 10,      /* atoll_po_dev: a fresh /dev */
    ATOLL_PLAN_PROC = 11,     /* atoll_po_proc: /proc, with what is masked and what is read-only */
    ATOLL_PLAN_COVER = 12,    /* atoll_po_file: a private file mounted over an existing one */
    ATOLL_PLAN_HOSTNAME = 13, /* atoll_po_text */
    ATOLL_PLAN_LOOPBACK = 14, /* empty: lo up */
    ATOLL_PLAN_PIVOT = 15,    /* empty: the root becomes / and nothing else is left */
    ATOLL_PLAN_RLIMIT = 16,   /* atoll_po_rlimit */
    ATOLL_PLAN_IDENTITY = 17, /* empty: user namespace, ids, capabilities, no new privileges */
    ATOLL_PLAN_SECCOMP = 18,  /* atoll_po_bytes: a BPF program */
    ATOLL_PLAN_AGENT = 19,    /* atoll_po_agent: become the agent; always last */
    ATOLL_PLAN_ABORT = 20,    /* empty: fail here, on purpose; lets tests stop at every step */
    ATOLL_PLAN_RUNSC = 21,    /* atoll_po_runsc: become gVisor's runsc instead of the agent; last */
};

#define ATOLL_PLAN_MAX (128 * 1024)

/* Names of templates in the state directory that sandboxes may still stand on, but no plan names any
 * more: a number follows. An atoll-spawn that starts has no sandboxes and removes them, unless the other
 * one, native's or that of gVisor, which has its state directory below and shares them, has some. */
#define ATOLL_TEMPLATE_OLD "template.old-"
#define ATOLL_BELOW_GVISOR "gvisor"
/* The layer that hides what of the host's /usr is not for all of its users: atoll-spawn makes it and
 * keeps it in step. Those that sandboxes may still stand on have a number. */
#define ATOLL_PLAN_HIDDEN "hidden/usr"
#define ATOLL_HIDDEN_OLD "hidden.old-"
/* The same of the programs in every root of gVisor, in its own state directory. */
#define ATOLL_PROGRAMS_OLD "layer.old-"

enum atoll_plan_id_mode {
    ATOLL_IDS_RANGE = 1,  /* as root: 0..count to outside.. */
    ATOLL_IDS_SUBIDS = 2, /* as a user: through newuidmap and the user's sub-ids */
    ATOLL_IDS_SINGLE = 3, /* as a user: one id, `inside` to ourselves */
};

struct atoll_po_ids {
    uint32_t mode;
    uint32_t inside, outside, count; /* RANGE and SUBIDS: the uid extent; SINGLE: inside only */
    uint32_t outside_gid;            /* SUBIDS: where the group ids start */
    uint32_t agent_uid, agent_gid;   /* who the agent is, inside */
    uint32_t layer_base;             /* RANGE: where built layers keep their ids on disk, or 0 */
};

struct atoll_po_cgroup {
    uint64_t memory_bytes; /* 0: no limit */
    uint32_t cpu_millis, pids;
};

struct atoll_po_image {
    const char *source; /* below the state directory: is copied */
    uint8_t keep;       /* the disk can outlive the sandbox: disks/<id>.img */
    uint8_t existing; /* it is there already, with all that was written to it: nothing is copied */
};

struct atoll_po_start {
    uint8_t new_network; /* an own network namespace; nothing else is made yet */
    uint8_t own_clock;   /* time since boot is time since the start */
};

enum atoll_plan_disk_kind {
    ATOLL_DISK_TMPFS = 1, /* in memory, counted with the sandbox's memory */
    ATOLL_DISK_IMAGE = 2, /* the image of ATOLL_PLAN_IMAGE, through a loop device */
    ATOLL_DISK_PLAIN = 3, /* a directory below the sandbox's own: no limit, for building layers */
};

struct atoll_po_disk {
    uint32_t kind;
    uint64_t size_bytes, inodes;
};

struct atoll_po_layer {
    const char *slot;   /* name to refer to it by: letters and digits */
    const char *source; /* "/usr", or a path below the state directory */
    uint32_t disk_base; /* ids on disk start here: 0, or layer_base of the ids */
};

struct atoll_po_overlay {
    const char *target; /* "" is the root, else a directory in it */
    const char *lowers; /* slots, uppermost first, joined by ':' */
    uint8_t writable;   /* writes go to the disk, each stack's to a place of its own; else the stack
                         * is read-only */
};

struct atoll_po_directory {
    const char *path;        /* missing parents are made, 0755 and root's */
    uint32_t mode, uid, gid; /* inside */
};

struct atoll_po_file {
    const char *path;
    uint32_t mode;
    struct atoll_bytes content;
};

struct atoll_po_proc {
    struct atoll_strv masked;    /* below /proc; one that does not exist is fine */
    struct atoll_strv read_only; /* likewise */
    uint8_t views;               /* the agent writes the files of agent/views.h itself */
    struct atoll_bytes cpu;      /* what /proc/cpuinfo says about one CPU, for these */
};

struct atoll_po_dev {
    uint64_t shm_bytes, shm_inodes; /* of /dev/shm; a disk in memory bounds it itself */
    uint32_t max_ptys;
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

/* The root is what the plan has put together, the socket of the agent inside goes to the directory
 * "socket" of the bundle, which is the sandbox's own on the host. */
struct atoll_po_runsc {
    const char *program;       /* below /usr */
    const char *platform;      /* of gVisor: "systrap", "ptrace", "kvm" */
    struct atoll_bytes config; /* the bundle's config.json; paths in it are relative */
};

extern const struct atoll_msg_desc atoll_po_ids_desc, atoll_po_cgroup_desc, atoll_po_image_desc,
    atoll_po_start_desc, atoll_po_disk_desc, atoll_po_layer_desc, atoll_po_overlay_desc,
    atoll_po_directory_desc, atoll_po_file_desc, atoll_po_proc_desc, atoll_po_dev_desc,
    atoll_po_text_desc, atoll_po_rlimit_desc, atoll_po_bytes_desc, atoll_po_agent_desc,
    atoll_po_runsc_desc;

/* Appends one step. desc NULL: no payload. -ENOBUFS. */
int atoll_plan_add(struct atoll_buf *plan, enum atoll_plan_op op, const struct atoll_msg_desc *desc,
                   const void *step) ATOLL_MUST_CHECK;

struct atoll_plan_step {
    enum atoll_plan_op op;
    const uint8_t *payload;
    size_t len;
};

/* Cuts the next step off [*bytes, *bytes + *n). 1: got one, 0: end, -EBADMSG. */
int atoll_plan_next(const uint8_t **bytes, size_t *n,
                    struct atoll_plan_step *ret_step) ATOLL_MUST_CHECK;
