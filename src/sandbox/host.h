#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * What this host supports: the facts that plans are built on, and the report of `atoll doctor`.
 *
 * Features are tested by using them, not derived from version numbers: short-lived children create
 * namespaces, overlays and id-mapped mounts in their own mount namespaces; all of it disappears
 * with the child.
 *
 * Blocking: some milliseconds for the caps; the report also waits up to half a second for Docker.
 * Thread: the children are clones of the caller, so probe before the first thread is started.
 */

/* Plain values for the plan builder. A feature that is absent or could not be tested is false or
 * 0. */
struct atoll_host_caps {
    bool root; /* uid 0 and able to mount and map ids; otherwise rootless */
    unsigned kernel_major, kernel_minor;

    int cgroup_version; /* the version in which we can create groups; 0: none */
    bool cgroup_memory, cgroup_cpu, cgroup_pids, cgroup_freezer;

    bool userns;         /* user, mount, pid, net, ipc, uts namespaces together */
    bool overlay;        /* can be mounted in the initial user namespace */
    bool overlay_userns; /* can be mounted inside a user namespace, which rootless needs */
    bool idmap;          /* the host's /usr can be mounted id-mapped */
    bool loop;           /* loop devices and mkfs.ext4, for disks of a fixed size */
    bool cow; /* likewise mkfs.btrfs, and a kernel with simple quotas, for copy-on-write disks */

    bool subids;               /* rootless: sub-ids for this user, and newuidmap/newgidmap */
    uint32_t subuid, subgid;   /* first of the range */
    uint32_t subuids, subgids; /* its length */

    bool pidfd;
    bool seccomp;
    bool seccomp_notify;
    int landlock_abi; /* 0: none */

    unsigned cpus;
    uint64_t memory_bytes;
};

/* Missing features are not an error. INTERNAL if /proc is not mounted. */
int atoll_host_caps_probe(struct atoll_host_caps *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

enum atoll_host_state {
    ATOLL_HOST_OK,
    ATOLL_HOST_MISSING, /* a feature that Atoll can use is absent */
    ATOLL_HOST_WARN,    /* works, but less secure or less capable than it should be */
    ATOLL_HOST_INFO,
};

struct atoll_host_check {
    const char *name; /* static */
    enum atoll_host_state state;
    bool essential; /* the native engine cannot run while this is missing */
    bool hardening; /* a weakness of the host against hostile code: shown to administrators only */
    char detail[200];
    char fix[240]; /* a command or a sentence; "" if there is nothing to do */
};

#define ATOLL_HOST_CHECKS_MAX 96

struct atoll_host_report {
    struct atoll_host_caps caps;
    bool native;       /* the native engine can run */
    char summary[600]; /* what this host supports, as text */
    size_t nchecks;
    struct atoll_host_check checks[ATOLL_HOST_CHECKS_MAX];
};

/* atoll_host_caps_probe() and all checks of the report. The report is too large for small
 * stacks. */
int atoll_host_probe(struct atoll_host_report *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The path of the Docker socket: that of DOCKER_HOST, if it is a unix socket, else the usual one. */
const char *atoll_host_docker_socket(void);
/* 0 if the engine behind it answers within half a second; -errno. Blocking. */
int atoll_host_ping_docker(void);

/* "ok", "missing", "warn", "info". */
const char *atoll_host_state_name(enum atoll_host_state state);

/* Appends {"version","mode","native","summary","checks":[{"name","state","essential",
 * "hardening","detail","fix"}]}; hardening is omitted if false, fix if empty. -ENOBUFS, -ENOMEM. */
int atoll_host_report_json(const struct atoll_host_report *report,
                           struct atoll_buf *out) ATOLL_MUST_CHECK;
