#include "sandbox/plan_builder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "base/switches.h"
#include "proto/plan.h"
#include "sandbox/plan_internal.h"
#include "sandbox/proc_parts.h"
#include "sandbox/stack.h"
#include "sys/netspace.h"

#define USER_ID 1000
#define MIB UINT64_C(1048576)

/* Directories that every root needs; created in the writable layer because an image may lack
 * them. */
static const struct atoll_po_directory directories[] = {
    {"proc", 0555, 0, 0}, {"dev", 0755, 0, 0}, {"sys", 0555, 0, 0},
    {"tmp", 01777, 0, 0}, {"run", 0755, 0, 0}, {"home", 0755, 0, 0},
};

static const struct {
    uint32_t resource;
    uint64_t value;
} rlimits[] = {
    {RLIMIT_CORE, 0},          {RLIMIT_MEMLOCK, 8 * MIB}, {RLIMIT_MSGQUEUE, 819200},
    {RLIMIT_SIGPENDING, 4096}, {RLIMIT_RTPRIO, 0},        {RLIMIT_NICE, 0},
};

uint32_t atoll_plan_missing_limits(const struct atoll_plan_host *host,
                                   const struct atoll_spec *spec)
{
    uint32_t wanted = 0;

    wanted |= spec->limits.memory_bytes ? ATOLL_LIMIT_MEMORY : 0;
    wanted |= spec->limits.cpu_millis ? ATOLL_LIMIT_CPU : 0;
    wanted |= spec->limits.pids ? ATOLL_LIMIT_PIDS : 0;
    wanted |= spec->limits.io_bytes ? ATOLL_LIMIT_IO : 0;
    /* Only a disk that is a device of its own has a bandwidth, and that takes root. */
    if (!host->root)
        return host->cgroup_version == 0 ? wanted : wanted & (host->lacking | ATOLL_LIMIT_IO);
    return host->cgroup_version == 0 ? wanted : wanted & host->lacking;
}

static uint64_t io_bytes_of(const struct atoll_spec *spec)
{
    return spec->waived & ATOLL_LIMIT_IO ? 0 : spec->limits.io_bytes;
}

/* A disk in memory is charged to the memory limit. It gets at most half of it, so that a full
 * disk causes ENOSPC and not an out-of-memory kill of a program that uses the other half. */
static bool fits_in_memory(const struct atoll_spec *spec)
{
    return spec->disk_choice != ATOLL_DISK_AS_IMAGE && !spec->persistent &&
           io_bytes_of(spec) == 0 &&
           (spec->limits.memory_bytes == 0 ||
            spec->limits.disk_bytes <= spec->limits.memory_bytes / 2);
}

bool atoll_plan_wants_cow(const struct atoll_plan_host *host, const struct atoll_spec *spec)
{
    /* The bandwidth is that of a device, which a disk in the pool does not have. Sandboxes of earlier
     * versions have layers with other marks or ids. */
    bool able = host->pool && !spec->builder && io_bytes_of(spec) == 0 && !*spec->layer &&
                (spec->layer_base == 0 || spec->layer_base == ATOLL_LAYER_BASE);

    switch (spec->disk_choice) {
    case ATOLL_DISK_IN_MEMORY:
    case ATOLL_DISK_AS_IMAGE:
        return false;
    case ATOLL_DISK_IN_POOL:
    case ATOLL_DISK_POOLED_IF_POSSIBLE:
        return able && host->disks != ATOLL_DISKS_PLAIN;
    case ATOLL_DISK_ANY:
        break;
    }
    return able && (host->disks == ATOLL_DISKS_COW ||
                    (host->disks == ATOLL_DISKS_AUTO && !fits_in_memory(spec)));
}

static const char *why_not_in_pool(const struct atoll_plan_host *host,
                                   const struct atoll_spec *spec)
{
    if (host->disks == ATOLL_DISKS_PLAIN)
        return "the operator has switched it off (--disks plain)";
    if (!host->pool)
        return "this host has none (`atoll doctor` says what it lacks)";
    return io_bytes_of(spec) ? "its disks have no limit of bandwidth (ioMbps)"
                             : "the template is of an earlier version; import it again";
}

