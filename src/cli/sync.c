/* Keeps a folder and a folder of a sandbox in step. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>
#include "base/fd.h"
#include "cli/print.h"
#include "cli/sync_apply.h"

#define SETTLE_MS 150 /* a program that writes many files is waited for */
#define LOOK_MS 1000  /* how often the sandbox is looked at, two-way */

struct options {
    struct atoll_cli_common common;
    const char *user;
    bool watch, two_way, dry_run;
    struct atoll_cli_list exclude;
};

#define AT(member) offsetof(struct options, member)
static const struct atoll_cli_option options_table[] = {
    {"watch", 'w', ATOLL_CLI_FLAG, AT(watch), NULL, "go on until it is interrupted", NULL},
    {"two-way", 0, ATOLL_CLI_FLAG, AT(two_way), NULL, "take over what changes in the sandbox",
     NULL},
    {"exclude", 0, ATOLL_CLI_LIST, AT(exclude), "PATTERN",
     "leave out what matches, such as node_modules or 'build/*.o'", NULL},
    {"dry-run", 'n', ATOLL_CLI_FLAG, AT(dry_run), NULL, "only say what would be done", NULL},
    {"user", 'u', ATOLL_CLI_TEXT, AT(user), "NAME",
     "user in the sandbox whose permissions apply (default: user)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};
#undef AT

struct sync {
    const struct options *options;
    struct atoll_cli_copy copy;
    struct atoll_sync_filter filter;
    int dir_fd;
    char top[ATOLL_CLI_COPY_PATH_MAX];
    char base_path[ATOLL_CLI_COPY_PATH_MAX];
    size_t conflicts;
};

/* The marks of steps. "" : nothing to tell. */
static const struct {
    const char *mark, *word;
} acts[] = {
    [ATOLL_SYNC_KEEP] = {"", ""},
    [ATOLL_SYNC_PUSH] = {">", "pushed"},
    [ATOLL_SYNC_PULL] = {"<", "pulled"},
    [ATOLL_SYNC_REMOVE_REMOTE] = {"> -", "removed"},
    [ATOLL_SYNC_REMOVE_LOCAL] = {"< -", "removed_here"},
    [ATOLL_SYNC_CONFLICT] = {"!", "conflicts"},
    [ATOLL_SYNC_IGNORE] = {"", ""},
};

static int tell(struct sync *s, const struct atoll_sync_step *steps, size_t count,
                struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *report = json_object();

    s->conflicts = 0;
    for (size_t i = 0; i < count; i++) {
        const char *mark = acts[steps[i].act].mark, *path = atoll_sync_step_path(&steps[i]);
        json_t *array;

        s->conflicts += steps[i].act == ATOLL_SYNC_CONFLICT;
        if (!*mark)
            continue;
        if (!s->copy.cli->json) {
            (void)printf("%s %s\n", mark, path);
            continue;
        }
        array = json_object_get(report, acts[steps[i].act].word);
        if (!array) {
            array = json_array();
            (void)json_object_set_new(report, acts[steps[i].act].word, array);
        }
        (void)json_array_append_new(array, json_string(path)); /* ignored if it is not UTF-8 */
    }
    if (s->conflicts && !s->copy.cli->json)
        atoll_cli_say(
            "%zu conflict%s (!): changed on both sides, or only in the sandbox; nothing was "
            "overwritten",
            s->conflicts, s->conflicts == 1 ? "" : "s");
    (void)fflush(stdout);
    return s->copy.cli->json && (json_object_size(report) || !s->options->watch)
               ? atoll_cli_print_json(report, err)
               : 0;
}

/* What the sides are now is what the next round compares with. */
static int keep_base(struct sync *s, const struct atoll_sync_step *steps, size_t count,
                     struct atoll_error *err)
{
    struct atoll_sync_list local = {0}, remote = {0};
    struct atoll_sync_base base = {0};
    int r = atoll_sync_list_local(s->dir_fd, &s->filter, &local, err);

    if (r == 0)
        r = atoll_sync_list_remote(&s->copy, s->top, &s->filter, &remote, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct atoll_sync_step *step = &steps[i];
        const char *path = atoll_sync_step_path(step);
        const struct atoll_sync_entry *l = atoll_sync_find(&local, path);
        const struct atoll_sync_entry *f = atoll_sync_find(&remote, path);

        if (step->act == ATOLL_SYNC_PUSH && f)
            atoll_sync_base_add(&base, step->local, f);
        else if (step->act == ATOLL_SYNC_PULL && l && atoll_sync_same(l, step->remote))
            atoll_sync_base_add(&base, l, step->remote);
        else if (step->act == ATOLL_SYNC_KEEP && step->local && step->remote)
            atoll_sync_base_add(&base, step->local, step->remote);
        else if (step->act == ATOLL_SYNC_CONFLICT && step->base)
            atoll_sync_base_add(&base, &step->base->local, &step->base->remote);
    }
    if (r == 0)
        r = atoll_sync_base_save(s->base_path, &base, err);
    atoll_sync_base_done(&base);
    atoll_sync_list_done(&local);
    atoll_sync_list_done(&remote);
    return r;
}

static int apply(struct sync *s, const struct atoll_sync_step *steps, size_t count,
                 struct atoll_error *err)
{
    struct atoll_sync_job job = {
        .copy = &s->copy, .top = s->top, .dir_fd = s->dir_fd, .steps = steps, .count = count};
    int r = atoll_sync_remove(&job, err);

    if (r == 0)
        r = atoll_sync_push(&job, err);
    if (r == 0)
        r = atoll_sync_pull(&job, err);
    return r < 0 ? r : keep_base(s, steps, count, err);
}

static int one_round(struct sync *s, struct atoll_error *err)
{
    struct atoll_sync_list local = {0}, remote = {0};
    struct atoll_sync_base base;
    struct atoll_sync_step *steps = NULL;
    size_t count = 0;
    int r;

    atoll_sync_base_load(s->base_path, &base);
    r = atoll_sync_list_local(s->dir_fd, &s->filter, &local, err);
    if (r == 0)
        r = atoll_sync_list_remote(&s->copy, s->top, &s->filter, &remote, err);
    if (r == 0)
        r = atoll_sync_leave_unreadable(&s->copy, s->top, &local, &remote, err);
    if (r == 0) {
        steps = calloc(local.count + remote.count + base.count + 1, sizeof(*steps));
        if (!steps)
            abort();
        count = atoll_sync_plan(&local, &remote, &base, s->options->two_way, steps);
        r = tell(s, steps, count, err);
    }
    if (r == 0 && !s->options->dry_run)
        r = apply(s, steps, count, err);
    free(steps);
    atoll_sync_base_done(&base);
    atoll_sync_list_done(&local);
    atoll_sync_list_done(&remote);
    return r;
}

/* Watching. */

/* A directory that is watched already is not watched twice. */
static int watch_all(const struct sync *s, int inotify, struct atoll_error *err)
{
    static const uint32_t mask =
        IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVE | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW;
    struct atoll_sync_list local;
    char path[ATOLL_CLI_COPY_PATH_MAX + 32];
    int r = atoll_sync_list_local(s->dir_fd, &s->filter, &local, err);

    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/.", s->dir_fd);
    if (inotify_add_watch(inotify, path, mask) < 0)
        r = atoll_fail_errno(err, errno, "watch the folder");
    for (size_t i = 0; r == 0 && i < local.count; i++) {
        if (local.entries[i].kind != ATOLL_SYNC_DIRECTORY)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", s->dir_fd, local.entries[i].path);
        if (inotify_add_watch(inotify, path, mask) < 0 && errno != ENOENT)
            r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errno,
                           "watching %.200s: %s (fs.inotify.max_user_watches)",
                           local.entries[i].path, strerror(errno));
    }
    atoll_sync_list_done(&local);
    return r;
}

/* Returns when the folder has changed and is quiet, or when it is time to look at the sandbox, or
 * without inotify at the folder. */
static void wait_for_change(int inotify, bool two_way)
{
    struct pollfd p = {.fd = inotify, .events = POLLIN};
    char events[16384];
    int r = poll(&p, 1, two_way || inotify < 0 ? LOOK_MS : -1);

    while (r > 0) {
        (void)!read(inotify, events, sizeof(events));
        r = poll(&p, 1, SETTLE_MS);
    }
}

static int watch(struct sync *s, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int r = 0;

    if (inotify < 0)
        (void)fprintf(stderr,
                      "atoll: changes are looked for every second: %s "
                      "(fs.inotify.max_user_instances)\n",
                      strerror(errno));
    while (r == 0) {
        /* Before the round: a change during it wakes up the next wait. */
        r = inotify < 0 ? 0 : watch_all(s, inotify, err);
        if (r == 0)
            r = one_round(s, err);
        if (r == 0)
            wait_for_change(inotify, s->options->two_way);
    }
    return r;
}

/* The start. */

static int enter_top(struct sync *s, const char *path, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *entry = NULL;
    int r = atoll_cli_copy_call(&s->copy, "POST", "/mkdir", *path ? path : ".", "", &entry, err);
    const char *top = r < 0 ? "" : atoll_link_text(entry, "path", "");

    if (r == 0 && (*top != '/' || strlen(top) >= sizeof(s->top)))
        r = atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "the path in the sandbox is unknown");
    if (r == 0)
        (void)snprintf(s->top, sizeof(s->top), "%s", top);
    return r;
}

