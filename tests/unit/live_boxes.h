#pragma once
#include <dirent.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include "agent_client.h"
#include "live_spawn.h"
#include "sandbox/plan_builder.h"
#include "sandbox/stack.h"

/*
 * Layers on disk, and sandboxes of a real atoll-spawn (live_spawn.h) with their agents.
 */

#define BASE "base"
#define BUSYBOX "/bin/busybox"

/* --- layers on disk --- */

static inline uint32_t owner(const struct fixture *f)
{
    return f->rootless ? geteuid() : ATOLL_LAYER_BASE;
}

static inline const char *path_of(const struct fixture *f, const char *layer, const char *path)
{
    static char out[400];
    struct ucred spawn = {0};
    socklen_t len = sizeof(spawn);

    /* As atoll-spawn sees it: the disk pool is mounted for it only. */
    if (!f->rootless && getsockopt(f->channel.fd, SOL_SOCKET, SO_PEERCRED, &spawn, &len) == 0)
        (void)snprintf(out, sizeof(out), "/proc/%d/root/state/layers/%s/%s", (int)spawn.pid, layer,
                       path);
    else
        (void)snprintf(out, sizeof(out), "%s/layers/%s/%s", f->state, layer, path);
    return out;
}

static inline void put_directory(const struct fixture *f, const char *layer, const char *path)
{
    const char *full = path_of(f, layer, path);

    assert_int_equal(mkdir(full, 0755), 0);
    assert_int_equal(lchown(full, owner(f), owner(f)), 0);
}

static inline void put_file(const struct fixture *f, const char *layer, const char *path,
                            const char *text)
{
    const char *full = path_of(f, layer, path);
    int fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

    assert_true(fd >= 0);
    assert_int_equal(atoll_fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchown(fd, owner(f), owner(f)), 0);
    (void)close(fd);
}

static inline void put_whiteout(const struct fixture *f, const char *layer, const char *path)
{
    assert_int_equal(mknod(path_of(f, layer, path), S_IFCHR, makedev(0, 0)), 0);
}

static inline void put_opaque(const struct fixture *f, const char *layer, const char *path)
{
    put_directory(f, layer, path);
    assert_int_equal(setxattr(path_of(f, layer, path), "user.overlay.opaque", "y", 1, 0), 0);
}

static inline bool has(const struct fixture *f, const char *layer, const char *path)
{
    struct stat st;
    return lstat(path_of(f, layer, path), &st) == 0;
}

/* A layer with a shell; once. */
static inline void put_base(const struct fixture *f)
{
    static const char *const names[] = {"sh",    "ls",    "cat",   "mknod", "mkdir", "rm",   "id",
                                        "touch", "chown", "chmod", "find",  "stat",  "mv",   "sort",
                                        "echo",  "test",  "wc",    "mount", "grep",  "sleep"};
    static const char *const directories[] = {"", "bin", "etc", "d", "d/sub", "usr", "usr/bin"};
    char command[512];

    if (has(f, BASE, ""))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(directories); i++)
        put_directory(f, BASE, directories[i]);
    (void)snprintf(command, sizeof(command), "cp " BUSYBOX " %s", path_of(f, BASE, "bin/busybox"));
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        char link[32];

        (void)snprintf(link, sizeof(link), "bin/%s", names[i]);
        assert_int_equal(symlink("busybox", path_of(f, BASE, link)), 0);
    }
    put_file(f, BASE, "etc/passwd", "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n");
    put_file(f, BASE, "top", "base");
    put_file(f, BASE, "d/low", "low");
    put_file(f, BASE, "d/sub/low", "low");
}

/* --- sandboxes --- */

struct box {
    struct atoll_spec spec;
    struct agent_client c;
    struct answer made;
};