int atoll_plan_check_disk(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                          bool images, struct atoll_error *err)
{
    if (spec->disk_choice == ATOLL_DISK_IN_POOL && !atoll_plan_wants_cow(host, spec))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "disk.kind cow is a disk in the disk pool, and %s",
                          why_not_in_pool(host, spec));
    if (spec->disk_choice == ATOLL_DISK_IN_MEMORY && !fits_in_memory(spec))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "disk.kind memory is for a disk of at most half the memory limit, without ioMbps, of a "
            "sandbox that is not persistent");
    if (spec->disk_choice == ATOLL_DISK_AS_IMAGE && (!host->root || !images))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "disk.kind image needs root, loop devices and mkfs.ext4 on the host");
    return 0;
}

bool atoll_plan_needs_image(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                            char *ret_name, size_t cap)
{
    if (spec->builder || !host->root || spec->cow_disk || fits_in_memory(spec))
        return false;
    (void)snprintf(ret_name, cap, "images/ext4%s-%llu-%llu.img", spec->persistent ? "j" : "",
                   (unsigned long long)((spec->limits.disk_bytes + MIB - 1) / MIB),
                   (unsigned long long)spec->limits.inodes);
    return true;
}

static int add_ids(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                   struct atoll_buf *plan)
{
    struct atoll_po_ids ids = {.mode = ATOLL_IDS_RANGE};
    bool rootfs = spec->template_kind == ATOLL_TEMPLATE_ROOTFS && spec->layer_base != 0;

    if (host->root) {
        ids.outside = atoll_weakened("ids") ? 0 : spec->outside_id;
        ids.count = ATOLL_ID_RANGE;
        /* Layers and volumes that are stored with shifted ids need their own id map. */
        ids.layer_base = spec->builder                         ? ATOLL_LAYER_BASE
                         : rootfs                              ? spec->layer_base
                         : spec->mount_count || spec->cow_disk ? ATOLL_LAYER_BASE
                                                               : 0;
    } else if (host->subid_count > 0) {
        ids.mode = ATOLL_IDS_SUBIDS;
        ids.outside = host->subuid;
        ids.outside_gid = host->subgid;
        ids.count = ATOLL_MIN(host->subid_count, ATOLL_ID_RANGE - 1);
    } else {
        ids.mode = ATOLL_IDS_SINGLE;
        ids.inside = ids.agent_uid = ids.agent_gid = USER_ID;
        ids.count = 1;
    }
    return atoll_plan_add(plan, ATOLL_PLAN_IDS, &atoll_po_ids_desc, &ids);
}

/* Removes the limits that a test switch disables, so that tests can show that they matter. */
static void weaken_limits(struct atoll_po_cgroup *cgroup, struct atoll_po_disk *disk)
{
    if (atoll_weakened("memory_limit"))
        cgroup->memory_bytes = 0;
    if (atoll_weakened("cpu_limit"))
        cgroup->cpu_millis = 0;
    if (atoll_weakened("pids_limit"))
        cgroup->pids = 0;
    if (atoll_weakened("disk_limit"))
        disk->size_bytes *= 64;
    if (atoll_weakened("inode_limit"))
        disk->inodes = 0;
    if (atoll_weakened("io_limit"))
        disk->io_bytes = 0;
}

static int add_start(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                     struct atoll_buf *plan)
{
    const struct atoll_limits *l = &spec->limits;
    struct atoll_po_cgroup cgroup = {
        .memory_bytes = spec->waived & ATOLL_LIMIT_MEMORY ? 0 : l->memory_bytes,
        .cpu_millis = spec->waived & ATOLL_LIMIT_CPU ? 0 : l->cpu_millis,
        .pids = spec->waived & ATOLL_LIMIT_PIDS ? 0 : l->pids,
    };
    struct atoll_po_start start = {.new_network = !atoll_weakened("net_namespace"),
                                   .own_clock = true};
    struct atoll_po_disk disk = {ATOLL_DISK_TMPFS,
                                 l->disk_bytes + (spec->cow_disk ? spec->history_bytes : 0),
                                 l->inodes, io_bytes_of(spec)};
    char name[64];
    struct atoll_po_image image = {name, spec->persistent, spec->resume_disk, spec->cow_disk};
    int r = 0;

    weaken_limits(&cgroup, &disk);
    if (host->cgroup_version > 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_CGROUP, &atoll_po_cgroup_desc, &cgroup);
    disk.kind = spec->cow_disk ? ATOLL_DISK_COW : disk.kind;
    if (r == 0 && spec->cow_disk && spec->persistent) {
        image.source = "";
        r = atoll_plan_add(plan, ATOLL_PLAN_IMAGE, &atoll_po_image_desc, &image);
    }
    if (r == 0 && atoll_plan_needs_image(host, spec, name, sizeof(name))) {
        disk.kind = ATOLL_DISK_IMAGE;
        r = atoll_plan_add(plan, ATOLL_PLAN_IMAGE, &atoll_po_image_desc, &image);
    }
    if (spec->builder)
        disk.kind = ATOLL_DISK_PLAIN;
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_START, &atoll_po_start_desc, &start);
    return r < 0 ? r : atoll_plan_add(plan, ATOLL_PLAN_DISK, &atoll_po_disk_desc, &disk);
}

