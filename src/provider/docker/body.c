/*
 * The body that creates a container: only what the agent needs, with all limits.
 */
#include "provider/docker/body.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include "base/switches.h"
#include "sandbox/proc_parts.h"
#include "sys/caps.h"

/* The smallest memory limit that engines accept. */
#define MEMORY_MIN (6 * 1024 * 1024)
#define RUN_BYTES (1024 * 1024)
#define AGENT_PIDS 2 /* the agent and one relay */

static const struct {
    const char *name;
    unsigned bit;
} cap_names[] = {
    {"CHOWN", CAP_CHOWN},   {"DAC_OVERRIDE", CAP_DAC_OVERRIDE},
    {"FOWNER", CAP_FOWNER}, {"FSETID", CAP_FSETID},
    {"SETUID", CAP_SETUID}, {"SETGID", CAP_SETGID},
    {"KILL", CAP_KILL},     {"SETPCAP", CAP_SETPCAP},
};

static json_t *agent_caps(void)
{
    json_t *caps = json_array();

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cap_names); i++)
        if (atoll_caps_of_agent() & ATOLL_CAP_BIT(cap_names[i].bit))
            (void)json_array_append_new(caps, json_string(cap_names[i].name));
    return caps;
}

static json_t *agent_command(const struct atoll_docker_place *p)
{
    json_t *args = json_pack("[s, s, s, s, s]", "--in-container", p->image->user, "--workdir",
                             "--listen", ATOLL_DOCKER_INSIDE "/run/" ATOLL_DOCKER_SOCKET);
    char bytes[24];

    if (!(p->spec->waived & ATOLL_LIMIT_MEMORY)) {
        (void)snprintf(bytes, sizeof(bytes), "%llu",
                       (unsigned long long)p->spec->limits.memory_bytes);
        (void)json_array_append_new(args, json_string("--memory-limit"));
        (void)json_array_append_new(args, json_string(bytes));
    }
    if (p->spec->allow_sudo)
        (void)json_array_append_new(args, json_string("--sudo"));
    for (size_t i = 0; i < p->spec->mount_count; i++) {
        if (!*p->spec->mounts[i].volume || p->spec->mounts[i].read_only)
            continue;
        (void)json_array_append_new(args, json_string("--own"));
        (void)json_array_append_new(args, json_string(p->spec->mounts[i].path));
    }
    if (!p->run_dir)
        (void)json_array_append_new(args, json_string("--no-fds"));
    return args;
}

static json_t *bind(const char *source, const char *target, bool read_only)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind", "Source", source, "Target",
                     target, "ReadOnly", read_only, "BindOptions", "Propagation", "rprivate");
}

static json_t *mounts(const struct atoll_docker_place *p)
{
    json_t *array = json_array();

    if (p->run_dir) {
        (void)json_array_append_new(array,
                                    bind(p->agent, ATOLL_DOCKER_INSIDE "/bin/atoll-agent", true));
        (void)json_array_append_new(array, bind(p->run_dir, ATOLL_DOCKER_INSIDE "/run", false));
        if (p->sudo)
            (void)json_array_append_new(array, bind(p->sudo, "/usr/bin/sudo", true));
    } else {
        (void)json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:b}", "Type", "volume",
                                                     "Source", p->agent_volume, "Target",
                                                     ATOLL_DOCKER_INSIDE "/bin", "ReadOnly", 1));
    }
    for (size_t i = 0; i < p->bind_count; i++)
        (void)json_array_append_new(
            array, bind(p->binds[i].source, p->binds[i].target, !p->binds[i].writable));
    for (size_t i = 0; i < json_array_size(p->mounts); i++)
        (void)json_array_append(array, json_array_get(p->mounts, i));
    return array;
}

static void add_tmpfs(json_t *object, const char *path, uint64_t bytes, uint64_t inodes, int mode)
{
    char options[128];

    (void)snprintf(options, sizeof(options),
                   "rw,exec,nosuid,nodev,size=%llu,nr_inodes=%llu,mode=%o",
                   (unsigned long long)bytes, (unsigned long long)inodes, mode);
    (void)json_object_set_new(object, path, json_string(options));
}

/* Three quarters of the disk are for /root and /home, most of it for that of the image's user; if
 * the image names none, both get the same. Other writable directories share the rest. */
static void add_disk(json_t *tmpfs, const struct atoll_docker_place *p)
{
    const struct atoll_limits *l = &p->spec->limits;
    const char *user = p->image->user;
    bool root = strcmp(user, "root") == 0 || strcmp(user, "0") == 0;
    uint64_t run = ATOLL_MIN((uint64_t)RUN_BYTES, l->disk_bytes / 16);
    uint64_t eighth = (l->disk_bytes - run) / 8, inodes = (l->inodes ? l->inodes : 65536) / 8;
    size_t others = 2 + p->image->volume_count;
    unsigned of_root = root ? 5 : *user ? 1 : 3;

    add_tmpfs(tmpfs, "/run", run, 1024, 0755);
    add_tmpfs(tmpfs, "/root", of_root * eighth, of_root * inodes, 0700);
    add_tmpfs(tmpfs, "/home", (6 - of_root) * eighth, (6 - of_root) * inodes, 0755);
    add_tmpfs(tmpfs, "/tmp", 2 * eighth / others, 2 * inodes / others, 01777);
    add_tmpfs(tmpfs, "/var/tmp", 2 * eighth / others, 2 * inodes / others, 01777);
    /* Volumes declared by the image would not count against the limit; a tmpfs covers each. */
    for (size_t i = 0; i < p->image->volume_count; i++)
        add_tmpfs(tmpfs, p->image->volumes[i], 2 * eighth / others, 2 * inodes / others, 0755);
}

