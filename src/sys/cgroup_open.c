/*
 * Finds where the groups of an instance go: which hierarchies are mounted, and on v2 below which
 * group.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "sys/cgroup_internal.h"

#define PROC_FILE_MAX (256 * 1024)
#define DIR_CAP 384 /* of a base; atoll_cgroups.path has room for a base and the parent's name */
#define BASES_MAX 3
#define MOVE_ROUNDS 50

/* Controller names, the same in v1 and v2 except for the last, which is of v2. The first three and the
 * last limit; v2 has the functions of the other two without a controller. A base without the last is as
 * good as one with it. */
static const char *const controllers[ATOLL_CG_COUNT] = {
    [ATOLL_CG_MEMORY] = "memory",   [ATOLL_CG_CPU] = "cpu",         [ATOLL_CG_PIDS] = "pids",
    [ATOLL_CG_CPUACCT] = "cpuacct", [ATOLL_CG_FREEZER] = "freezer", [ATOLL_CG_IO] = "io",
};
static const enum atoll_cgroup_controller limiting[] = {ATOLL_CG_MEMORY, ATOLL_CG_CPU,
                                                        ATOLL_CG_PIDS};

static bool word_in(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ", \n");
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p += len + (p[len] != '\0');
    }
    return false;
}

struct mount_points {
    char v1[ATOLL_CG_COUNT][DIR_CAP];
    char common[ATOLL_CG_COMMON_COUNT][DIR_CAP];
    char v2[DIR_CAP];
    char v2_root[DIR_CAP]; /* the group at v2's mount point, as seen from our cgroup namespace */
};

static void copy_or_clear(char *out, const char *text)
{
    if (atoll_text_copy(out, DIR_CAP, text) < 0)
        *out = '\0';
}

/* One line of /proc/self/mountinfo: id, parent, device, root, directory, options, more options,
 * "-", type, source, options of the file system. A later mount on the same directory hides the
 * earlier one. */
static void note_mount(struct mount_points *found, char *line)
{
    char *save = NULL, *fields[5], *type, *options;
    char *rest = strstr(line, " - ");

    if (!rest)
        return;
    *rest = '\0';
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++) {
        fields[i] = strtok_r(i ? NULL : line, " ", &save);
        if (!fields[i])
            return;
    }
    type = strtok_r(rest + 3, " ", &save);
    options = type && strtok_r(NULL, " ", &save) ? strtok_r(NULL, " ", &save) : NULL;
    if (!options)
        return;
    if (strcmp(type, "cgroup2") == 0 && (!*found->v2 || strcmp(found->v2, fields[4]) == 0)) {
        copy_or_clear(found->v2, fields[4]);
        copy_or_clear(found->v2_root, fields[3]);
    }
    for (size_t i = 0; strcmp(type, "cgroup") == 0 && i < ATOLL_CG_COUNT; i++)
        if (word_in(options, controllers[i]) && !*found->v1[i])
            copy_or_clear(found->v1[i], fields[4]);
    for (size_t i = 0; strcmp(type, "cgroup") == 0 && i < ATOLL_CG_COMMON_COUNT; i++)
        if (word_in(options, atoll_cgroup_common_name(i)) && !*found->common[i])
            copy_or_clear(found->common[i], fields[4]);
}

static int find_mounts(struct mount_points *found)
{
    ATOLL_AUTOFREE char *text = malloc(PROC_FILE_MAX);
    char *save = NULL;
    int r;

    *found = (struct mount_points){0};
    if (!text)
        return -ENOMEM;
    r = atoll_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", text, PROC_FILE_MAX);
    if (r < 0)
        return r;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        note_mount(found, line);
    return 0;
}

/* The kernel attaches each controller to v1 or v2, not to both. */
static bool prefers_v1(const struct mount_points *found)
{
    return !*found->v2 || *found->v1[ATOLL_CG_MEMORY];
}

