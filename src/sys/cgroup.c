#include "sys/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"

#define CPU_PERIOD_US 100000
#define MOUNTS_MAX_BYTES (256 * 1024)

/* v1 hierarchies we use; a sandbox can run without the optional ones. */
static const struct {
    const char *name;
    bool required;
} controllers[ATOLL_CG_COUNT] = {
    [ATOLL_CG_MEMORY] = {"memory", true},    [ATOLL_CG_CPU] = {"cpu", true},
    [ATOLL_CG_CPUACCT] = {"cpuacct", false}, [ATOLL_CG_PIDS] = {"pids", true},
    [ATOLL_CG_FREEZER] = {"freezer", false},
};

static bool word_in(const char *list, const char *word, const char *separators)
{
    size_t n = strlen(word);

    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
        if ((p == list || strchr(separators, p[-1])) && (!p[n] || strchr(separators, p[n])))
            return true;
    return false;
}

struct mount_points {
    char v1[ATOLL_CG_COUNT][128];
    char v2[128];
};

/* One line of /proc/self/mounts: device, directory, type, options. */
static void note_mount(struct mount_points *found, char *line)
{
    char *save = NULL;
    char *device = strtok_r(line, " ", &save);
    char *dir = device ? strtok_r(NULL, " ", &save) : NULL;
    char *type = dir ? strtok_r(NULL, " ", &save) : NULL;
    char *options = type ? strtok_r(NULL, " ", &save) : NULL;

    if (!options)
        return;
    if (strcmp(type, "cgroup2") == 0 && !*found->v2) {
        if (atoll_text_copy(found->v2, sizeof(found->v2), dir) < 0)
            *found->v2 = '\0';
    }
    for (size_t i = 0; strcmp(type, "cgroup") == 0 && i < ATOLL_CG_COUNT; i++)
        if (word_in(options, controllers[i].name, ",") && !*found->v1[i] &&
            atoll_text_copy(found->v1[i], sizeof(found->v1[i]), dir) < 0)
            *found->v1[i] = '\0';
}

static int find_mounts(struct mount_points *found)
{
    ATOLL_AUTOFREE char *text = malloc(MOUNTS_MAX_BYTES);
    char *save = NULL;
    int r;

    *found = (struct mount_points){0};
    if (!text)
        return -ENOMEM;
    r = atoll_fd_read_file(AT_FDCWD, "/proc/self/mounts", text, MOUNTS_MAX_BYTES);
    if (r < 0)
        return r;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        note_mount(found, line);
    return 0;
}

static bool v2_has_controllers(const char *dir)
{
    char path[160], list[256];

    (void)snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
    return *dir && atoll_fd_read_file(AT_FDCWD, path, list, sizeof(list)) > 0 &&
           word_in(list, "memory", " \n") && word_in(list, "pids", " \n") &&
           word_in(list, "cpu", " \n");
}

