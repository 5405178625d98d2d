/*
 * cgroups of the floor, v1 and v2. On v1 the child writes "0" to `tasks` itself: moving another
 * process by pid takes the kernel's global threadgroup lock and waits for an RCU grace period, some
 * 18 ms where moving oneself costs microseconds. On v2 clone3 places the child at birth.
 */
#include "floor_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char *const v1_controllers[FLOOR_CGROUPS_MAX] = {"memory", "cpu", "cpuacct", "pids",
                                                              "freezer"};

static const struct limit {
    const char *controller;
    const char *v1_file, *v1_value;
    const char *v2_file, *v2_value;
} limits[FLOOR_LIMITS_MAX] = {
    {"memory", "memory.limit_in_bytes", "268435456", "memory.max", "268435456"},
    {"pids", "pids.max", "256", "pids.max", "256"},
    {"cpu", "cpu.cfs_quota_us", "100000", "cpu.max", "100000 100000"},
};

static int write_text(int dir_fd, const char *path, const char *text)
{
    ATOLL_AUTOCLOSE int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static void round_path(const struct atoll_floor_cgroup *cg, size_t i, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/%u", cg->parent[i], cg->round);
}

static int add_parent(struct atoll_floor_cgroup *cg, const char *mount_dir, struct atoll_error *err)
{
    char *path = cg->parent[cg->count];
    int n = snprintf(path, sizeof(cg->parent[0]), "%s/atoll-bench-floor-%d", mount_dir, getpid());
    if (n < 0 || (size_t)n >= sizeof(cg->parent[0]))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, ENAMETOOLONG, "cgroup mount %s", mount_dir);
    if (mkdir(path, 0755) < 0)
        return atoll_fail_errno(err, errno, "mkdir %s", path);
    cg->count++;
    return 0;
}

/* Where `controller` is mounted on v1 (NULL: the v2 hierarchy); false when nowhere. */
static bool find_mount(const char *controller, char *dir, size_t size)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent *m;
    bool found = false;
    while (mounts && !found && (m = getmntent(mounts))) {
        found = controller ? strcmp(m->mnt_type, "cgroup") == 0 && hasmntopt(m, controller)
                           : strcmp(m->mnt_type, "cgroup2") == 0;
        if (found)
            found = snprintf(dir, size, "%s", m->mnt_dir) < (int)size;
    }
    if (mounts)
        (void)endmntent(mounts);
    return found;
}