/* The directory of the group we are in; "" if it is not below the mount point. */
static void own_group(const struct mount_points *found, char out[static DIR_CAP])
{
    char text[2048], *own;
    size_t skip = strlen(found->v2_root);

    *out = '\0';
    if (atoll_fd_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0)
        return;
    own = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (!own)
        return;
    own += *own == '\n' ? 4 : 3;
    own[strcspn(own, "\n")] = '\0';
    skip = skip == 1 ? 0 : skip; /* "/" */
    if (strstr(own, "/..") || strstr(found->v2_root, "/..") ||
        strncmp(own, found->v2_root, skip) != 0 || (own[skip] != '/' && own[skip] != '\0'))
        return;
    own += skip;
    if ((size_t)snprintf(out, DIR_CAP, "%s%s", found->v2, strcmp(own, "/") ? own : "") >= DIR_CAP)
        *out = '\0';
}

static bool exists(const char *dir, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

struct bases {
    char dir[BASES_MAX][DIR_CAP];
    size_t count;
};

/* The groups that can contain the v2 parent, in the order of atoll_cgroups_make(). */
static void find_bases(const struct mount_points *found, struct bases *ret)
{
    char own[DIR_CAP], *last;

    ret->count = 0;
    own_group(found, own);
    last = strrchr(own, '/');
    if (last && strcmp(last + 1, ATOLL_CGROUP_LEAF) == 0) {
        *last = '\0';
        (void)memcpy(ret->dir[ret->count++], own, DIR_CAP);
        *own = '\0';
    }
    /* Every group except the root has a cgroup.type. */
    if (!exists(found->v2, "cgroup.type"))
        (void)memcpy(ret->dir[ret->count++], found->v2, DIR_CAP);
    if (*own && (ret->count == 0 || strcmp(own, found->v2) != 0))
        (void)memcpy(ret->dir[ret->count++], own, DIR_CAP);
}

/* Reads which limiting controllers a base offers. False if it offers none. */
static bool read_controllers(const char *base, bool has[static ATOLL_CG_COUNT])
{
    char path[PATH_MAX], list[256];
    bool any = false;

    memset(has, 0, ATOLL_CG_COUNT * sizeof(has[0]));
    (void)snprintf(path, sizeof(path), "%s/cgroup.controllers", base);
    if (atoll_fd_read_file(AT_FDCWD, path, list, sizeof(list)) < 0)
        return false;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limiting); i++)
        any |= has[limiting[i]] = word_in(list, controllers[limiting[i]]);
    has[ATOLL_CG_IO] = word_in(list, controllers[ATOLL_CG_IO]);
    return any;
}

/* Moves the processes of the group `base` into its leaf. They may fork meanwhile, so the caller
 * repeats the call. */
static int empty_base(int base)
{
    char list[16 * 1024], *save = NULL, *last;
    int r;

    if (mkdirat(base, ATOLL_CGROUP_LEAF, 0755) < 0 && errno != EEXIST)
        return -errno;
    r = atoll_fd_read_file(base, "cgroup.procs", list, sizeof(list));
    if (r < 0 && r != -EFBIG)
        return r;
    list[sizeof(list) - 1] = '\0';
    /* Text after the last newline is a truncated pid, which would name another process. */
    last = strrchr(list, '\n');
    if (!last)
        return 0;
    *last = '\0';
    for (char *pid = strtok_r(list, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
        r = atoll_fd_write_file(base, ATOLL_CGROUP_LEAF "/cgroup.procs", pid);
        if (r < 0 && r != -ESRCH)
            return r;
    }
    return 0;
}

static int enable(int dir, enum atoll_cgroup_controller c)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "+%s", controllers[c]);
    return atoll_fd_write_file(dir, "cgroup.subtree_control", text);
}

static int enable_in_base(int base, enum atoll_cgroup_controller c)
{
    int r = enable(base, c);

    for (int round = 0; r == -EBUSY && round < MOVE_ROUNDS; round++) {
        r = empty_base(base);
        if (r == 0)
            r = enable(base, c);
    }
    return r;
}

