#include "agent/container.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_internal.h"
#include "base/text.h"

#define ENV_MAX 512

extern char **environ;

static struct atoll_agent_user found; /* strings of the config point here */

/* Creates the user's home: an image may lack it, or an empty mount may hide it. */
static void make_home(const struct atoll_agent_user *user)
{
    char path[sizeof(user->home)];

    (void)snprintf(path, sizeof(path), "%s", user->home);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    if (mkdir(path, 0755) == 0)
        (void)!lchown(path, user->uid, user->gid);
}

static int find_user(const char *name, const char *group, struct atoll_error *err)
{
    struct atoll_agent agent = {
        .config = {.default_user = "", .default_uid = UINT32_MAX, .many_ids = true}};
    int r = atoll_agent_user_find(&agent, *name ? name : "user", &found, err);

    if (r == -ESRCH && !*name)
        r = atoll_agent_user_find(&agent, "root", &found, err);
    if (r == 0 && group)
        r = atoll_agent_group_find(&agent, group, &found.gid, err);
    atoll_agent_users_done(&agent);
    return r;
}

int atoll_agent_container_user(struct atoll_agent_config *config, const char *who,
                               struct atoll_error *err)
{
    char name[2 * ATOLL_AGENT_NAME_MAX];
    char *group;
    int r;

    if (atoll_text_copy(name, sizeof(name), who) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "user name is too long");
    group = strchr(name, ':');
    if (group)
        *group++ = '\0';
    r = find_user(name, group, err);
    if (r < 0)
        return r;
    make_home(&found);
    config->default_user = found.name;
    config->default_home = found.home;
    config->default_uid = found.uid;
    config->default_gid = found.gid;
    return 0;
}

void atoll_agent_container_own(const struct atoll_agent_config *config, const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    struct stat st;
    bool empty = true;

    while (dir && empty && (entry = readdir(dir)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    /* A failure is ignored here: writing to the directory reports it. */
    if (dir && empty && fstat(dirfd(dir), &st) == 0 && st.st_uid == 0)
        (void)!fchown(dirfd(dir), config->default_uid, config->default_gid);
    if (dir)
        (void)closedir(dir);
}

int atoll_agent_own_user(struct atoll_agent_config *config, struct atoll_error *err)
{
    char number[16];
    int r;

    (void)snprintf(number, sizeof(number), "%u", geteuid());
    r = find_user(number, NULL, err);
    if (r < 0)
        return r;
    config->default_user = found.name;
    config->default_home = found.home;
    config->default_uid = geteuid();
    config->default_gid = getegid();
    return 0;
}

void atoll_agent_container_workdir(struct atoll_agent_config *config)
{
    static char path[ATOLL_AGENT_PATH_MAX];

    if (getcwd(path, sizeof(path)) && path[0] == '/' && path[1] != '\0')
        config->workdir = path;
}

static bool says_who(const char *var)
{
    static const char *const names[] = {
        "HOME=", "HOSTNAME=", "USER=", "LOGNAME=", "SHELL=", "TERM="};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (strncmp(var, names[i], strlen(names[i])) == 0)
            return true;
    return !strchr(var, '=') || var[0] == '=';
}

int atoll_agent_container_env(struct atoll_agent_config *config, struct atoll_error *err)
{
    static const char *kept[ENV_MAX + 1];
    size_t n = 0;

    for (char **var = environ; *var; var++) {
        if (says_who(*var))
            continue;
        if (n == ENV_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                              "the image sets more than %d variables", ENV_MAX);
        kept[n++] = *var;
    }
    config->base_env = kept;
    return 0;
}

static int open_first(const char *const *paths)
{
    for (; *paths; paths++) {
        int fd = open(*paths, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    return ATOLL_NO_FD;
}

void atoll_agent_container_cgroup(struct atoll_agent_config *config)
{
    static const char *const kills[] = {"/sys/fs/cgroup/memory.events",
                                        "/sys/fs/cgroup/memory/memory.oom_control", NULL};
    static const char *const peaks[] = {"/sys/fs/cgroup/memory.peak",
                                        "/sys/fs/cgroup/memory/memory.max_usage_in_bytes", NULL};

    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limits); i++)
        if (access(limits[i], R_OK) == 0)
            config->memory_limit_file = limits[i];
    config->oom_fd = open_first(kills);
    config->peak_fd = open_first(peaks);
}
