/*
 * Other ways to run a command on this host, each started as its documentation recommends, with the
 * host's /usr as its root: a plain process, bwrap, and runc and runsc from one OCI bundle.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tools/bench/bench.h"

static const struct {
    const char *name, *target;
} links[] = {{"bin", "usr/bin"}, {"sbin", "usr/sbin"}, {"lib", "usr/lib"}, {"lib64", "usr/lib64"}};

const char *atoll_bench_root(struct atoll_bench *b, struct atoll_error *err)
{
    static const char *const directories[] = {"", "/usr", "/proc", "/dev", "/tmp"};
    char path[600];

    if (*b->root)
        return b->root;
    (void)snprintf(b->root, sizeof(b->root), "%s/rootfs", b->scratch);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(directories); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", b->root, directories[i]);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            goto failed;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(links); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", b->root, links[i].name);
        if (symlink(links[i].target, path) < 0 && errno != EEXIST)
            goto failed;
    }
    return b->root;
failed:
    (void)atoll_fail_errno(err, errno, "%s", path);
    *b->root = '\0';
    return NULL;
}

/* bwrap, and a plain process. */

static void enter_command(struct atoll_bench *b, int measure, const char *tier, const char *name,
                          char *const *argv)
{
    struct atoll_bench_subject *s = atoll_bench_enter(b, measure, tier, name);

    if (!s)
        return;
    for (size_t i = 0; argv[i] && i + 1 < ATOLL_ARRAY_LEN(s->argv); i++)
        s->argv[i] = argv[i];
    s->round = measure == ATOLL_BENCH_RATE ? atoll_bench_rate_round : atoll_bench_timed_command;
}

static void enter_simple(struct atoll_bench *b)
{
    char *plain[] = {"/usr/bin/true", NULL};
    char *python[] = {"/usr/bin/python3", "-c", "1+1", NULL};
    char *bwrap[] = {"bwrap",     "--unshare-all", "--ro-bind",     "/usr", "/usr",
                     "--proc",    "/proc",         "--dev",         "/dev", "--tmpfs",
                     "/tmp",      "--symlink",     "usr/lib",       "/lib", "--symlink",
                     "usr/lib64", "/lib64",        "/usr/bin/true", NULL};

    enter_command(b, ATOLL_BENCH_START, ATOLL_TIER_NONE, "a plain process", plain);
    enter_command(b, ATOLL_BENCH_EXEC, ATOLL_TIER_NONE, "a plain process", plain);
    enter_command(b, ATOLL_BENCH_CODE, ATOLL_TIER_NONE, "a new python3", python);
    enter_command(b, ATOLL_BENCH_START, ATOLL_TIER_NAMESPACES, "bwrap", bwrap);
    enter_command(b, ATOLL_BENCH_RATE, ATOLL_TIER_NAMESPACES, "bwrap", bwrap);
}

/* OCI: runc and runsc. */

static json_t *mount_of(const char *where, const char *type, const char *source, json_t *options)
{
    return json_pack("{s:s,s:s,s:s,s:o}", "destination", where, "type", type, "source", source,
                     "options", options);
}

static json_t *bundle_config(const char *root, bool stays)
{
    json_t *mounts =
        json_pack("[o,o,o,o]", mount_of("/usr", "bind", "/usr", json_pack("[s,s]", "rbind", "ro")),
                  mount_of("/proc", "proc", "proc", json_array()),
                  mount_of("/dev", "tmpfs", "tmpfs", json_pack("[s,s]", "nosuid", "mode=755")),
                  mount_of("/tmp", "tmpfs", "tmpfs", json_pack("[s,s]", "nosuid", "nodev")));
    json_t *spaces = json_pack("[{s:s},{s:s},{s:s},{s:s},{s:s}]", "type", "pid", "type", "network",
                               "type", "ipc", "type", "uts", "type", "mount");
    json_t *args = stays ? json_pack("[s,s]", "/usr/bin/sleep", "infinity")
                         : json_pack("[s]", "/usr/bin/true");

    return json_pack(
        "{s:s, s:{s:{s:i,s:i},s:o,s:[s],s:s,s:b}, s:{s:s,s:b}, s:o, s:{s:o,s:{s:{s:i},s:{s:i}}}}",
        "ociVersion", "1.0.2", "process", "user", "uid", 0, "gid", 0, "args", args, "env",
        "PATH=/usr/bin", "cwd", "/", "noNewPrivileges", 1, "root", "path", root, "readonly", 1,
        "mounts", mounts, "linux", "namespaces", spaces, "resources", "memory", "limit", 256 << 20,
        "pids", "limit", 256);
}