/* Creates the parent below one base. On failure nothing of it remains. */
static int make_below(struct atoll_cgroups *cg, const char *base_dir, const char *instance)
{
    ATOLL_AUTOCLOSE int base = open(base_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int parent = ATOLL_NO_FD;
    char name[64];
    int r = base < 0 ? -errno : -EOPNOTSUPP;
    bool any = false;

    if (base < 0 || !read_controllers(base_dir, cg->has))
        return r;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limiting); i++) {
        bool *has = &cg->has[limiting[i]];
        if (*has)
            any |= *has = (r = enable_in_base(base, limiting[i])) == 0;
    }
    if (!any)
        return r;
    if (cg->has[ATOLL_CG_IO])
        cg->has[ATOLL_CG_IO] = enable_in_base(base, ATOLL_CG_IO) == 0;
    (void)snprintf(name, sizeof(name), "atoll-%s", instance);
    if (mkdirat(base, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    parent = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = parent < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(limiting); i++)
        if (cg->has[limiting[i]])
            r = enable(parent, limiting[i]);
    if (r == 0 && cg->has[ATOLL_CG_IO])
        cg->has[ATOLL_CG_IO] = enable(parent, ATOLL_CG_IO) == 0;
    if (r < 0) {
        (void)unlinkat(base, name, AT_REMOVEDIR);
        return r;
    }
    (void)snprintf(cg->path, sizeof(cg->path), "%s/%s", base_dir, name);
    cg->parent_fd[0] = ATOLL_TAKE_FD(parent);
    return 0;
}

/* Every v2 group has these. */
static void note_v2(int *version, bool has[static ATOLL_CG_COUNT])
{
    *version = 2;
    has[ATOLL_CG_CPUACCT] = has[ATOLL_CG_FREEZER] = true;
}

static int make_v2(struct atoll_cgroups *cg, const struct mount_points *found, const char *instance)
{
    struct bases bases;
    int r = -ENOENT;

    find_bases(found, &bases);
    for (size_t i = 0; r < 0 && i < bases.count; i++)
        r = make_below(cg, bases.dir[i], instance);
    if (r == 0)
        note_v2(&cg->version, cg->has);
    return r;
}

