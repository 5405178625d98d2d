/*
 * How it works. The sandbox shows the folder itself, but for what it has changed. So the two trees differ only there, or
 * where the folder has changed what the sandbox had changed before. What the folder had when it was mounted is not
 * known: a path counts as changed on this side if its ctime is later than the sandbox, unless it is what the last --apply wrote,
 * which is kept as by `atoll sync`.
 */
#include "cli/diff_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "cli/print.h"
#include "cli/sync_apply.h"

struct mounted {
    struct atoll_cli_copy copy;
    const char *path; /* in the sandbox */
    char folder[PATH_MAX], base_path[ATOLL_CLI_COPY_PATH_MAX];
    int64_t since_ms; /* the sandbox was made */
    int dir_fd;
    struct atoll_sync_list local, remote;
    struct atoll_sync_base base;
    struct atoll_sync_step *steps;
    size_t count, conflicts;
    json_t *report; /* owned */
};

/* The folder of a daemon elsewhere may have the same name as one here. */
static int check_here(struct atoll_error *err)
{
    static const char *const here[] = {"http://127.",       "https://127.", "http://localhost",
                                       "https://localhost", "http://[::1]", "https://[::1]"};
    const char *url = getenv("ATOLL_URL"), *socket = getenv("ATOLL_SOCKET");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(here); i++)
        if (url && strncmp(url, here[i], strlen(here[i])) == 0)
            return 0;
    return !url || !*url || (socket && *socket)
               ? 0
               : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EREMOTE,
                            "the folder is on the host of the daemon: run this there");
}

static int find_mount(struct mounted *m, const json_t *view, struct atoll_error *err)
{
    const json_t *mount;
    size_t i;

    json_array_foreach(json_object_get(view, "volumes"), i, mount)
    {
        const char *folder = atoll_link_text(mount, "hostPath", "");

        if (strcmp(atoll_link_text(mount, "path", ""), m->path) != 0 ||
            strcmp(atoll_link_text(mount, "mode", ""), "cow") != 0)
            continue;
        m->since_ms = atoll_sync_time(atoll_link_text(view, "created_at", ""));
        m->dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)snprintf(m->folder, sizeof(m->folder), "%s", folder);
        return m->dir_fd < 0 ? atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno,
                                          "%.200s: %s", folder, strerror(errno))
                             : 0;
    }
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "the sandbox mounts no folder at %.200s with the mode cow", m->path);
}

static int look(struct mounted *m, struct atoll_error *err)
{
    const struct atoll_sync_filter all = {0};
    ATOLL_AUTOJSON json_t *view = NULL;
    struct atoll_link_target target;
    char top[ATOLL_CLI_COPY_PATH_MAX];
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s", m->copy.sandbox);

    if (r == 0)
        r = atoll_cli_call(m->copy.cli, "GET", target.text, NULL, &view, err);
    if (r == 0)
        r = find_mount(m, view, err);
    if (r < 0)
        return r;
    (void)snprintf(top, sizeof(top), "mount:%s", m->path); /* not that of `atoll sync` */
    atoll_sync_base_path(m->folder, atoll_link_text(view, "id", m->copy.sandbox), top,
                         m->base_path);
    atoll_sync_base_load(m->base_path, &m->base);
    r = atoll_sync_list_local(m->dir_fd, &all, &m->local, err);
    if (r == 0)
        r = atoll_sync_list_remote(&m->copy, m->path, &all, &m->remote, err);
    return r < 0 ? r : atoll_sync_leave_unreadable(&m->copy, m->path, &m->local, &m->remote, err);
}

static bool is_same(const struct atoll_sync_entry *a, const struct atoll_sync_entry *b)
{
    if (!a || !b || a->kind != b->kind)
        return !a && !b;
    if (a->kind == ATOLL_SYNC_LINK)
        return strcmp(a->target, b->target) == 0;
    return a->mode == b->mode &&
           (a->kind == ATOLL_SYNC_DIRECTORY || (a->size == b->size && a->mtime_ms == b->mtime_ms));
}