/* Makes the bundle b->scratch/<runtime>-<true|stay> with its config. */
static int make_bundle(struct atoll_bench *b, const char *runtime, bool stays, char *path,
                       size_t size, struct atoll_error *err)
{
    const char *root = atoll_bench_root(b, err);
    ATOLL_AUTOJSON json_t *config = NULL;
    char file[700];

    if (!root)
        return -err->errnum;
    (void)snprintf(path, size, "%s/%s-%s", b->scratch, runtime, stays ? "stay" : "true");
    (void)snprintf(file, sizeof(file), "%s/config.json", path);
    config = bundle_config(root, stays);
    if ((mkdir(path, 0755) < 0 && errno != EEXIST) || !config ||
        json_dump_file(config, file, 0) < 0)
        return atoll_fail_errno(err, errno, "%s", file);
    return 0;
}

/* Appends the program and its global options to argv; returns their number. */
static size_t runtime_words(struct atoll_bench *b, const char *runtime, char **argv)
{
    static char state[700];
    size_t n = 0;

    (void)snprintf(state, sizeof(state), "%s/oci", b->scratch);
    argv[n++] = (char *)(uintptr_t)runtime;
    argv[n++] = "--root";
    argv[n++] = state;
    if (strcmp(runtime, "runsc") == 0) {
        argv[n++] = "--network=none";
        argv[n++] = "--ignore-cgroups";
    }
    return n;
}

static int oci_open(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err)
{
    bool stays = s->measure == &atoll_bench_measures[ATOLL_BENCH_EXEC];
    static char bundles[4][700];
    static size_t used;
    char *bundle = bundles[used++ % ATOLL_ARRAY_LEN(bundles)];
    char *start[16] = {0};
    size_t n = runtime_words(b, s->name, start);
    int r = make_bundle(b, s->name, stays, bundle, sizeof(bundles[0]), err);

    if (r < 0)
        return r;
    (void)snprintf(s->id, sizeof(s->id), "atoll-bench-%s-%d", s->name, (int)getpid());
    start[n++] = "run";
    if (stays)
        start[n++] = "--detach";
    start[n++] = "--bundle";
    start[n++] = bundle;
    start[n++] = s->id;
    if (!stays) {
        memcpy(s->argv, start, sizeof(start));
        return 0;
    }
    n = runtime_words(b, s->name, s->argv);
    s->argv[n++] = "exec";
    s->argv[n++] = s->id;
    s->argv[n++] = "/usr/bin/true";
    return atoll_bench_command(start, err);
}

static void oci_close(struct atoll_bench *b, struct atoll_bench_subject *s)
{
    char *argv[16] = {0};
    size_t n = runtime_words(b, s->name, argv);
    struct atoll_error err;

    if (!*s->id)
        return;
    argv[n++] = "delete";
    argv[n++] = "--force";
    argv[n++] = s->id;
    (void)!atoll_bench_command(argv, &err);
}

void atoll_bench_enter_others(struct atoll_bench *b)
{
    static const struct {
        const char *name, *tier;
    } runtimes[] = {{"runc", ATOLL_TIER_CONTAINER}, {"runsc", ATOLL_TIER_KERNEL}};

    enter_simple(b);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(runtimes); i++)
        for (int measure = ATOLL_BENCH_START; measure <= ATOLL_BENCH_EXEC; measure++) {
            struct atoll_bench_subject *s =
                atoll_bench_enter(b, measure, runtimes[i].tier, runtimes[i].name);
            if (!s)
                continue;
            s->open = oci_open;
            s->round = atoll_bench_timed_command;
            s->close = oci_close;
        }
}