static int find_base(struct sync *s, const char *folder, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *view = NULL;
    struct atoll_link_target target;
    char real[PATH_MAX];
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s", s->copy.sandbox);

    if (r == 0)
        r = atoll_cli_call(s->copy.cli, "GET", target.text, NULL, &view, err);
    if (r == 0 && !realpath(folder, real))
        r = atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", folder,
                       strerror(errno));
    if (r == 0)
        atoll_sync_base_path(real, atoll_link_text(view, "id", s->copy.sandbox), s->top,
                             s->base_path);
    return r;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_side to = atoll_cli_side_parse(argv[1]);
    struct sync s = {.options = o, .filter = {o->exclude.items, o->exclude.n}};
    ATOLL_AUTOCLOSE int dir = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t skipped;
    int r;

    if (!to.remote || to.is_volume)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.100s is not SANDBOX:PATH",
                          argv[1]);
    if (dir < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", argv[0],
                          strerror(errno));
    s.dir_fd = dir;
    atoll_cli_copy_init(&s.copy, cli, to.sandbox, o->user);
    r = enter_top(&s, to.path, err);
    if (r == 0)
        r = find_base(&s, argv[0], err);
    if (r == 0)
        r = o->watch ? watch(&s, err) : one_round(&s, err);
    skipped = json_array_size(s.copy.skipped);
    atoll_cli_copy_done(&s.copy);
    return r < 0 ? r : s.conflicts || skipped ? ATOLL_CLI_FAILED : ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_sync = {
    .name = "sync",
    .args = "[OPTION]... DIR DST",
    .summary = "keep a folder and a sandbox in step",
    .help =
        "DST is SANDBOX:PATH. What is new, changed or removed in DIR since the last time becomes so in\n"
        "the sandbox, in one request; with --two-way also the reverse. A file that changed on both\n"
        "sides, and without --two-way one that changed in the sandbox, is a conflict: it is listed\n"
        "with !, nothing is overwritten, and the exit status is 1. Other files of the sandbox stay.\n"
        "\n"
        "Examples:\n"
        "  atoll sync src $id:src\n"
        "  atoll sync --watch --two-way --exclude node_modules . $id:/work\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