static int add_file(struct atoll_buf *plan, enum atoll_plan_op op, const char *path,
                    const char *text)
{
    struct atoll_po_file file = {path, 0644, {(const uint8_t *)text, strlen(text)}};
    struct atoll_po_bind bind = {ATOLL_BIND_FILE, path, 0644, file.content, ""};

    return op == ATOLL_PLAN_BIND ? atoll_plan_add(plan, op, &atoll_po_bind_desc, &bind)
                                 : atoll_plan_add(plan, op, &atoll_po_file_desc, &file);
}

static int add_directories(const struct atoll_spec *spec, struct atoll_buf *plan)
{
    const struct atoll_po_directory home = {"home/user", 0755, USER_ID, USER_ID};
    const struct atoll_po_directory import = {"import", 0755, 0, 0};
    /* The layer of the host template already has the other directories. */
    bool bare = spec->template_kind == ATOLL_TEMPLATE_ROOTFS;
    int r = 0;

    if (spec->builder) /* a mount point: see atoll_plan_add_builder() */
        r = atoll_plan_add(plan, ATOLL_PLAN_DIRECTORY, &atoll_po_directory_desc, &import);

    for (size_t i = 0; r == 0 && bare && i < ATOLL_ARRAY_LEN(directories); i++)
        r = atoll_plan_add(plan, ATOLL_PLAN_DIRECTORY, &atoll_po_directory_desc, &directories[i]);
    return r < 0 ? r : atoll_plan_add(plan, ATOLL_PLAN_DIRECTORY, &atoll_po_directory_desc, &home);
}

static bool has_network(const struct atoll_spec *spec)
{
    return spec->network != ATOLL_NETWORK_NONE && !atoll_weakened("net_namespace");
}

/* FILE: in the writable layer, before there is a root; BIND: mounts in the root. */
static int add_names(const struct atoll_spec *spec, enum atoll_plan_op op, struct atoll_buf *plan)
{
    char hosts[160], name[ATOLL_ID_LEN + 2];
    int r;

    (void)snprintf(name, sizeof(name), "%s\n", spec->id);
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n",
                   spec->id);
    r = add_file(plan, op, "etc/hostname", name);
    if (r == 0)
        r = add_file(plan, op, "etc/hosts", hosts);
    if (r < 0)
        return r;
    /* Without a network no name server is listed: lookups fail at once instead of timing out. */
    return add_file(plan, op, "etc/resolv.conf",
                    has_network(spec) ? "nameserver " ATOLL_NETSPACE_ADDRESS4 "\n"
                                      : "# no network\n");
}

/* Joins the lists of masked paths: a message needs them in one array. */
static size_t list_masked(const char **out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; n < cap && i < atoll_proc_masked_count; i++)
        out[n++] = atoll_proc_masked[i];
    for (size_t i = 0; n < cap && i < atoll_proc_host_state_count; i++)
        out[n++] = atoll_proc_host_state[i];
    return n;
}

static int add_kernel_views(const struct atoll_plan_host *host, struct atoll_buf *plan)
{
    const char *masked[128], *settings[] = {"sys"}; /* other kernel settings are masked */
    struct atoll_po_dev dev = {.shm_bytes = 64 * MIB, .shm_inodes = 4096, .max_ptys = 64};
    struct atoll_po_proc proc = {
        .masked = {masked, list_masked(masked, ATOLL_ARRAY_LEN(masked))},
        .read_only = {settings, ATOLL_ARRAY_LEN(settings)},
        .views = true,
        .cpu = {(const uint8_t *)host->cpu, strlen(host->cpu)},
    };
    char boot_id[ATOLL_UUID_LEN + 2];
    int r;

    if (atoll_weakened("proc_masks"))
        proc.masked.len = 0;
    if (atoll_weakened("proc_read_only"))
        proc.read_only.len = 0;
    if (atoll_weakened("pty_limit"))
        dev.max_ptys *= 64;
    r = atoll_plan_add(plan, ATOLL_PLAN_DEV, &atoll_po_dev_desc, &dev);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_PROC, &atoll_po_proc_desc, &proc);
    atoll_rand_uuid(boot_id);
    (void)strcat(boot_id, "\n");
    return r < 0 ? r : add_file(plan, ATOLL_PLAN_COVER, "proc/sys/kernel/random/boot_id", boot_id);
}

