#pragma once
#include "agent/views.h"
#include "base/error.h"
#include "proto/plan.h"
#include "sys/cgroup.h"

/*
 * Carrying out a plan. A build is everything one run of a plan has in hand; each step takes from
 * it and adds to it. Steps before START run in spawn, the rest in the new process.
 */

/* What spawn knows about the host; one for the life of the process. */
struct atoll_spawn_host {
    bool root;
    uid_t uid;
    gid_t gid;
    int state_fd;     /* the state directory, which is also the current directory */
    int sandboxes_fd; /* state/sandboxes: <id>.sock, .img and .disk of each living sandbox */
    int layers_fd;    /* state/layers */
    int disks_fd;     /* state/disks: <id>.img of each sandbox whose disk can outlive it */
    char instance[17];
    struct atoll_id_blocks *ids; /* with root: id ranges no other instance on this host uses */
    int shared_fd;               /* with root: /run/atoll of the host */
    int packages_fd;             /* the host's database of packages, if it has one we know */
    struct atoll_spare *spare;   /* with root: the next user namespace, made ahead */
    struct atoll_cgroups cgroups;
};

/* Name of the agent's socket in sandboxes/<id>.run, where one under gVisor makes it. The daemon
 * moves it to sandboxes/<id>.sock and removes the directory, so that nothing inside can fill it. */
#define ATOLL_BUILD_SOCKET "agent"

/* The directory at the top of the disk that is in memory whatever the disk is (steps_kernel.c). */
#define ATOLL_BUILD_PARTS "d"

struct atoll_plan_run {
    const struct atoll_spawn_host *host;
    const char *id;
    struct atoll_po_ids ids;
    bool has_cgroup;
    bool new_network;
    bool own_clock;
    bool kept_disk;      /* the image is one that can outlive the sandbox */
    bool existing_disk;  /* and has been the disk of this sandbox before */
    bool disk_in_memory; /* the disk is a tmpfs */
    bool laid_out;       /* of those: everything the plan makes in it is there */
    int listen_fd;       /* where the agent will accept the daemon */
    int userns_fd;       /* RANGE: the sandbox's user namespace */
    int layer_userns_fd; /* RANGE: shows built layers with the sandbox's ids */
    int image_fd;        /* the disk image */
    int boot_id_fd;      /* the file that covers the kernel's boot_id, for the agent to rewrite */
    bool has_views;
    struct atoll_view_fds views; /* of /proc, for the agent to write */
    int oom_fd, peak_fd;         /* evidence for the agent */
    int status_fd;               /* write end; the new process reports through it */
    int go_fd;                   /* rootless: read end; a byte comes when the id maps are written */
    /* in the new process */
    int state_fd; /* the state directory, in the new mount namespace */
    int mount_fd; /* state/mnt there: each sandbox hangs its disk on it, in its own namespace */
    int upper_fd; /* writable layer, before it is part of the root */
    int root_fd;  /* the new root */
};

void atoll_build_init(struct atoll_plan_run *b, const struct atoll_spawn_host *host,
                      const char *id);
/* Closes the descriptors. What was made in the world is removed by sandbox.c. */
void atoll_build_done(struct atoll_plan_run *b);

/* The uid that the namespaces of this sandbox are charged to; 0: whoever we are. */
uid_t atoll_build_owner(const struct atoll_plan_run *b);

/* Runs one step. The error's text names no step: the caller knows it. */
int atoll_build_step(struct atoll_plan_run *b, const struct atoll_plan_step *step,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* "overlay", or "unknown". */
const char *atoll_build_step_name(enum atoll_plan_op op);

/* The steps, by where they are implemented. Each gets its decoded message. */
typedef int atoll_step_fn(struct atoll_plan_run *b, const void *step, struct atoll_error *err);
atoll_step_fn atoll_step_ids, atoll_step_cgroup, atoll_step_image;    /* steps_host.c */
atoll_step_fn atoll_step_disk, atoll_step_directory, atoll_step_file; /* steps_disk.c */
atoll_step_fn atoll_step_layer, atoll_step_overlay, atoll_step_pivot; /* steps_root.c */
atoll_step_fn atoll_step_dev, atoll_step_proc, atoll_step_cover;      /* steps_kernel.c */
atoll_step_fn atoll_step_hostname, atoll_step_loopback, atoll_step_rlimit, atoll_step_identity,
    atoll_step_seccomp, atoll_step_agent, atoll_step_abort; /* steps_self.c */
atoll_step_fn atoll_step_runsc;                             /* steps_runsc.c */

/* steps_views.c: covers of /proc that the agent will write, and what it computes them from. cpu: about
 * one CPU of the host. The current directory is the root of the sandbox. */
int atoll_views_make(struct atoll_plan_run *b, struct atoll_bytes cpu, int disk_fd,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* Shared by both ways to end a plan (steps_self.c). */
/* The sandbox ends with spawn, its parent: without it nobody would clean up behind it. */
int atoll_self_die_with_spawn(struct atoll_plan_run *b, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Standard input, output and error lead nowhere. */
int atoll_self_silence_stdio(void) ATOLL_MUST_CHECK;

/* What the new process writes to status_fd: once, when the agent is ready or a step failed. */
struct atoll_build_status {
    uint32_t step; /* index in the plan */
    uint32_t op;
    struct atoll_error error; /* kind NONE: ready */
};