/* Opens mount/atoll-<instance>, making it first where asked. -ENOENT, -EACCES, -EROFS … */
static int open_parent(const char *mount, const char *instance, bool create)
{
    char path[224];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/atoll-%s", mount, instance);
    if (create && mkdir(path, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_v2(struct atoll_cgroups *cg, const char *mount, const char *instance, bool create)
{
    char path[160];
    int r;

    (void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", mount);
    if (create) {
        r = atoll_fd_write_file(AT_FDCWD, path, "+memory +cpu +pids");
        if (r < 0)
            return r;
    }
    r = open_parent(mount, instance, create);
    if (r < 0)
        return r;
    cg->parent_fd[0] = r;
    if (create) {
        r = atoll_fd_write_file(cg->parent_fd[0], "cgroup.subtree_control", "+memory +cpu +pids");
        if (r < 0)
            return r;
    }
    cg->version = 2;
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        cg->has[i] = true;
    return 0;
}

static int open_v1(struct atoll_cgroups *cg, const struct mount_points *found, const char *instance,
                   bool create)
{
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++) {
        int r = *found->v1[i] ? open_parent(found->v1[i], instance, create) : -ENOENT;
        if (r >= 0) {
            cg->parent_fd[i] = r;
            cg->has[i] = true;
        } else if (controllers[i].required) {
            return r;
        }
    }
    cg->version = 1;
    return 0;
}

int atoll_cgroups_open(struct atoll_cgroups *ret, const char *instance, bool create)
{
    struct mount_points found;
    int r;

    *ret = (struct atoll_cgroups){0};
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        ret->parent_fd[i] = ATOLL_NO_FD;
    r = find_mounts(&found);
    if (r < 0)
        return r;
    r = v2_has_controllers(found.v2) ? open_v2(ret, found.v2, instance, create)
                                     : open_v1(ret, &found, instance, create);
    if (r < 0) {
        /* A host that gives us no cgroups is a fact to report, not an error here. */
        atoll_cgroups_close(ret);
        *ret = (struct atoll_cgroups){0};
        for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
            ret->parent_fd[i] = ATOLL_NO_FD;
    }
    return 0;
}

void atoll_cgroups_close(struct atoll_cgroups *cg)
{
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        if (cg->parent_fd[i] >= 0)
            (void)close(ATOLL_TAKE_FD(cg->parent_fd[i]));
}

/* How many parents there are to walk: one on v2. */
static size_t hierarchies(const struct atoll_cgroups *cg)
{
    return cg->version == 2 ? 1 : cg->version == 1 ? ATOLL_CG_COUNT : 0;
}

int atoll_cgroups_remove_parents(const struct atoll_cgroups *cg, const char *instance)
{
    char name[64];
    int r = 0;

    (void)snprintf(name, sizeof(name), "../atoll-%s", instance);
    for (size_t i = 0; i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0 && unlinkat(cg->parent_fd[i], name, AT_REMOVEDIR) < 0 &&
            errno != ENOENT)
            r = -errno;
    return r;
}

static int parent_of(const struct atoll_cgroups *cg, enum atoll_cgroup_controller c)
{
    return cg->parent_fd[cg->version == 2 ? 0 : c];
}

static int write_knob(const struct atoll_cgroups *cg, enum atoll_cgroup_controller c,
                      const char *id, const char *knob, const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", id, knob);
    return atoll_fd_write_file(parent_of(cg, c), path, text);
}

static int set_memory_v1(const struct atoll_cgroups *cg, const char *id, const char *bytes,
                         bool raise)
{
    static const char *const knobs[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"};
    int r = 0;

    /* memory <= memory+swap must hold at every moment: the order depends on the direction. */
    for (size_t i = 0; r == 0 && i < 2; i++) {
        const char *knob = knobs[raise ? 1 - i : i];
        r = write_knob(cg, ATOLL_CG_MEMORY, id, knob, bytes);
        if (r == -ENOENT && strstr(knob, "memsw")) /* kernel without swap accounting */
            r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.swappiness", "0");
    }
    return r;
}

static int set_limits_v1(const struct atoll_cgroups *cg, const char *id,
                         const struct atoll_cgroup_limits *l, bool fresh)
{
    char text[32];
    int r = 0;

    if (l->memory_bytes || !fresh) {
        if (l->memory_bytes)
            (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)l->memory_bytes);
        r = set_memory_v1(cg, id, l->memory_bytes ? text : "-1", false);
        if (r < 0)
            r = set_memory_v1(cg, id, l->memory_bytes ? text : "-1", true);
    }
    if (r == 0 && (l->cpu_millis || !fresh)) {
        (void)snprintf(text, sizeof(text), "%lld",
                       l->cpu_millis ? (long long)l->cpu_millis * CPU_PERIOD_US / 1000 : -1);
        r = write_knob(cg, ATOLL_CG_CPU, id, "cpu.cfs_quota_us", text);
    }
    if (r == 0 && (l->pids || !fresh)) {
        (void)snprintf(text, sizeof(text), "%u", l->pids);
        r = write_knob(cg, ATOLL_CG_PIDS, id, "pids.max", l->pids ? text : "max");
    }
    return r;
}

static int set_limits_v2(const struct atoll_cgroups *cg, const char *id,
                         const struct atoll_cgroup_limits *l)
{
    char text[64];
    int r;

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)l->memory_bytes);
    r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.max", l->memory_bytes ? text : "max");
    if (r == 0 && l->memory_bytes) {
        r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.swap.max", "0");
        r = r == -ENOENT ? 0 : r;
    }
    (void)snprintf(text, sizeof(text), "%lld %d", (long long)l->cpu_millis * CPU_PERIOD_US / 1000,
                   CPU_PERIOD_US);
    if (r == 0)
        r = write_knob(cg, ATOLL_CG_CPU, id, "cpu.max", l->cpu_millis ? text : "max");
    (void)snprintf(text, sizeof(text), "%u", l->pids);
    if (r == 0)
        r = write_knob(cg, ATOLL_CG_PIDS, id, "pids.max", l->pids ? text : "max");
    return r;
}

int atoll_cgroup_set_limits(const struct atoll_cgroups *cg, const char *id,
                            const struct atoll_cgroup_limits *limits)
{
    return cg->version == 2 ? set_limits_v2(cg, id, limits) : set_limits_v1(cg, id, limits, false);
}

int atoll_cgroup_create(const struct atoll_cgroups *cg, const char *id,
                        const struct atoll_cgroup_limits *limits)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0 && mkdirat(cg->parent_fd[i], id, 0755) < 0)
            r = -errno;
    if (r == 0)
        r = cg->version == 2 ? set_limits_v2(cg, id, limits) : set_limits_v1(cg, id, limits, true);
    if (r < 0)
        (void)!atoll_cgroup_remove(cg, id);
    return r;
}

