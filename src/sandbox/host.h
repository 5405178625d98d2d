#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * What this host can give: the facts a plan is built on, and the report of `atoll doctor`.
 *
 * Facts are tried, not guessed from version numbers: namespaces, overlays and id-mapped mounts are
 * really made, in short-lived children with mount namespaces of their own, and vanish with them.
 *
 * Blocking: some milliseconds for the caps; the report also waits up to half a second for Docker.
 * Thread: the children are clones of the caller, so probe before the first thread is started.
 */

/* Plain values for the plan builder. Everything is false or 0 where it could not be had. */
struct atoll_host_caps {
    bool root; /* uid 0 that may mount and map ids; otherwise we are rootless */
    unsigned kernel_major, kernel_minor;

    int cgroup_version; /* that we may make groups in: 0 none, 1, 2 */
    bool cgroup_memory, cgroup_cpu, cgroup_pids, cgroup_freezer;

    bool userns;         /* user, mount, pid, net, ipc, uts namespaces together */
    bool overlay;        /* mounted by us as we are */
    bool overlay_userns; /* mounted inside a user namespace: what rootless needs */
    bool idmap;          /* the host's /usr can be mounted id-mapped */
    bool loop;           /* loop devices and mkfs.ext4, for disks of a fixed size */

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

/* Succeeds on every host that answers at all; INTERNAL when /proc is not there. */
int atoll_host_caps_probe(struct atoll_host_caps *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

enum atoll_host_state {
    ATOLL_HOST_OK,
    ATOLL_HOST_MISSING, /* something Atoll could use is not there */
    ATOLL_HOST_WARN,    /* works, but weaker than it should be */
    ATOLL_HOST_INFO,
};

struct atoll_host_check {
    const char *name; /* static */
    enum atoll_host_state state;
    bool essential; /* the native engine cannot run while this is missing */
    bool hardening; /* what the host lacks against hostile code: for administrators alone */
    char detail[200];
    char fix[240]; /* a command or a sentence; "" when there is nothing to do */
};

#define ATOLL_HOST_CHECKS_MAX 96

struct atoll_host_report {
    struct atoll_host_caps caps;
    bool native;       /* the native engine can run */
    char summary[600]; /* what this host can give, in words */
    size_t nchecks;
    struct atoll_host_check checks[ATOLL_HOST_CHECKS_MAX];
};

/* As atoll_host_caps_probe(), and everything else worth knowing. The report is big: not for small
 * stacks. */
int atoll_host_probe(struct atoll_host_report *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* "ok", "missing", "warn", "info". */
const char *atoll_host_state_name(enum atoll_host_state state);

/* Appends {"version","mode","native","summary","checks":[{"name","state","essential",
 * "hardening","detail","fix"}]}; hardening and fix are left out where they are not. -ENOBUFS, -ENOMEM. */
int atoll_host_report_json(const struct atoll_host_report *report,
                           struct atoll_buf *out) ATOLL_MUST_CHECK;
