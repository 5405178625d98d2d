#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "base/switches.h"
#include "base/text.h"
#include "spawn/child.h"
#include "spawn/paths.h"
#include "spawn/sandbox_internal.h"
#include "spawn/snapshot_work.h"
#include "spawn/walk.h"
#include "sys/ns.h"
#include "sys/tree.h"

/*
 * Makes the result of a builder a layer. First its processes end, so that nothing writes to the result
 * any more. Then a separate process removes what the sandbox itself put there, and renames the directory:
 * a layer appears under its name at once, or not at all.
 */

#define STUBS_MAX (64 * 1024)

/* What the separate process needs. */
struct work {
    int state_fd, sandboxes_fd, layers_fd;
    int sum_fd; /* gets struct atoll_walk_sum of the layer */
    const char *id, *path, *layer;
};

/* Opens the directory that has `path`, and points *ret_name at its last component. */
static int open_parent(int upper, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char parent[4096];

    *ret_name = slash ? slash + 1 : path;
    (void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
                   slash ? path : ".");
    return atoll_paths_open(upper, parent, O_RDONLY | O_DIRECTORY);
}

/* Removes a mount point that BIND made, if it is still empty. */
static void remove_point(int upper, const char *path)
{
    const char *name;
    ATOLL_AUTOCLOSE int dir = open_parent(upper, path, &name);
    struct stat st;

    if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(st.st_mode))
        (void)unlinkat(dir, name, AT_REMOVEDIR);
    else if (S_ISREG(st.st_mode) && st.st_size == 0)
        (void)unlinkat(dir, name, 0);
}

/* The last one first: a directory comes before what was made in it. */
static void remove_points(int disk, int upper)
{
    ATOLL_AUTOFREE char *text = calloc(1, STUBS_MAX);
    int n = text ? atoll_fd_read_file(disk, ATOLL_DISK_POINTS, text, STUBS_MAX) : 0;

    for (int i = n - 1; i > 0; i--)
        if (text[i] == '\0' && text[i - 1] != '\0') {
            int begin = i;

            while (begin > 0 && text[begin - 1] != '\0')
                begin--;
            remove_point(upper, text + begin);
            i = begin;
        }
}

static bool same_content(int a, int b)
{
    char left[4096], right[4096];
    ssize_t n;

    while ((n = read(a, left, sizeof(left))) > 0)
        if (atoll_fd_read_all(b, right, (size_t)n) < 0 || memcmp(left, right, (size_t)n) != 0)
            return false;
    return n == 0 && read(b, right, 1) == 0;
}

/* A step that changes the mode or owner of all files (chown -R) copies our programs to its result.
 * Removes them there if they are unchanged: an image may have a sudo of its own. */
static void remove_tool(int state, int upper, const char *path)
{
    ATOLL_AUTOCLOSE int tools = atoll_paths_open(state, "template/tools", O_PATH | O_DIRECTORY);
    ATOLL_AUTOCLOSE int ours = tools < 0 ? tools : atoll_paths_open(tools, path, O_RDONLY);
    ATOLL_AUTOCLOSE int theirs = atoll_paths_open(upper, path, O_RDONLY | O_NONBLOCK);
    const char *name;
    ATOLL_AUTOCLOSE int dir = open_parent(upper, path, &name);
    struct stat st;

    if (ours >= 0 && theirs >= 0 && dir >= 0 && fstat(theirs, &st) == 0 && S_ISREG(st.st_mode) &&
        same_content(ours, theirs))
        (void)unlinkat(dir, name, 0);
}

/* On the host template, /usr is an overlay of its own, with an upper directory of its own. */
static int join_usr(int disk)
{
    if (renameat(disk, "u.usr", disk, "u/usr") < 0 && errno != ENOENT)
        return -errno;
    return 0;
}

void atoll_commit_remove_tools(int state_fd, int layer_fd)
{
    remove_tool(state_fd, layer_fd, "usr/bin/sudo");
}

static int clean_upper(const struct work *w, int disk)
{
    static const char *const trees[] = {"usr/share/atoll", "usr/lib/atoll"};
    ATOLL_AUTOCLOSE int upper = atoll_paths_open(disk, "u", O_RDONLY | O_DIRECTORY);
    int r = upper < 0 ? upper : join_usr(disk);

    if (r < 0)
        return r;
    remove_points(disk, upper);
    atoll_commit_remove_tools(w->state_fd, upper);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(trees); i++) {
        const char *name;
        ATOLL_AUTOCLOSE int dir = open_parent(upper, trees[i], &name);

        r = dir < 0 ? 0 : atoll_tree_remove(dir, name);
    }
    return r;
}

static int tell_sum(const struct work *w, int disk)
{
    ATOLL_AUTOCLOSE int top =
        atoll_paths_open(disk, *w->path ? w->path : "u", O_RDONLY | O_DIRECTORY);
    struct atoll_walk_sum sum;
    int r = top < 0 ? top : atoll_walk_count(top, &sum);

    return r < 0 ? r : atoll_fd_write_all(w->sum_fd, &sum, sizeof(sum));
}