static int open_v2(struct atoll_cgroups *cg, const struct mount_points *found, const char *instance,
                   const char *path)
{
    struct bases bases;

    find_bases(found, &bases);
    for (size_t i = 0; cg->parent_fd[0] < 0 && i < bases.count + 1; i++) {
        if (i == 0)
            copy_or_clear(cg->path, path);
        else
            (void)snprintf(cg->path, sizeof(cg->path), "%s/atoll-%s", bases.dir[i - 1], instance);
        if (*cg->path)
            cg->parent_fd[0] = open(cg->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (cg->parent_fd[0] < 0)
        return -ENOENT;
    note_v2(&cg->version, cg->has);
    return 0;
}

static int open_v1(struct atoll_cgroups *cg, const struct mount_points *found, const char *instance,
                   bool create)
{
    char path[DIR_CAP + 64];

    for (size_t i = 0; i < ATOLL_CG_COUNT; i++) {
        if (!*found->v1[i])
            continue;
        (void)snprintf(path, sizeof(path), "%s/atoll-%s", found->v1[i], instance);
        if (create && mkdir(path, 0755) < 0 && errno != EEXIST)
            continue;
        cg->parent_fd[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cg->has[i] = cg->parent_fd[i] >= 0;
    }
    /* No real limit, but it switches the kernel's socket accounting on once. Otherwise the kernel
     * patches its code (static keys) when the first sandbox sets a limit and again when the last
     * one is gone, and that cost would fall on a sandbox. */
    if (create && cg->has[ATOLL_CG_MEMORY])
        (void)!atoll_fd_write_file(cg->parent_fd[ATOLL_CG_MEMORY], ATOLL_CGROUP_SOCKETS_V1, "-1");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limiting); i++)
        if (cg->has[limiting[i]])
            cg->version = 1;
    for (size_t i = 0; create && cg->version == 1 && i < ATOLL_CG_COMMON_COUNT; i++)
        if (*found->common[i])
            cg->common_fd[i] = atoll_cgroup_open_common(found->common[i], instance, i);
    cg->has[ATOLL_CG_IO] = cg->common_fd[ATOLL_CG_BLKIO] >= 0 &&
                           atoll_cgroup_io_is_usable(found->common[ATOLL_CG_BLKIO]);
    return cg->version ? 0 : -ENOENT;
}

static void clear(struct atoll_cgroups *cg)
{
    *cg = (struct atoll_cgroups){0};
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        cg->parent_fd[i] = ATOLL_NO_FD;
    for (size_t i = 0; i < ATOLL_CG_COMMON_COUNT; i++)
        cg->common_fd[i] = ATOLL_NO_FD;
}

/* A host without cgroups for us is reported as version 0; it is not an error here. */
static int none_is_fine(struct atoll_cgroups *cg, int r)
{
    if (r < 0) {
        atoll_cgroups_close(cg);
        clear(cg);
    }
    return 0;
}

int atoll_cgroups_make(struct atoll_cgroups *ret, const char *instance)
{
    struct mount_points found;
    int r = find_mounts(&found);

    clear(ret);
    if (r < 0)
        return r;
    return none_is_fine(ret, prefers_v1(&found) ? open_v1(ret, &found, instance, true)
                                                : make_v2(ret, &found, instance));
}

int atoll_cgroups_open(struct atoll_cgroups *ret, const char *instance, const char *path)
{
    struct mount_points found;
    int r = find_mounts(&found);

    clear(ret);
    if (r < 0)
        return r;
    return none_is_fine(ret, prefers_v1(&found) ? open_v1(ret, &found, instance, false)
                                                : open_v2(ret, &found, instance, path));
}

void atoll_cgroups_close(struct atoll_cgroups *cg)
{
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        if (cg->parent_fd[i] >= 0)
            (void)close(ATOLL_TAKE_FD(cg->parent_fd[i]));
    for (size_t i = 0; i < ATOLL_CG_COMMON_COUNT; i++)
        if (cg->common_fd[i] >= 0)
            (void)close(ATOLL_TAKE_FD(cg->common_fd[i]));
}

static bool may_write(const char *dir, const char *name, int how)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return faccessat(AT_FDCWD, path, how, AT_EACCESS) == 0;
}

static void look_at_v2(struct atoll_cgroups_facts *facts, const struct mount_points *found)
{
    struct bases bases;

    find_bases(found, &bases);
    for (size_t i = 0; i < bases.count; i++) {
        const char *base = bases.dir[i];
        if (!read_controllers(base, facts->has) || !may_write(base, ".", W_OK | X_OK) ||
            !may_write(base, "cgroup.subtree_control", W_OK) ||
            !may_write(base, "cgroup.procs", W_OK))
            continue;
        note_v2(&facts->version, facts->has);
        (void)snprintf(facts->below, sizeof(facts->below), "%s", base);
        return;
    }
    memset(facts->has, 0, sizeof(facts->has));
}

int atoll_cgroups_look(struct atoll_cgroups_facts *ret)
{
    struct mount_points found;
    int r;

    *ret = (struct atoll_cgroups_facts){0};
    r = find_mounts(&found);
    if (r < 0)
        return r;
    ret->v2 = *found.v2;
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        ret->v1 |= *found.v1[i] != '\0';
    if (!prefers_v1(&found)) {
        look_at_v2(ret, &found);
        return 0;
    }
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        ret->has[i] = *found.v1[i] && may_write(found.v1[i], ".", W_OK | X_OK);
    ret->has[ATOLL_CG_IO] =
        *found.common[ATOLL_CG_BLKIO] && atoll_cgroup_io_is_usable(found.common[ATOLL_CG_BLKIO]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limiting); i++)
        if (ret->has[limiting[i]])
            ret->version = 1;
    return 0;
}