static int add_read_only(const struct atoll_spec *spec, struct atoll_buf *plan)
{
    const char *mounts[] = {"usr"}, *writable[] = {"home", "root", "tmp", "var/tmp", "run"};
    struct atoll_po_read_only step = {
        .mounts = {mounts,
                   spec->template_kind == ATOLL_TEMPLATE_HOST || atoll_stack_is_host(spec->layers)
                       ? 1
                       : 0},
        .writable = {writable, ATOLL_ARRAY_LEN(writable)},
    };

    return atoll_plan_add(plan, ATOLL_PLAN_READ_ONLY, &atoll_po_read_only_desc, &step);
}

static int add_rlimit(struct atoll_buf *plan, uint32_t resource, uint64_t value)
{
    struct atoll_po_rlimit limit = {resource, value, value};
    return atoll_plan_add(plan, ATOLL_PLAN_RLIMIT, &atoll_po_rlimit_desc, &limit);
}

static int add_rlimits(const struct atoll_spec *spec, struct atoll_buf *plan)
{
    int r = 0;

    if (atoll_weakened("rlimits"))
        return 0;
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(rlimits); i++)
        r = add_rlimit(plan, rlimits[i].resource, rlimits[i].value);
    if (r == 0)
        /* A stored spec of an earlier version may have less. */
        r = add_rlimit(plan, RLIMIT_NOFILE,
                       ATOLL_MAX(spec->limits.open_files, (uint32_t)ATOLL_OPEN_FILES_MIN));
    /* Refuses sparse files that are larger than any disk. */
    return r < 0 ? r
                 : add_rlimit(plan, RLIMIT_FSIZE, ATOLL_MAX(spec->limits.disk_bytes, 1024 * MIB));
}

static int add_end(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                   const struct atoll_buf *seccomp, struct atoll_buf *plan)
{
    struct atoll_po_text hostname = {spec->id};
    struct atoll_po_bytes filter = {{atoll_buf_head(seccomp), atoll_buf_size(seccomp)}};
    struct atoll_po_agent agent = {
        .allow_sudo = spec->allow_sudo,
        .many_ids = host->root || host->subid_count > 0,
        .user = "user",
        .home = "/home/user",
        .uid = USER_ID,
        .gid = USER_ID,
        .memory_limit_bytes = spec->limits.memory_bytes,
    };
    int r = 0;

    if (!atoll_weakened("uts_namespace")) /* without it the host's name would change */
        r = atoll_plan_add(plan, ATOLL_PLAN_HOSTNAME, &atoll_po_text_desc, &hostname);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_LOOPBACK, NULL, NULL);
    if (r == 0 && has_network(spec))
        r = atoll_plan_add(plan, ATOLL_PLAN_NETWORK, NULL, NULL);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_PIVOT, NULL, NULL);
    if (r == 0)
        r = add_rlimits(spec, plan);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_IDENTITY, NULL, NULL);
    if (r == 0 && !atoll_weakened("seccomp"))
        r = atoll_plan_add(plan, ATOLL_PLAN_SECCOMP, &atoll_po_bytes_desc, &filter);
    return r < 0 ? r : atoll_plan_add(plan, ATOLL_PLAN_AGENT, &atoll_po_agent_desc, &agent);
}

/* gVisor: host threads per process of the sandbox, including gVisor's own. Measured with the ptrace
 * platform: five to six host threads per process inside. */
#define RUNSC_TASKS_PER_PID 8
#define RUNSC_TASKS_OWN 128

uint32_t atoll_plan_runsc_tasks(uint32_t pids)
{
    if (pids == 0)
        return 0;
    return ATOLL_MIN(pids, UINT32_MAX / 16) * RUNSC_TASKS_PER_PID + RUNSC_TASKS_OWN;
}

static int add_runsc_start(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                           struct atoll_buf *plan)
{
    struct atoll_spec outside = *spec;

    outside.limits.pids = atoll_plan_runsc_tasks(spec->limits.pids);
    return add_start(host, &outside, plan);
}