int atoll_cgroup_enter_v1(const struct atoll_cgroups *cg, const char *id)
{
    char path[64];
    int r = 0;

    (void)snprintf(path, sizeof(path), "%s/tasks", id);
    for (size_t i = 0; r == 0 && i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0)
            r = atoll_fd_write_file(cg->parent_fd[i], path, "0");
    return r;
}

static int open_below(const struct atoll_cgroups *cg, enum atoll_cgroup_controller c,
                      const char *id, const char *file, int flags)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", id, file);
    fd = openat(parent_of(cg, c), path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int atoll_cgroup_open_v2(const struct atoll_cgroups *cg, const char *id)
{
    return open_below(cg, ATOLL_CG_MEMORY, id, "", O_RDONLY | O_DIRECTORY);
}

int atoll_cgroup_open_oom(const struct atoll_cgroups *cg, const char *id)
{
    return open_below(cg, ATOLL_CG_MEMORY, id,
                      cg->version == 2 ? "memory.events" : "memory.oom_control", O_RDONLY);
}

int atoll_cgroup_open_peak(const struct atoll_cgroups *cg, const char *id)
{
    return open_below(cg, ATOLL_CG_MEMORY, id,
                      cg->version == 2 ? "memory.peak" : "memory.max_usage_in_bytes", O_RDONLY);
}

bool atoll_cgroups_can_freeze(const struct atoll_cgroups *cg)
{
    return cg->version > 0 && parent_of(cg, ATOLL_CG_FREEZER) >= 0;
}

int atoll_cgroup_freeze(const struct atoll_cgroups *cg, const char *id, bool frozen)
{
    int r;

    if (!atoll_cgroups_can_freeze(cg))
        return -EOPNOTSUPP;
    if (cg->version == 1)
        return write_knob(cg, ATOLL_CG_FREEZER, id, "freezer.state", frozen ? "FROZEN" : "THAWED");
    r = write_knob(cg, ATOLL_CG_FREEZER, id, "cgroup.freeze", frozen ? "1" : "0");
    /* The group is there but the knob is not: a kernel before 5.2. */
    return r == -ENOENT && faccessat(parent_of(cg, ATOLL_CG_FREEZER), id, F_OK, 0) == 0
               ? -EOPNOTSUPP
               : r;
}

int atoll_cgroup_is_frozen(const struct atoll_cgroups *cg, const char *id)
{
    char path[96], text[256];
    int r;

    if (!atoll_cgroups_can_freeze(cg))
        return -EOPNOTSUPP;
    (void)snprintf(path, sizeof(path), "%s/%s", id,
                   cg->version == 2 ? "cgroup.events" : "freezer.state");
    r = atoll_fd_read_file(parent_of(cg, ATOLL_CG_FREEZER), path, text, sizeof(text));
    if (r < 0)
        return r;
    return strstr(text, cg->version == 2 ? "frozen 1" : "FROZEN") != NULL;
}

int atoll_cgroup_kill(const struct atoll_cgroups *cg, const char *id)
{
    char list[16 * 1024], *save = NULL, path[64];
    int r;

    if (cg->version == 0)
        return 0;
    if (cg->version == 2 && write_knob(cg, ATOLL_CG_PIDS, id, "cgroup.kill", "1") == 0)
        return 0;
    /* On v1 a frozen process dies when it is thawed, and not before. */
    (void)!atoll_cgroup_freeze(cg, id, false);
    /* One page of pids a call; the caller repeats until the group is empty. */
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", id);
    r = atoll_fd_read_file(parent_of(cg, ATOLL_CG_PIDS), path, list, sizeof(list));
    if (r < 0 && r != -EFBIG)
        return r == -ENOENT ? 0 : r;
    list[sizeof(list) - 1] = '\0';
    for (char *p = strtok_r(list, "\n", &save); p; p = strtok_r(NULL, "\n", &save)) {
        uint64_t pid;
        if (atoll_text_u64(p, 2, INT32_MAX, &pid) == 0)
            (void)kill((pid_t)pid, SIGKILL);
    }
    return 0;
}

int atoll_cgroup_remove(const struct atoll_cgroups *cg, const char *id)
{
    int r = 0;

    for (size_t i = 0; i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0 && unlinkat(cg->parent_fd[i], id, AT_REMOVEDIR) < 0 &&
            errno != ENOENT)
            r = -errno;
    return r;
}

int atoll_cgroups_each(const struct atoll_cgroups *cg, void (*fn)(void *arg, const char *id),
                       void *arg)
{
    struct dirent *entry;
    DIR *dir;
    int fd;

    if (cg->version == 0)
        return 0;
    fd = openat(cg->parent_fd[0], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_type == DT_DIR && atoll_text_is_id(entry->d_name))
            fn(arg, entry->d_name);
    (void)closedir(dir);
    return 0;
}
