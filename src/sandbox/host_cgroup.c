/*
 * cgroups: which version the host mounts, and what of it we may make groups in. Rootless v2 needs
 * a delegated subtree, which is why our own group is looked at and not the mount's root.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "sandbox/host_internal.h"

#define PROC_FILE_MAX (256 * 1024)
#define PATH_CAP 512

static const struct {
    const char *name;
    size_t offset;
    const char *limits; /* what cannot be limited without it */
} controllers[] = {
    {"memory", offsetof(struct atoll_host_caps, cgroup_memory), "memory"},
    {"cpu", offsetof(struct atoll_host_caps, cgroup_cpu), "CPU"},
    {"pids", offsetof(struct atoll_host_caps, cgroup_pids), "processes"},
    {"freezer", offsetof(struct atoll_host_caps, cgroup_freezer), NULL},
};

static bool *flag_of(struct atoll_host_caps *caps, size_t i)
{
    return (bool *)((char *)caps + controllers[i].offset);
}

static bool has_word(const char *list, const char *word, char separator)
{
    size_t n = strlen(word);

    for (const char *p = list; *p;) {
        size_t len = strcspn(p, (char[]){separator, '\n', '\0'});
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p += len + (p[len] != '\0');
    }
    return false;
}

static bool is_writable(const char *dir)
{
    return faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == 0;
}

/* Where cgroups are mounted, from /proc/self/mounts. */
struct mounts {
    char v1[ATOLL_ARRAY_LEN(controllers)][PATH_CAP];
    char v2[PATH_CAP];
};

static void note_mount(struct mounts *found, char *line)
{
    char *save = NULL;
    const char *device = strtok_r(line, " ", &save);
    const char *dir = device ? strtok_r(NULL, " ", &save) : NULL;
    const char *type = dir ? strtok_r(NULL, " ", &save) : NULL;
    const char *options = type ? strtok_r(NULL, " ", &save) : NULL;

    if (!options || strlen(dir) >= PATH_CAP)
        return;
    if (strcmp(type, "cgroup2") == 0 && !*found->v2)
        (void)snprintf(found->v2, PATH_CAP, "%s", dir);
    for (size_t i = 0; strcmp(type, "cgroup") == 0 && i < ATOLL_ARRAY_LEN(controllers); i++)
        if (!*found->v1[i] && has_word(options, controllers[i].name, ','))
            (void)snprintf(found->v1[i], PATH_CAP, "%s", dir);
}

static void find_mounts(struct mounts *found)
{
    ATOLL_AUTOFREE char *text = malloc(PROC_FILE_MAX);
    char *save = NULL;

    *found = (struct mounts){0};
    if (!text || atoll_fd_read_file(AT_FDCWD, "/proc/self/mounts", text, PROC_FILE_MAX) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        note_mount(found, line);
}

/* The v2 directory we would work below: the mount's root as root, else our own group. */
static void v2_base(const struct mounts *found, bool root, char *out, size_t cap)
{
    char text[PATH_CAP];
    const char *own;

    (void)snprintf(out, cap, "%s", found->v2);
    if (root || atoll_host_read("/proc/self/cgroup", text, sizeof(text)) < 0)
        return;
    own = strstr(text, "0::/");
    if (own && (own == text || own[-1] == '\n'))
        (void)snprintf(out, cap, "%s%.*s", found->v2, (int)strcspn(own + 3, "\n"), own + 3);
}

static bool find_v2(struct atoll_host_caps *caps, const struct mounts *found)
{
    char base[2 * PATH_CAP], path[2 * PATH_CAP + 32], list[256];

    if (!*found->v2)
        return false;
    v2_base(found, caps->root, base, sizeof(base));
    (void)snprintf(path, sizeof(path), "%s/cgroup.controllers", base);
    if (atoll_host_read(path, list, sizeof(list)) < 0 || !has_word(list, "memory", ' '))
        return false; /* hybrid: the controllers are bound to v1 hierarchies */
    (void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", base);
    if (!is_writable(base) || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
        return false;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(controllers); i++)
        *flag_of(caps, i) = has_word(list, controllers[i].name, ' ');
    caps->cgroup_freezer = true; /* built into every v2 group since 5.2 */
    caps->cgroup_version = 2;
    return true;
}

void atoll_host_find_cgroups(struct atoll_host_caps *caps)
{
    struct mounts found;
    bool any = false;

    find_mounts(&found);
    if (find_v2(caps, &found))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(controllers); i++) {
        *flag_of(caps, i) = *found.v1[i] && is_writable(found.v1[i]);
        any |= *flag_of(caps, i);
    }
    caps->cgroup_version = any ? 1 : 0;
}

static const char *layout_of(const struct mounts *found)
{
    bool v1 = false;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(controllers); i++)
        v1 |= *found->v1[i] != '\0';
    return v1 && *found->v2 ? "hybrid (v1 controllers)" : v1 ? "v1" : *found->v2 ? "v2" : "none";
}

static const char *fix_of(const struct mounts *found, bool root)
{
    if (!*found->v2 && !*found->v1[0])
        return "mount cgroups: mount -t cgroup2 none /sys/fs/cgroup";
    if (root)
        return "enable the controllers in the kernel (cgroup_enable=memory) and remount cgroups "
               "writable";
    return "run atolld as root, or delegate a cgroup v2 subtree: systemd-run --user --scope "
           "-p Delegate=yes atolld";
}

void atoll_host_check_cgroups(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;
    struct atoll_host_caps copy = *caps;
    char have[64] = "", lack[64] = "";
    struct mounts found;

    find_mounts(&found);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(controllers); i++) {
        char *list = *flag_of(&copy, i) ? have : lack;
        size_t len = strlen(list);
        if (controllers[i].limits)
            (void)snprintf(list + len, sizeof(have) - len, "%s%s", len ? ", " : "",
                           controllers[i].limits);
    }
    if (!*lack)
        atoll_host_add(report, "cgroups", ATOLL_HOST_OK, false, "", "%s, writable; limits on %s%s",
                       layout_of(&found), have, caps->cgroup_freezer ? ", freezing" : "");
    else
        atoll_host_add(report, "cgroups", ATOLL_HOST_MISSING, false, fix_of(&found, caps->root),
                       "%s; no limit on %s can be given (--waive accepts that)", layout_of(&found),
                       lack);
}
