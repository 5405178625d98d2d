/* Rows 8-10 and 46-50: the mounts of this namespace, attempts to change them, and the cgroup tree. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tools/verify/probe/probe.h"

struct mount_line {
    char root[1024], point[1024], options[256], optional[256];
    char type[64], source[1024], super[2048];
};

/* Splits one line of mountinfo (proc(5)); the fields before "-" vary in number. */
static bool parse_mount(char *line, struct mount_line *m)
{
    char *dash = strstr(line, " - ");
    int used = 0;

    memset(m, 0, sizeof(*m));
    if (dash == NULL)
        return false;
    *dash = '\0';
    if (sscanf(line, "%*d %*d %*s %1023s %1023s %255s%n", m->root, m->point, m->options, &used) !=
        3)
        return false;
    snprintf(m->optional, sizeof(m->optional), "%s", line + used);
    return sscanf(dash + 3, "%63s %1023s %2047[^\n]", m->type, m->source, m->super) >= 2;
}

static void each_mount(void (*fn)(const struct mount_line *m))
{
    static struct mount_line m;
    static char line[16384];
    FILE *f = fopen("/proc/self/mountinfo", "re");

    if (f == NULL)
        probe_skip("/proc/self/mountinfo: %s", strerror(errno));
    while (fgets(line, sizeof(line), f) != NULL)
        if (parse_mount(line, &m))
            fn(&m);
    fclose(f);
}

static bool one_of(const char *s, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(s, list[i]) == 0)
            return true;
    return false;
}

static bool has_option(const char *options, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = options; p != NULL; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, len) == 0 && (p[len] == ',' || p[len] == '\0'))
            return true;
    }
    return false;
}

static void judge_flags(const struct mount_line *m)
{
    static const char *const kernel[] = {"proc", "sysfs", "cgroup", "cgroup2", "mqueue", "devpts"};
    struct stat st;

    /* A single device node, or a mask (/dev/null or an empty directory), contains no program. */
    if (stat(m->point, &st) == 0 && S_ISCHR(st.st_mode))
        return;
    if (strcmp(m->type, "tmpfs") == 0 && has_option(m->options, "ro"))
        return;
    if (!has_option(m->options, "nosuid"))
        probe_found("%s lacks nosuid", m->point);
    if (!has_option(m->options, "nodev") && strcmp(m->type, "devpts") != 0)
        probe_found("%s lacks nodev", m->point);
    if (one_of(m->type, kernel, PROBE_COUNT(kernel)) && !has_option(m->options, "noexec"))
        probe_found("%s lacks noexec", m->point);
}

static void mount_flags(void)
{
    each_mount(judge_flags);
    probe_conclude("nosuid, nodev and noexec where they belong");
}

static void judge_propagation(const struct mount_line *m)
{
    if (strstr(m->optional, "shared:") != NULL || strstr(m->optional, "master:") != NULL)
        probe_found("%s:%s", m->point, m->optional);
}

static void mount_propagation(void)
{
    each_mount(judge_propagation);
    probe_conclude("every mount is private");
}

static void judge_paths(const struct mount_line *m)
{
    static const char *const virtual[] = {"proc",   "sysfs",    "cgroup", "cgroup2",
                                          "devpts", "devtmpfs", "tmpfs",  "mqueue"};
    static const char *const layers[] = {"lowerdir=/", "upperdir=/", "workdir=/", "lowerdir+=/",
                                         ":/"};
    const char *state = probe_arg("state");

    if (m->source[0] == '/')
        probe_found("%s comes from %s", m->point, m->source);
    if (strcmp(m->root, "/") != 0 && !one_of(m->type, virtual, PROBE_COUNT(virtual)))
        probe_found("%s is %s of a %s", m->point, m->root, m->type);
    for (size_t i = 0; i < PROBE_COUNT(layers); i++)
        if (strcmp(m->type, "overlay") == 0 && strstr(m->super, layers[i]) != NULL)
            probe_found("%s: overlay options hold an absolute path", m->point);
    if (state != NULL && (strstr(m->root, state) != NULL || strstr(m->super, state) != NULL))
        probe_found("%s names the state directory", m->point);
}

static void mountinfo_paths(void)
{
    each_mount(judge_paths);
    probe_conclude("no host path");
}

/*
 * The mount calls below check the permission first and fail on their arguments afterwards, so
 * where they are not refused nothing is mounted either. Should a kernel accept the arguments all
 * the same, the target is a directory that ends with the process that made the call.
 */
#define TARGET "/proc/self/task"