static void add_limits(json_t *o, const struct atoll_limits *l, uint32_t waived, unsigned cpus)
{
    /* Engines refuse more CPUs than they have; that many is no limit in any case. */
    uint64_t millis = cpus ? ATOLL_MIN(l->cpu_millis, cpus * 1000u) : l->cpu_millis;
    uint64_t memory = ATOLL_MAX(l->memory_bytes, (uint64_t)MEMORY_MIN);

    if (!(waived & ATOLL_LIMIT_MEMORY) && l->memory_bytes) {
        (void)json_object_set_new(o, "Memory", json_integer((json_int_t)memory));
        (void)json_object_set_new(o, "MemorySwap", json_integer((json_int_t)memory));
    }
    if (!(waived & ATOLL_LIMIT_CPU) && millis)
        (void)json_object_set_new(o, "NanoCpus", json_integer((json_int_t)(millis * 1000000)));
    if (!(waived & ATOLL_LIMIT_PIDS) && l->pids)
        (void)json_object_set_new(o, "PidsLimit", json_integer((json_int_t)l->pids + AGENT_PIDS));
}

json_t *atoll_docker_body_update(const struct atoll_limits *limits, uint32_t waived, unsigned cpus)
{
    json_t *body = json_object();

    if (body)
        add_limits(body, limits, waived, cpus);
    return body;
}

static void add_disk_limit(json_t *host, const struct atoll_docker_place *p)
{
    json_t *tmpfs = json_object();
    char size[24];

    if (!p->run_dir)
        add_tmpfs(tmpfs, ATOLL_DOCKER_INSIDE "/run", 64 * 1024, 16, 0700);
    if (p->disk == ATOLL_DOCKER_DISK_QUOTA) {
        (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)p->spec->limits.disk_bytes);
        (void)json_object_set_new(host, "StorageOpt", json_pack("{s:s}", "size", size));
        for (size_t i = 0; i < p->image->volume_count; i++)
            add_tmpfs(tmpfs, p->image->volumes[i], p->spec->limits.disk_bytes / 8, 4096, 0755);
    } else if (p->disk == ATOLL_DOCKER_DISK_TMPFS) {
        (void)json_object_set_new(host, "ReadonlyRootfs", json_true());
        add_disk(tmpfs, p);
    }
    (void)json_object_set_new(host, "Tmpfs", tmpfs);
}

/* More than engines mask by default: the paths in /sys describe the hardware. */
static json_t *hidden_paths(void)
{
    json_t *paths = json_pack("[s, s, s, s]", "/sys/firmware", "/sys/kernel/notes",
                              "/sys/devices/virtual/dmi", "/sys/devices/virtual/powercap");

    for (size_t i = 0; i < atoll_proc_masked_count; i++)
        (void)json_array_append_new(paths, json_sprintf("/proc/%s", atoll_proc_masked[i]));
    return paths;
}

static json_t *read_only_paths(void)
{
    json_t *paths = json_array();

    for (size_t i = 0; i < atoll_proc_read_only_count; i++)
        (void)json_array_append_new(paths, json_sprintf("/proc/%s", atoll_proc_read_only[i]));
    return paths;
}

static json_t *host_config(const struct atoll_docker_place *p)
{
    const struct atoll_limits *l = &p->spec->limits;
    int files = l->open_files ? (int)l->open_files : 4096;
    json_t *host =
        json_pack("{s:s, s:[s], s:o, s:[s, s+], s:s, s:s, s:b, s:b, s:o,"
                  " s:[{s:s, s:i, s:i}, {s:s, s:i, s:i}], s:{s:s, s:{s:s, s:s}}, s:{s:s}}",
                  "NetworkMode", p->network, "CapDrop", "ALL", "CapAdd", agent_caps(),
                  "SecurityOpt", "no-new-privileges",
                  "seccomp=", atoll_weakened("docker_seccomp") ? "unconfined" : p->profile,
                  "IpcMode", "private", "CgroupnsMode", "private", "Init", 0, "Privileged", 0,
                  "Mounts", mounts(p), "Ulimits", "Name", "core", "Soft", 0, "Hard", 0, "Name",
                  "nofile", "Soft", files, "Hard", files, "LogConfig", "Type", "json-file",
                  "Config", "max-size", "64k", "max-file", "1", "RestartPolicy", "Name", "no");

    if (host) {
        bool covered = !atoll_weakened("docker_paths");
        (void)json_object_set_new(host, "MaskedPaths", covered ? hidden_paths() : json_array());
        (void)json_object_set_new(host, "ReadonlyPaths",
                                  covered ? read_only_paths() : json_array());
        add_limits(host, l, p->spec->waived, p->cpus);
        add_disk_limit(host, p);
        if (p->runtime)
            (void)json_object_set_new(host, "Runtime", json_string(p->runtime));
    }
    return host;
}

json_t *atoll_docker_body_create(const struct atoll_docker_place *p)
{
    /* A container in the pool has no owner yet, and labels cannot be changed later. */
    const char *owner = p->spec->tenant;

    /* Without WorkingDir: the agent starts in that of the image. */
    return json_pack("{s:s, s:s, s:s, s:[s], s:o, s:{s:s, s:s, s:s*}, s:s, s:{s:[s]}, s:o}",
                     "Image", p->image->id, "User", "0:0", "Hostname", "sandbox", "Entrypoint",
                     ATOLL_DOCKER_INSIDE "/bin/atoll-agent", "Cmd", agent_command(p), "Labels",
                     "atoll.id", p->spec->id, ATOLL_DOCKER_LABEL, p->daemon_id, ATOLL_DOCKER_OWNER,
                     *owner ? owner : NULL, "StopSignal", "SIGKILL", "Healthcheck", "Test", "NONE",
                     "HostConfig", host_config(p));
}