/* Writes the limits in `set` in the format of --waive. */
static void limit_names(uint32_t set, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s%s%s%s%s", set & ATOLL_LIMIT_MEMORY ? "memory," : "",
                   set & ATOLL_LIMIT_CPU ? "cpu," : "", set & ATOLL_LIMIT_PIDS ? "pids," : "",
                   set & ATOLL_LIMIT_DISK ? "disk," : "", set & ATOLL_LIMIT_IO ? "io," : "");
    if (*out)
        out[strlen(out) - 1] = '\0';
}

static int check_limits(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                        struct atoll_error *err)
{
    uint32_t missing = atoll_plan_missing_limits(host, spec) & ~spec->waived;
    char names[64];

    limit_names(missing, names, sizeof(names));
    if (missing)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
            "this host cannot enforce these limits: %s (the daemon has no cgroup that supports "
            "them; `atoll doctor` says how to fix that). To run without them, use --waive %s or "
            "\"waive\" in the request",
            names, names);
    return 0;
}

int atoll_plan_build(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                     const struct atoll_buf *seccomp, struct atoll_buf *plan,
                     struct atoll_error *err)
{
    bool step = spec->builder == ATOLL_BUILDER_STEP;
    int r = check_limits(host, spec, err);

    if (r == 0)
        r = atoll_plan_check_layers(host, spec, err);
    if (r < 0)
        return r;
    if (spec->persistent && !host->root)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EPERM,
                          "a persistent sandbox needs a disk image on this host, which only root "
                          "can create; run atolld as root, or omit \"persistent\"");
    r = add_ids(host, spec, plan);
    if (r == 0)
        r = add_start(host, spec, plan);
    if (r == 0 && !step)
        r = add_directories(spec, plan);
    if (r == 0 && !step)
        r = add_names(spec, ATOLL_PLAN_FILE, plan);
    if (r == 0)
        r = atoll_plan_add_root(host, spec, plan);
    if (r == 0)
        r = add_kernel_views(host, plan);
    if (r == 0 && step)
        r = add_names(spec, ATOLL_PLAN_BIND, plan);
    if (r == 0 && spec->builder)
        r = atoll_plan_add_builder(spec, plan);
    if (r == 0)
        r = atoll_plan_add_volumes(spec, plan);
    if (r == 0 && spec->read_only)
        r = add_read_only(spec, plan);
    if (r == 0)
        r = add_end(host, spec, seccomp, plan);
    return r < 0 ? atoll_fail_errno(err, -r, "build plan") : 0;
}

int atoll_plan_build_runsc(const struct atoll_plan_host *host, const struct atoll_spec *spec,
                           const struct atoll_po_runsc *runsc, struct atoll_buf *plan,
                           struct atoll_error *err)
{
    /* gVisor mounts a tmpfs over an empty /tmp. A directory in it keeps /tmp on the disk. */
    const struct atoll_po_directory not_empty = {"tmp/.X11-unix", 01777, 0, 0};
    const struct atoll_po_directory tmp = {"tmp", 01777, 0, 0};
    int r = check_limits(host, spec, err);

    if (r == 0)
        r = atoll_plan_check_layers(host, spec, err);
    if (r < 0)
        return r;
    r = add_ids(host, spec, plan);
    if (r == 0)
        r = add_runsc_start(host, spec, plan);
    if (r == 0)
        r = add_directories(spec, plan);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_DIRECTORY, &atoll_po_directory_desc, &tmp);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_DIRECTORY, &atoll_po_directory_desc, &not_empty);
    if (r == 0)
        r = add_names(spec, ATOLL_PLAN_FILE, plan);
    /* See agent/preload/automount.c. */
    if (r == 0)
        r = add_file(plan, ATOLL_PLAN_FILE, "etc/ld.so.preload", "/.atoll/preload.so\n");
    if (r == 0)
        r = atoll_plan_add_runsc_root(host, spec, plan);
    if (r == 0 && runsc->network)
        r = atoll_plan_add(plan, ATOLL_PLAN_LOOPBACK, NULL, NULL);
    if (r == 0 && runsc->network)
        r = atoll_plan_add(plan, ATOLL_PLAN_NETWORK, NULL, NULL);
    if (r == 0)
        r = atoll_plan_add(plan, ATOLL_PLAN_RUNSC, &atoll_po_runsc_desc, runsc);
    return r < 0 ? atoll_fail_errno(err, -r, "build plan") : 0;
}