static void try_mount(void)
{
    static const struct probe_call calls[] = {
        {"tmpfs", SYS_mount, {"none", TARGET, "tmpfs", NULL, "size=none"}},
        {"proc", SYS_mount, {"none", TARGET, "proc", NULL, "hidepid=none"}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void try_bind(void)
{
    static const struct probe_call calls[] = {
        {"bind", SYS_mount, {"/probe-no-such-path", TARGET, NULL, PROBE_INT(MS_BIND), NULL}},
        {"move", SYS_mount, {"/probe-no-such-path", TARGET, NULL, PROBE_INT(MS_MOVE), NULL}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void try_remount(void)
{
    static const struct probe_call calls[] = {
        {"remount", SYS_mount, {NULL, "/proc/self", NULL, PROBE_INT(MS_REMOUNT), NULL}},
        {"bind,remount",
         SYS_mount,
         {NULL, "/proc/self", NULL, PROBE_INT(MS_REMOUNT | MS_BIND), NULL}},
        {"make-private", SYS_mount, {NULL, "/proc/self", NULL, PROBE_INT(MS_PRIVATE), NULL}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void try_umount(void)
{
    static const struct probe_call calls[] = {
        {"umount2", SYS_umount2, {"/proc/self", PROBE_INT(0)}},
        {"detach", SYS_umount2, {"/proc/self", PROBE_INT(MNT_DETACH)}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void try_pivot_root(void)
{
    static const struct probe_call calls[] = {
        {"pivot_root", SYS_pivot_root, {"/probe-no-such-path", "/probe-no-such-path"}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

/* open_tree(OPEN_TREE_CLONE) makes a detached copy that is removed when its descriptor is closed. */
static void try_new_api(void)
{
    static const unsigned long long no_change[4]; /* struct mount_attr */
    static const struct probe_call calls[] = {
        {"fsopen", SYS_fsopen, {"tmpfs", PROBE_INT(1)}},
        {"fspick", SYS_fspick, {PROBE_INT(-100), "/", PROBE_INT(1)}},
        {"open_tree", SYS_open_tree, {PROBE_INT(-100), "/", PROBE_INT(1)}},
        {"move_mount", SYS_move_mount, {PROBE_INT(-1), "", PROBE_INT(-1), "", PROBE_INT(0)}},
        {"mount_setattr",
         SYS_mount_setattr,
         {PROBE_INT(-100), "/", PROBE_INT(0), no_change, PROBE_INT(sizeof(no_change))}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void find_cgroup_write(const struct mount_line *m)
{
    char path[1200];

    if (strncmp(m->type, "cgroup", 6) != 0)
        return;
    snprintf(path, sizeof(path), "%s/cgroup.procs", m->point);
    if (probe_writable(path))
        probe_found("%s", path);
}

static void cgroup_fs_ro(void)
{
    each_mount(find_cgroup_write);
    probe_conclude("no cgroup file opens for writing");
}

static void find_release_agent(const struct mount_line *m)
{
    char path[1200];

    snprintf(path, sizeof(path), "%s/release_agent", m->point);
    if (strcmp(m->type, "cgroup") == 0 && probe_writable(path))
        probe_found("%s", path);
}

static void release_agent(void)
{
    each_mount(find_release_agent);
    probe_conclude("no release_agent opens for writing");
}

static void cgroup_mount_v1(void)
{
    static const struct probe_call calls[] = {
        {"cgroup", SYS_mount, {"none", TARGET, "cgroup", NULL, "no-such-controller"}},
        {"cgroup2", SYS_mount, {"none", TARGET, "cgroup2", NULL, "no-such-option"}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void cgroup_path_hidden(void)
{
    char line[4096];
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (f == NULL)
        probe_pass("/proc/self/cgroup: %s", strerror(errno));
    while (fgets(line, sizeof(line), f) != NULL) {
        char *path = strrchr(line, ':');

        line[strcspn(line, "\n")] = '\0';
        if (path != NULL && strcmp(path, ":/") != 0)
            probe_found("%s", line);
    }
    probe_conclude("every path is /");
}

static const struct probe_check checks[] = {
    {8, "fs.mount_flags", mount_flags},
    {9, "fs.mount_propagation", mount_propagation},
    {10, "fs.mountinfo_paths", mountinfo_paths},
    {46, "mnt.mount", try_mount},
    {46, "mnt.bind", try_bind},
    {46, "mnt.remount", try_remount},
    {46, "mnt.umount", try_umount},
    {46, "mnt.pivot_root", try_pivot_root},
    {47, "mnt.new_api", try_new_api},
    {48, "cg.fs_ro", cgroup_fs_ro},
    {49, "cg.release_agent", release_agent},
    {49, "cg.mount_v1", cgroup_mount_v1},
    {50, "cg.path_hidden", cgroup_path_hidden},
};

const struct probe_table probe_mounts = {checks, PROBE_COUNT(checks)};