static int do_work(const void *arg)
{
    const struct work *w = arg;
    ATOLL_AUTOCLOSE int disk = ATOLL_NO_FD;
    char name[48];
    int r;

    (void)snprintf(name, sizeof(name), "%s.disk", w->id);
    disk = atoll_paths_open(w->sandboxes_fd, name, O_RDONLY | O_DIRECTORY);
    r = disk < 0 ? disk : *w->path ? 0 : clean_upper(w, disk);
    if (r == 0)
        r = tell_sum(w, disk);
    if (r == 0)
        r = -atoll_fault("spawn.commit_rename");
    if (r == 0 && renameat(disk, *w->path ? w->path : "u", w->layers_fd, w->layer) < 0 &&
        errno != EEXIST && errno != ENOTEMPTY) /* exists: same name, same content */
        r = -errno;
    return r;
}

static void report(struct sandbox *s, const struct atoll_error *error)
{
    uint32_t request = s->commit.request;
    struct atoll_walk_sum sum = {0};
    struct atoll_sm_layer made;

    s->commit.request = 0;
    atoll_watch_close(&s->commit.watch);
    if (s->commit.pidfd >= 0)
        (void)close(ATOLL_TAKE_FD(s->commit.pidfd));
    if (s->commit.sum_fd >= 0) {
        (void)!atoll_fd_read_all(s->commit.sum_fd, &sum, sizeof(sum));
        (void)close(ATOLL_TAKE_FD(s->commit.sum_fd));
    }
    made = (struct atoll_sm_layer){.bytes = sum.bytes, .files = sum.files};
    s->commit.pid = 0;
    s->state = SANDBOX_EXITED;
    if (request)
        s->all->events->committed(s->all->arg, request, error ? NULL : &made, error);
}

static void worker_gone(void *arg, uint32_t events)
{
    struct sandbox *s = arg;
    struct atoll_error err;
    int status = 0;

    (void)events;
    while (waitpid(s->commit.pid, &status, 0) < 0 && errno == EINTR)
        ;
    atoll_fault_die("spawn.committed");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        report(s, NULL);
        return;
    }
    (void)atoll_fail_errno(&err, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR, "keep layer");
    report(s, &err);
}

void atoll_sandbox_commit(struct sandbox *s)
{
    const struct atoll_spawn_host *host = s->all->host;
    int sum[2] = {ATOLL_NO_FD, ATOLL_NO_FD};
    struct atoll_error err;
    int r = -atoll_fault("spawn.commit");

    if (r == 0 && pipe2(sum, O_CLOEXEC) < 0)
        r = -errno;
    s->commit.sum_fd = sum[0];
    if (r == 0) {
        const struct work work = {host->state_fd, host->sandboxes_fd, host->layers_fd, sum[1],
                                  s->id,          s->commit.path,     s->commit.layer};
        const int keep[] = {host->state_fd, host->sandboxes_fd, host->layers_fd, sum[1]};

        r = s->commit.pid =
            atoll_child_work(host, &s->ids, do_work, &work, keep, ATOLL_ARRAY_LEN(keep));
    }
    if (sum[1] >= 0)
        (void)close(sum[1]);
    if (r > 0)
        r = s->commit.pidfd = atoll_sys_pidfd_open(s->commit.pid);
    if (r >= 0)
        r = atoll_watch_open(&s->commit.watch, s->all->loop, s->commit.pidfd, EPOLLIN, worker_gone,
                             s);
    if (r >= 0)
        return;
    (void)atoll_fail_errno(&err, -r, "keep layer");
    atoll_sandbox_end_commit(s);
    report(s, &err);
}

void atoll_sandbox_end_commit(struct sandbox *s)
{
    if (s->commit.pid <= 0)
        return;
    (void)kill(s->commit.pid, SIGKILL);
    while (waitpid(s->commit.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    s->commit.pid = 0;
}

void atoll_sandbox_abort_commit(struct sandbox *s)
{
    struct atoll_error err;

    atoll_sandbox_end_commit(s);
    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "the sandbox is being removed");
    report(s, &err);
}

int atoll_sandboxes_commit(struct atoll_sandboxes *all, const char *id, uint32_t request,
                           const char *path, const char *layer, struct atoll_error *err)
{
    struct sandbox *s = atoll_text_is_id(id) ? atoll_map_get(&all->by_id, id) : NULL;

    if ((*path && strcmp(path, "import") != 0 && strcmp(path, "u.import") != 0) ||
        !atoll_text_is_name(layer))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "bad name in commit");
    if (!s || (s->state != SANDBOX_RUNNING && s->state != SANDBOX_EXITED))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no builder %.40s", id);
    s->commit.request = request;
    (void)snprintf(s->commit.path, sizeof(s->commit.path), "%s", path);
    (void)snprintf(s->commit.layer, sizeof(s->commit.layer), "%s", layer);
    s->state = SANDBOX_COMMITTING;
    if (s->pid == 0) {
        atoll_sandbox_commit(s);
        return 0;
    }
    atoll_sandbox_thaw(s);
    (void)!atoll_sys_pidfd_kill(s->pidfd, SIGKILL); /* process_gone() continues */
    return 0;
}