static inline struct atoll_spec spec_of(const struct fixture *f, enum atoll_builder builder,
                                        const char *layers)
{
    struct atoll_spec spec = {.limits = {.memory_bytes = UINT64_C(256) << 20,
                                         .cpu_millis = 1000,
                                         .pids = 64,
                                         .disk_bytes = UINT64_C(64) << 20,
                                         .inodes = 10000,
                                         .open_files = 256},
                              .waived = ATOLL_LIMIT_ALL,
                              .template_kind = layers ? ATOLL_TEMPLATE_ROOTFS : ATOLL_TEMPLATE_HOST,
                              .layers = layers,
                              .layer_base = ATOLL_LAYER_BASE,
                              .builder = builder,
                              .tenant = "me",
                              .outside_id = builder       ? ATOLL_LAYER_BASE
                                            : f->rootless ? 0
                                                          : f->info.id_bases[0]};

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

static inline struct answer try_box(struct fixture *f, const struct atoll_spec *spec)
{
    const struct atoll_plan_host host = {.root = !f->rootless,
                                         .cgroup_version = (int)f->info.cgroup_version,
                                         .hides = f->info.hides,
                                         .stacks = f->info.stacks};
    struct atoll_error err = {0};
    struct atoll_buf plan;
    struct answer a = {0};

    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    if (atoll_plan_build(&host, spec, &f->seccomp, &plan, &err) < 0)
        a.error = err;
    else
        a = ask_create(f, spec->id, &plan);
    atoll_buf_done(&plan);
    return a;
}

static inline void open_box(struct fixture *f, struct box *b, const struct atoll_spec *spec)
{
    b->spec = *spec;
    b->made = try_box(f, spec);
    if (!b->made.ok)
        fail_msg("create: %s", b->made.error.text);
    b->c = (struct agent_client){.acks = true, .ch.fd = ATOLL_NO_FD};
    b->c.frames = calloc(CLIENT_FRAMES_MAX, sizeof(*b->c.frames));
    (void)snprintf(b->c.path, sizeof(b->c.path), "%.32s/sandboxes/%s.sock", f->state, spec->id);
    (void)client_connect(&b->c);
}

static inline void close_box(struct fixture *f, struct box *b)
{
    struct atoll_sm_remove ref = {.id = b->spec.id};

    client_drop(&b->c);
    free(b->c.frames);
    assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &ref).ok);
}

/* Runs a script as root inside, or as the only user that there is. */
static inline void expect(const struct fixture *f, struct box *b, const char *script,
                          const char *output)
{
    struct atoll_am_exec_start msg = client_command(7, CLIENT_ARGV("/bin/sh", "-c", script));
    struct run_result r;

    msg.user = f->rootless ? "" : "root";
    msg.cwd = "/";
    client_run(&b->c, &msg, &r);
    if (strcmp(atoll_buf_str(&r.out), output) != 0)
        fail_msg("%s: \"%s\" (\"%s\") instead of \"%s\"", script, atoll_buf_str(&r.out),
                 atoll_buf_str(&r.err), output);
    run_result_done(&r);
}

static inline struct answer commit(struct fixture *f, const struct box *b, const char *path,
                                   const char *layer)
{
    struct atoll_sm_commit msg = {b->spec.id, path, layer};
    return ask(f, ATOLL_SPAWN_COMMIT, &atoll_sm_commit_desc, &msg);
}

static inline void drop_layer(struct fixture *f, const char *layer)
{
    struct atoll_sm_ref ref = {.id = layer};
    assert_true(ask(f, ATOLL_SPAWN_DROP_LAYER, &atoll_sm_ref_desc, &ref).ok);
}

/* All paths of a layer, sorted, one on a line. */
static inline void list_layer(const struct fixture *f, const char *layer, char *out, size_t cap)
{
    char command[512];
    FILE *in;

    (void)snprintf(command, sizeof(command), "cd %s && find . -mindepth 1 | LC_ALL=C sort",
                   path_of(f, layer, ""));
    in = popen(command, "r");
    assert_non_null(in);
    out[fread(out, 1, cap - 1, in)] = '\0';
    assert_int_equal(pclose(in), 0);
}

static inline void expect_layer(const struct fixture *f, const char *layer, const char *wanted)
{
    char got[4096];

    list_layer(f, layer, got, sizeof(got));
    assert_string_equal(got, wanted);
}