/* Whether this side of the path may have changed since the sandbox had it. */
static bool has_changed_here(const struct mounted *m, const struct atoll_sync_step *s)
{
    const struct atoll_sync_entry *was = s->base ? &s->base->local : NULL;

    if (!s->local)
        return was != NULL;
    /* The time of a directory that is removed or not is that of its entries. */
    if (s->local->kind == ATOLL_SYNC_DIRECTORY && (!s->remote || s->remote->kind == s->local->kind))
        return false;
    return s->local->ctime_ms > m->since_ms && !(was && is_same(s->local, was));
}

/* Chooses what becomes of each path, and leaves out those that are the same. */
static void decide(struct mounted *m, bool force)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->count; i++) {
        struct atoll_sync_step s = m->steps[i];

        if (is_same(s.local, s.remote))
            continue;
        s.act = s.remote ? ATOLL_SYNC_PULL : ATOLL_SYNC_REMOVE_LOCAL;
        if (!force && has_changed_here(m, &s))
            s.act = ATOLL_SYNC_CONFLICT;
        m->conflicts += s.act == ATOLL_SYNC_CONFLICT;
        m->steps[kept++] = s;
    }
    m->count = kept;
}

static void tell_one(struct mounted *m, const struct atoll_sync_step *s)
{
    static const struct {
        char sign;
        const char *word;
    } kinds[] = {{'+', "added"}, {'~', "changed"}, {'-', "removed"}, {'!', "conflicts"}};
    size_t kind = s->act == ATOLL_SYNC_CONFLICT ? 3 : !s->local ? 0 : s->remote ? 1 : 2;
    const char *path = atoll_sync_step_path(s);
    const struct atoll_sync_entry *e = s->remote ? s->remote : s->local;
    json_t *array = json_object_get(m->report, kinds[kind].word);
    char size[16];

    if (m->copy.cli->json) {
        if (!array) {
            array = json_array();
            (void)json_object_set_new(m->report, kinds[kind].word, array);
        }
        (void)json_array_append_new(array, json_string(path)); /* ignored if it is not UTF-8 */
    } else {
        (void)printf(
            "%c %s%s%s%s\n", kinds[kind].sign, path, e->kind == ATOLL_SYNC_DIRECTORY ? "/" : "",
            e->kind == ATOLL_SYNC_FILE && s->remote ? "  " : "",
            e->kind == ATOLL_SYNC_FILE && s->remote ? atoll_text_format_size(e->size, size) : "");
    }
}

static int tell(struct mounted *m, struct atoll_error *err)
{
    for (size_t i = 0; i < m->count; i++)
        tell_one(m, &m->steps[i]);
    if (m->conflicts)
        atoll_cli_say(
            "%zu conflict%s (!): changed in the folder, too, since the sandbox was made; not overwritten "
            "without --force",
            m->conflicts, m->conflicts == 1 ? "" : "s");
    return m->copy.cli->json ? atoll_cli_print_json(m->report, err) : 0;
}

/* The folder's owner may replace what was written meanwhile: by a link, or by another name of a file of root. */
static int finish_one(const struct atoll_sync_job *job, const struct atoll_sync_entry *e,
                      const struct stat *top)
{
    const char *name = NULL;
    ATOLL_AUTOCLOSE int parent = atoll_sync_open_parent(job, e->path, &name);
    ATOLL_AUTOCLOSE int fd =
        parent < 0 ? parent : openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char path[32];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 0; /* it was removed */
    if (geteuid() == 0 && st.st_uid == 0 && top->st_uid != 0 &&
        (S_ISDIR(st.st_mode) || st.st_nlink == 1) &&
        fchownat(fd, "", top->st_uid, top->st_gid, AT_EMPTY_PATH) < 0)
        return -errno;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (e->kind == ATOLL_SYNC_DIRECTORY && S_ISDIR(st.st_mode) && chmod(path, e->mode & 0777) < 0)
        return -errno;
    return 0;
}