static int open_v1(struct atoll_floor_cgroup *cg, struct atoll_error *err)
{
    char seen[FLOOR_CGROUPS_MAX][PATH_MAX / 8];

    for (size_t c = 0; c < ATOLL_ARRAY_LEN(v1_controllers); c++) {
        char *dir = seen[cg->count];
        if (!find_mount(v1_controllers[c], dir, sizeof(seen[0])))
            continue;
        bool known = false; /* cpu and cpuacct often share one hierarchy */
        for (size_t i = 0; i < cg->count; i++)
            known = known || strcmp(seen[i], dir) == 0;
        if (known)
            continue;
        int r = add_parent(cg, dir, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int open_v2(struct atoll_floor_cgroup *cg, struct atoll_error *err)
{
    char dir[PATH_MAX / 8];
    cg->v2 = true;
    if (!find_mount(NULL, dir, sizeof(dir)))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "no cgroup hierarchy mounted");
    int r = add_parent(cg, dir, err);
    for (size_t i = 0; r >= 0 && i < ATOLL_ARRAY_LEN(limits); i++) {
        char enable[32], path[PATH_MAX / 2];
        (void)snprintf(enable, sizeof(enable), "+%s", limits[i].controller);
        (void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", cg->parent[0]);
        /* ENOENT: the controller is not on v2, or not for us. describe() will not list it. */
        int w = write_text(AT_FDCWD, path, enable);
        if (w < 0 && w != -ENOENT)
            return atoll_fail_errno(err, -w, "enable %s in %s", limits[i].controller, path);
    }
    return r;
}

static const char *limit_file(const struct atoll_floor_cgroup *cg, size_t i)
{
    return cg->v2 ? limits[i].v2_file : limits[i].v1_file;
}

/* Index of the hierarchy whose round directory has the file of limit i, or -1. */
static int find_limit(const struct atoll_floor_cgroup *cg, size_t i)
{
    for (size_t h = 0; h < cg->count; h++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%u/%s", cg->parent[h], cg->round, limit_file(cg, i));
        if (access(path, W_OK) == 0)
            return (int)h;
    }
    return -1;
}

static int make_directories(struct atoll_floor_cgroup *cg, struct atoll_error *err)
{
    for (size_t i = 0; i < cg->count; i++) {
        char path[PATH_MAX / 2];
        round_path(cg, i, path, sizeof(path));
        if (mkdir(path, 0755) < 0)
            return atoll_fail_errno(err, errno, "mkdir %s", path);
    }
    return 0;
}

int atoll_floor_cgroup_open(struct atoll_floor_cgroup *cg, bool force_v2, struct atoll_error *err)
{
    char dir[PATH_MAX / 8];
    *cg = (struct atoll_floor_cgroup){.dir_fd = ATOLL_NO_FD};
    int r =
        force_v2 || !find_mount("memory", dir, sizeof(dir)) ? open_v2(cg, err) : open_v1(cg, err);
    if (r >= 0)
        r = make_directories(cg, err); /* a trial round shows which limits exist */
    if (r < 0)
        return r;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limits); i++)
        cg->limit_at[i] = find_limit(cg, i);
    return atoll_floor_cgroup_destroy(cg, err);
}

int atoll_floor_cgroup_create(struct atoll_floor_cgroup *cg, unsigned round,
                              struct atoll_error *err)
{
    cg->round = round;
    int r = make_directories(cg, err);
    for (size_t i = 0; r >= 0 && i < ATOLL_ARRAY_LEN(limits); i++) {
        char path[PATH_MAX];
        int h = cg->limit_at[i];
        if (h < 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%u/%s", cg->parent[h], cg->round, limit_file(cg, i));
        r = write_text(AT_FDCWD, path, cg->v2 ? limits[i].v2_value : limits[i].v1_value);
        if (r < 0)
            return atoll_fail_errno(err, -r, "write %s", path);
    }
    if (r >= 0 && cg->v2) {
        char path[PATH_MAX / 2];
        round_path(cg, 0, path, sizeof(path));
        cg->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (cg->dir_fd < 0)
            return atoll_fail_errno(err, errno, "open %s", path);
    }
    return r;
}

int atoll_floor_cgroup_enter(const struct atoll_floor_cgroup *cg)
{
    for (size_t i = 0; !cg->v2 && i < cg->count; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%u/tasks", cg->parent[i], cg->round);
        int r = write_text(AT_FDCWD, path, "0");
        if (r < 0)
            return r;
    }
    return 0;
}

int atoll_floor_cgroup_verify(const struct atoll_floor_cgroup *cg, pid_t pid,
                              struct atoll_error *err)
{
    for (size_t i = 0; i < cg->count; i++) {
        char path[PATH_MAX], line[32];
        bool found = false;
        (void)snprintf(path, sizeof(path), "%s/%u/cgroup.procs", cg->parent[i], cg->round);
        FILE *procs = fopen(path, "re");
        while (procs && !found && fgets(line, sizeof(line), procs))
            found = strtol(line, NULL, 10) == pid;
        if (procs)
            (void)fclose(procs);
        if (!found)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "%s lacks the child",
                              path);
    }
    return 0;
}

static int remove_directory(const char *path, struct atoll_error *err)
{
    /* Since 6.18 a dead task leaves its cgroup only after its last context switch, which may be
     * after waitpid() returned: EBUSY is then a matter of microseconds. */
    for (int tries = 0; rmdir(path) < 0; tries++) {
        if (errno == ENOENT)
            return 0;
        if (errno != EBUSY || tries == 20000)
            return atoll_fail_errno(err, errno, "rmdir %s", path);
        const struct timespec pause = {.tv_nsec = 50000};
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

int atoll_floor_cgroup_destroy(struct atoll_floor_cgroup *cg, struct atoll_error *err)
{
    int result = 0;
    if (cg->dir_fd >= 0)
        (void)close(ATOLL_TAKE_FD(cg->dir_fd));
    for (size_t i = 0; i < cg->count; i++) {
        char path[PATH_MAX / 2];
        round_path(cg, i, path, sizeof(path));
        int r = remove_directory(path, err);
        result = r < 0 ? r : result;
    }
    return result;
}

int atoll_floor_cgroup_remove(struct atoll_floor_cgroup *cg, struct atoll_error *err)
{
    int result = 0;
    for (size_t i = 0; i < cg->count; i++) {
        int r = remove_directory(cg->parent[i], err);
        result = r < 0 ? r : result;
    }
    return result;
}

void atoll_floor_cgroup_describe(const struct atoll_floor_cgroup *cg, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s limits=", cg->v2 ? "v2" : "v1");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limits); i++) {
        if (cg->limit_at[i] >= 0 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     text[used - 1] == '=' ? "" : ",", limits[i].controller);
    }
}
