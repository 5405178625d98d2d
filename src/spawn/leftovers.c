#include "spawn/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "spawn/bandwidth.h"
#include "spawn/layers.h"
#include "spawn/paths.h"
#include "sys/tree.h"

#define RETRY_MS 5
#define TRIES_MAX 1000 /* five seconds: a process that cannot be killed is stuck in the kernel */

struct group {
    struct atoll_list node;
    char id[33];
};

/* Best effort: entries that cannot be removed do no harm. */
static void sweep_old(int parent, const char *prefix)
{
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            (void)!atoll_tree_remove(parent, entry->d_name);
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
}

/* Removes replaced templates, unless the other atoll-spawn has sandboxes that may use them:
 * gVisor's sees the native state directory as "above" (own_root.h). */
static void sweep_templates(const struct atoll_spawn_host *host)
{
    bool below = access("above", F_OK) == 0;
    ATOLL_AUTOCLOSE int dir =
        openat(host->state_fd, below ? "above" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0 &&
        !atoll_paths_holds_entries(host->state_fd,
                                   below ? "above/sandboxes" : ATOLL_BELOW_GVISOR "/sandboxes"))
        sweep_old(dir, ATOLL_TEMPLATE_OLD);
}

int atoll_leftovers_put_aside(const struct atoll_spawn_host *host, struct atoll_error *err)
{
    char name[ATOLL_LAYER_NAME_CAP];
    int r = 0;

    atoll_bandwidth_undo_all(host);
    sweep_templates(host);
    sweep_old(host->state_fd, ATOLL_PROGRAMS_OLD);
    sweep_old(host->state_fd, ATOLL_HIDDEN_OLD);
    if (atoll_paths_holds_entries(host->state_fd, "sandboxes"))
        r = atoll_layer_put_aside(host, host->state_fd, "sandboxes", name);
    return r < 0 ? atoll_fail_errno(err, -r, "move away the sandboxes of an earlier run") : 0;
}

static void note_group(void *arg, const char *id)
{
    struct atoll_leftovers *l = arg;
    struct group *g = calloc(1, sizeof(*g));

    if (!g)
        abort(); /* a small fixed object, at start */
    (void)snprintf(g->id, sizeof(g->id), "%s", id);
    atoll_list_push_back(&l->groups, &g->node);
}

/* True if a group was removed. */
static bool end_groups(struct atoll_leftovers *l)
{
    bool went = false;

    ATOLL_LIST_FOREACH (&l->groups, node) {
        struct group *g = ATOLL_CONTAINER_OF(node, struct group, node);

        if (atoll_cgroup_remove(l->cgroups, g->id) == -EBUSY) {
            (void)!atoll_cgroup_kill(l->cgroups, g->id);
            continue;
        }
        atoll_list_remove(node);
        free(g);
        went = true;
    }
    return went;
}

/* The next start tries again. */
static void give_up(struct atoll_leftovers *l)
{
    ATOLL_LIST_FOREACH (&l->groups, node) {
        struct group *g = ATOLL_CONTAINER_OF(node, struct group, node);

        atoll_log(ATOLL_LOG_ERROR, "cgroup of a dead sandbox cannot be removed", "sandbox", g->id,
                  NULL);
        atoll_list_remove(node);
        free(g);
    }
}

static void go_on(void *arg)
{
    struct atoll_leftovers *l = arg;

    l->tries = end_groups(l) ? 0 : l->tries + 1;
    if (l->tries > TRIES_MAX)
        give_up(l);
    if (atoll_list_empty(&l->groups))
        l->ended(l->arg);
    else
        atoll_timer_set(&l->retry, l->loop, RETRY_MS, go_on, l);
}

int atoll_leftovers_end(struct atoll_leftovers *l, struct atoll_loop *loop,
                        const struct atoll_spawn_host *host, void (*ended)(void *arg), void *arg,
                        struct atoll_error *err)
{
    int r;

    *l = (struct atoll_leftovers){
        .loop = loop, .cgroups = &host->cgroups, .ended = ended, .arg = arg};
    atoll_list_init(&l->groups);
    r = atoll_cgroups_each(&host->cgroups, note_group, l);
    if (r < 0)
        return atoll_fail_errno(err, -r, "find processes of an earlier run");
    go_on(l);
    return 0;
}

bool atoll_leftovers_live(const struct atoll_leftovers *l)
{
    return !atoll_list_empty(&l->groups);
}