/* A directory that stays needs no download, and root gives what it writes to the owner of the folder. */
static void finish_entries(struct atoll_sync_job *job, const struct stat *top)
{
    for (size_t i = job->count; i-- > 0;) { /* a mode may forbid to enter a directory */
        const struct atoll_sync_step *s = &job->steps[i];
        int r = s->act == ATOLL_SYNC_PULL ? finish_one(job, s->remote, top) : 0;

        if (r < 0)
            atoll_cli_copy_skip(job->copy, s->remote->path, "its owner or mode: %s", strerror(-r));
    }
}

/* What was written is what the next run takes for unchanged. */
static int keep_base(struct mounted *m, struct atoll_error *err)
{
    const struct atoll_sync_filter all = {0};
    struct atoll_sync_list local = {0};
    struct atoll_sync_base base = {0};
    int r = atoll_sync_list_local(m->dir_fd, &all, &local, err);
    size_t b = 0;

    if (r < 0)
        return r;
    for (size_t i = 0; i < m->count; i++) {
        const struct atoll_sync_step *s = &m->steps[i];
        const char *path = atoll_sync_step_path(s);
        const struct atoll_sync_entry *now = atoll_sync_find(&local, path);

        for (; b < m->base.count && strcmp(m->base.pairs[b].local.path, path) < 0; b++)
            atoll_sync_base_add(&base, &m->base.pairs[b].local, &m->base.pairs[b].remote);
        if (b < m->base.count && strcmp(m->base.pairs[b].local.path, path) == 0) {
            if (s->act == ATOLL_SYNC_CONFLICT)
                atoll_sync_base_add(&base, &m->base.pairs[b].local, &m->base.pairs[b].remote);
            b++;
        }
        if (s->act == ATOLL_SYNC_PULL && now)
            atoll_sync_base_add(&base, now, s->remote);
    }
    for (; b < m->base.count; b++)
        atoll_sync_base_add(&base, &m->base.pairs[b].local, &m->base.pairs[b].remote);
    r = atoll_sync_base_save(m->base_path, &base, err);
    atoll_sync_base_done(&base);
    atoll_sync_list_done(&local);
    return r;
}

static int write_back(struct mounted *m, struct atoll_error *err)
{
    struct atoll_sync_job job = {.copy = &m->copy,
                                 .top = m->path,
                                 .dir_fd = m->dir_fd,
                                 .steps = m->steps,
                                 .count = m->count};
    struct stat top;
    int r = fstat(m->dir_fd, &top) < 0 ? atoll_fail_errno(err, errno, "stat the folder") : 0;

    if (r == 0)
        r = atoll_sync_remove(&job, err);
    if (r == 0)
        r = atoll_sync_pull(&job, err);
    if (r < 0)
        return r;
    finish_entries(&job, &top);
    return keep_base(m, err);
}

int atoll_cli_diff_mount(struct atoll_cli *cli, const char *sandbox, const char *mount, bool apply,
                         bool force, struct atoll_error *err)
{
    struct mounted m = {.path = mount, .dir_fd = ATOLL_NO_FD, .report = json_object()};
    size_t skipped;
    int r = check_here(err);

    /* Root inside has the rights of the folder's owner and can read what it has written itself. */
    atoll_cli_copy_init(&m.copy, cli, sandbox, "root");
    if (r == 0)
        r = look(&m, err);
    if (r == 0) {
        m.steps = calloc(m.local.count + m.remote.count + m.base.count + 1, sizeof(*m.steps));
        if (!m.steps)
            abort();
        m.count = atoll_sync_plan(&m.local, &m.remote, &m.base, true, m.steps);
        decide(&m, force);
        r = tell(&m, err);
    }
    if (r == 0 && apply)
        r = write_back(&m, err);
    skipped = json_array_size(m.copy.skipped);
    free(m.steps);
    atoll_sync_base_done(&m.base);
    atoll_sync_list_done(&m.local);
    atoll_sync_list_done(&m.remote);
    atoll_cli_copy_done(&m.copy);
    json_decref(m.report);
    if (m.dir_fd >= 0)
        (void)close(m.dir_fd);
    return r < 0 ? r : m.conflicts || skipped ? ATOLL_CLI_FAILED : ATOLL_CLI_OK;
}
