#include <errno.h>
#include <jansson.h>
#include "provider/gvisor/gvisor_internal.h"

/*
 * The OCI configuration of a sandbox: what gVisor's kernel shows and enforces inside. From a
 * request it has only numbers and ids that we made ourselves; no path leads outside the bundle.
 */

#define USER_ID "1000"
#define SHM_SIZE "size=64m"

/* The same as those of the native agent (sys/caps.h); here gVisor's kernel enforces them. */
static const char *const capabilities[] = {"CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",
                                           "CAP_FSETID", "CAP_SETUID",       "CAP_SETGID",
                                           "CAP_KILL",   "CAP_SETPCAP"};
static const char *const namespaces[] = {"pid", "mount", "ipc", "uts"};
/* Of a sandbox without a network. With one, atoll-spawn starts runsc inside of both. */
static const char *const more_namespaces[] = {"user", "network"};

static json_t *strings(const char *const *texts, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(array, json_string(texts[i]));
    return array;
}

static json_t *agent_args(const struct atoll_spec *spec)
{
    static const char *const fixed[] = {"/.atoll/agent", "--listen",  "/.atoll/run/agent",
                                        "--socket-mode", "0666",      "--no-fds",
                                        "--user",        "user",      "--uid",
                                        USER_ID,         "--gid",     USER_ID,
                                        "--home",        "/home/user"};
    json_t *args = strings(fixed, ATOLL_ARRAY_LEN(fixed));

    if (spec->allow_sudo)
        (void)json_array_append_new(args, json_string("--sudo"));
    if (spec->limits.memory_bytes) {
        (void)json_array_append_new(args, json_string("--memory-limit"));
        (void)json_array_append_new(
            args, json_sprintf("%llu", (unsigned long long)spec->limits.memory_bytes));
    }
    return args;
}

static json_t *rlimit(const char *type, uint64_t value)
{
    return json_pack("{s:s,s:I,s:I}", "type", type, "soft", (json_int_t)value, "hard",
                     (json_int_t)value);
}

static json_t *process(const struct atoll_spec *spec)
{
    json_t *caps = strings(capabilities, ATOLL_ARRAY_LEN(capabilities));
    json_t *limits = json_array();

    (void)json_array_append_new(limits, rlimit("RLIMIT_CORE", 0));
    if (spec->limits.open_files)
        (void)json_array_append_new(limits, rlimit("RLIMIT_NOFILE", spec->limits.open_files));
    return json_pack("{s:{s:i,s:i}, s:o, s:[s], s:s, s:b, s:o, s:{s:O,s:O,s:o}}", "user", "uid", 0,
                     "gid", 0, "args", agent_args(spec), "env",
                     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "cwd",
                     "/", "noNewPrivileges", 1, "rlimits", limits, "capabilities", "bounding", caps,
                     "effective", caps, "permitted", caps);
}

static json_t *mounts(void)
{
    return json_pack("[{s:s,s:s,s:s,s:[s,s,s]}, {s:s,s:s,s:s,s:[s,s,s,s]}, "
                     "{s:s,s:s,s:s,s:[s,s,s]}, {s:s,s:s,s:s,s:[s,s,s,s]}]",
                     "destination", "/proc", "type", "proc", "source", "proc", "options", "nosuid",
                     "nodev", "noexec", /**/
                     "destination", "/sys", "type", "sysfs", "source", "sysfs", "options", "ro",
                     "nosuid", "nodev", "noexec", /**/
                     "destination", "/dev/shm", "type", "tmpfs", "source", "tmpfs", "options",
                     "nosuid", "nodev", SHM_SIZE, /**/
                     "destination", "/.atoll/run", "type", "bind", "source", "socket", "options",
                     "rw", "nosuid", "nodev", "noexec");
}

static json_t *id_map(const struct atoll_spec *spec)
{
    return json_pack("[{s:i,s:I,s:I}]", "containerID", 0, "hostID", (json_int_t)spec->outside_id,
                     "size", (json_int_t)ATOLL_ID_RANGE);
}

static void add_namespaces(json_t *list, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_pack("{s:s}", "type", names[i]));
}

static json_t *linux_part(const struct atoll_spec *spec)
{
    json_t *list = json_array();

    add_namespaces(list, namespaces, ATOLL_ARRAY_LEN(namespaces));
    if (spec->network != ATOLL_NETWORK_NONE)
        return json_pack("{s:o}", "namespaces", list);
    add_namespaces(list, more_namespaces, ATOLL_ARRAY_LEN(more_namespaces));
    return json_pack("{s:o,s:o,s:o}", "namespaces", list, "uidMappings", id_map(spec),
                     "gidMappings", id_map(spec));
}

static int append(const char *bytes, size_t n, void *out)
{
    return atoll_buf_append(out, bytes, n) < 0 ? -1 : 0;
}

int atoll_gvisor_bundle(const struct atoll_spec *spec, struct atoll_buf *out,
                        struct atoll_error *err)
{
    json_t *config = json_pack("{s:s, s:o, s:{s:s,s:b}, s:s, s:o, s:o}", "ociVersion", "1.0.2",
                               "process", process(spec), "root", "path", "r", "readonly", 0,
                               "hostname", spec->id, "mounts", mounts(), "linux", linux_part(spec));
    int r = config ? json_dump_callback(config, append, out, JSON_COMPACT) : -1;

    json_decref(config);
    return r < 0 ? atoll_fail_errno(err, ENOMEM, "bundle") : 0;
}
