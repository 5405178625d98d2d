/*
 * Sets of artifacts, in memory and in the store. A set exists once it is stored; a directory
 * without a set was left by a dead daemon or a removal and is removed. Directories to be removed
 * are first renamed to a name that begins with a dot, then emptied a few files at a time.
 */
#include "engine/artifact/artifacts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/artifact/artifacts_internal.h"

#define SETS_MAX 10000
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define LOOK_MS (INT64_C(3600) * 1000) /* checked at least so often: the clock may be set */
#define SWEEP_PER_TURN 64
#define DISK_PART 4 /* a quarter of the file system at most */
#define FLOOR_MAX ((uint64_t)64 << 20)
#define FLOOR_PART 32

/* Removing. */

static void sweep(void *arg);

static void sweep_soon(struct atoll_artifacts *a)
{
    if (!a->sweep.loop)
        atoll_timer_set(&a->sweep, a->engine->loop, 0, sweep, a);
}

static DIR *open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir && fd >= 0)
        (void)close(fd);
    return dir;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes some files of a directory; returns how many, 0 when nothing more can be removed. */
static int empty_some(struct atoll_artifacts *a, const char *name)
{
    DIR *dir = open_dir(a->dir_fd, name);
    struct dirent *entry;
    int removed = 0;

    while (dir && removed < SWEEP_PER_TURN && (entry = readdir(dir)) != NULL)
        if (!is_dots(entry->d_name))
            removed += unlinkat(dirfd(dir), entry->d_name, 0) == 0;
    if (dir)
        (void)closedir(dir);
    return removed + (unlinkat(a->dir_fd, name, AT_REMOVEDIR) == 0);
}

static void sweep(void *arg)
{
    struct atoll_artifacts *a = arg;
    DIR *dir = open_dir(a->dir_fd, ".");
    struct dirent *entry;
    char name[NAME_MAX + 1] = "";

    while (dir && !*name && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] == '.' && !is_dots(entry->d_name))
            (void)snprintf(name, sizeof(name), "%s", entry->d_name);
    if (dir)
        (void)closedir(dir);
    if (*name && empty_some(a, name) > 0)
        sweep_soon(a);
}

void atoll_artifacts_discard(struct atoll_artifacts *a, const char *id)
{
    char gone[ATOLL_ID_LEN + 32], suffix[9];

    atoll_rand_id(suffix, sizeof(suffix) - 1);
    (void)snprintf(gone, sizeof(gone), ".%s-%s", id, suffix);
    if (renameat(a->dir_fd, id, a->dir_fd, gone) == 0)
        sweep_soon(a);
}

static int kept_remove(struct atoll_artifacts *a, struct atoll_kept *kept, struct atoll_error *err)
{
    int r = atoll_store_drop_artifacts(a->engine->config.store, kept->sandbox_id, err);

    if (r < 0)
        return r;
    atoll_artifacts_discard(a, kept->sandbox_id);
    atoll_shares_drop(&a->sizes, kept->owner, kept->size_bytes);
    atoll_shares_drop(&a->counts, kept->owner, 1);
    (void)atoll_map_remove(&a->by_id, kept->sandbox_id);
    atoll_list_remove(&kept->node);
    free(kept);
    return 0;
}

static struct atoll_kept *oldest(const struct atoll_artifacts *a)
{
    return atoll_list_empty(&a->by_age)
               ? NULL
               : ATOLL_CONTAINER_OF(a->by_age.next, struct atoll_kept, node);
}

/* The oldest set of the tenants that hold the most. */
static struct atoll_kept *oldest_of_large(const struct atoll_artifacts *a,
                                          const struct atoll_shares *shares)
{
    ATOLL_LIST_FOREACH (&a->by_age, node) {
        struct atoll_kept *kept = ATOLL_CONTAINER_OF(node, struct atoll_kept, node);
        if (atoll_shares_is_large(shares, kept->owner))
            return kept;
    }
    return NULL;
}

/* Removes a set to free room; false when there is none, or it cannot be removed. */
static bool remove_one(struct atoll_artifacts *a, struct atoll_kept *kept)
{
    struct atoll_error err;

    if (!kept)
        return false;
    if (kept_remove(a, kept, &err) == 0)
        return true;
    atoll_log(ATOLL_LOG_ERROR, "artifacts not removed", "sandbox", kept->sandbox_id, "error",
              err.text, NULL);
    return false;
}

void atoll_artifacts_sizes(const struct atoll_artifacts *a, uint64_t *ret_bytes,
                           uint64_t *ret_max_bytes)
{
    *ret_bytes = a->sizes.used + a->copying_bytes;
    *ret_max_bytes = a->max_bytes;
}

/* Always leaves room for the daemon's own records. */
static bool disk_has(const struct atoll_artifacts *a, uint64_t bytes)
{
    const uint64_t free = atoll_room_free(a->dir_fd), size = atoll_room_size(a->dir_fd);
    const uint64_t floor = ATOLL_MIN(FLOOR_MAX, size / FLOOR_PART);

    return free >= floor && free - floor >= bytes;
}

bool atoll_artifacts_make_room(struct atoll_artifacts *a, uint64_t bytes)
{
    uint64_t most = a->max_bytes;

    if (!disk_has(a, bytes) || bytes > most || a->copying_bytes > most - bytes)
        return false;
    while (a->sizes.used + a->copying_bytes + bytes > most)
        if (!remove_one(a, oldest_of_large(a, &a->sizes)))
            return false;
    return true;
}

static int64_t expires(const struct atoll_artifacts *a, const struct atoll_kept *kept)
{
    uint32_t days = a->engine->config.artifacts_days;
    return days ? kept->created_unix_ms + days * DAY_MS : INT64_MAX;
}

static void expire(void *arg)
{
    struct atoll_artifacts *a = arg;
    int64_t now = atoll_clock_unix_ms();
    struct atoll_kept *kept;

    while ((kept = oldest(a)) && expires(a, kept) <= now)
        if (!remove_one(a, kept))
            break;
    kept = oldest(a);
    if (kept)
        atoll_timer_set(&a->expiry, a->engine->loop,
                        ATOLL_MIN(ATOLL_MAX(expires(a, kept) - now, INT64_C(1000)), LOOK_MS),
                        expire, a);
}

/* Adding. */

static void kept_insert(struct atoll_artifacts *a, struct atoll_kept *kept)
{
    if (atoll_map_put(&a->by_id, kept->sandbox_id, kept) < 0)
        abort(); /* ids are unique; out of memory: the daemon is crash-only */
    atoll_list_push_back(&a->by_age, &kept->node);
    atoll_shares_add(&a->sizes, kept->owner, kept->size_bytes);
    atoll_shares_add(&a->counts, kept->owner, 1);
}

void atoll_artifacts_add(struct atoll_artifacts *a, struct atoll_kept *kept,
                         const struct atoll_store_artifact *files)
{
    const struct atoll_store_artifacts row = {
        .sandbox_id = kept->sandbox_id,
        .session_id = kept->session_id,
        .owner = kept->owner,
        .reason = kept->reason,
        .complete = kept->complete,
        .count = kept->count,
        .size_bytes = kept->size_bytes,
        .created_unix_ms = kept->created_unix_ms,
    };
    struct atoll_error err;

    while (a->by_id.used >= SETS_MAX && remove_one(a, oldest_of_large(a, &a->counts)))
        ;
    if (a->by_id.used < SETS_MAX &&
        atoll_store_put_artifacts(a->engine->config.store, &row, files, &err) == 0) {
        kept_insert(a, kept);
        expire(a);
        return;
    }
    atoll_log(ATOLL_LOG_ERROR, "artifacts not stored", "sandbox", kept->sandbox_id, "error",
              a->by_id.used < SETS_MAX ? err.text : "there are too many", NULL);
    atoll_artifacts_discard(a, kept->sandbox_id);
    free(kept);
}

/* Open and close. */

static int load_set(void *arg, const struct atoll_store_artifacts *row, struct atoll_error *err)
{
    struct atoll_artifacts *a = arg;
    struct atoll_kept *kept = atoll_alloc(sizeof(*kept));

    if (atoll_text_copy(kept->sandbox_id, sizeof(kept->sandbox_id), row->sandbox_id) < 0 ||
        atoll_text_copy(kept->session_id, sizeof(kept->session_id), row->session_id) < 0 ||
        atoll_text_copy(kept->owner, sizeof(kept->owner), row->owner) < 0 ||
        atoll_text_copy(kept->reason, sizeof(kept->reason), row->reason) < 0) {
        free(kept);
        return atoll_fail_errno(err, EBADMSG, "artifacts in the store");
    }
    kept->complete = row->complete;
    kept->count = row->count;
    kept->size_bytes = row->size_bytes;
    kept->created_unix_ms = row->created_unix_ms;
    kept_insert(a, kept);
    return 0;
}

/* Removes directories that belong to no set. */
static void remove_orphans(struct atoll_artifacts *a)
{
    DIR *dir = open_dir(a->dir_fd, ".");
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && !atoll_map_get(&a->by_id, entry->d_name))
            atoll_artifacts_discard(a, entry->d_name);
    if (dir)
        (void)closedir(dir);
    sweep_soon(a);
}

int atoll_artifacts_new(struct atoll_engine *engine, struct atoll_artifacts **ret,
                        struct atoll_error *err)
{
    struct atoll_artifacts *a = calloc(1, sizeof(*a));
    int r;

    if (!a)
        return atoll_fail_errno(err, ENOMEM, "artifacts");
    a->engine = engine;
    atoll_map_init(&a->by_id);
    atoll_shares_init(&a->counts, SETS_MAX);
    atoll_list_init(&a->by_age);
    atoll_list_init(&a->captures);
    r = mkdirat(engine->state_fd, "artifacts", 0700) < 0 && errno != EEXIST ? -errno : 0;
    atoll_shares_init(&a->sizes, engine->config.artifacts_max_bytes);
    a->dir_fd = r < 0 ? ATOLL_NO_FD
                      : openat(engine->state_fd, "artifacts",
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    a->max_bytes = ATOLL_MIN(engine->config.artifacts_max_bytes,
                             a->dir_fd < 0 ? 0 : atoll_room_size(a->dir_fd) / DISK_PART);
    r = a->dir_fd < 0 ? atoll_fail_errno(err, errno, "make the directory for artifacts")
                      : atoll_store_each_artifacts(engine->config.store, load_set, a, err);
    if (r < 0) {
        (void)atoll_artifacts_free(a);
        return r;
    }
    remove_orphans(a);
    expire(a);
    *ret = a;
    return 0;
}

struct atoll_artifacts *atoll_artifacts_free(struct atoll_artifacts *a)
{
    struct atoll_kept *kept;
    size_t pos = 0;

    if (!a)
        return NULL;
    atoll_timer_cancel(&a->expiry);
    atoll_timer_cancel(&a->sweep);
    while ((kept = atoll_map_next(&a->by_id, &pos)) != NULL)
        free(kept);
    atoll_map_done(&a->by_id);
    atoll_shares_done(&a->sizes);
    atoll_shares_done(&a->counts);
    if (a->dir_fd >= 0)
        (void)close(a->dir_fd);
    free(a);
    return NULL;
}

/* Lookup. */

static bool view(const struct atoll_artifacts *a, const struct atoll_kept *kept,
                 struct atoll_artifacts_view *ret)
{
    if (!kept || expires(a, kept) <= atoll_clock_unix_ms())
        return false;
    *ret = (struct atoll_artifacts_view){
        .sandbox_id = kept->sandbox_id,
        .session_id = kept->session_id,
        .owner = kept->owner,
        .complete = kept->complete,
        .reason = kept->reason,
        .count = kept->count,
        .size_bytes = kept->size_bytes,
        .created_unix_ms = kept->created_unix_ms,
        .expires_unix_ms = a->engine->config.artifacts_days ? expires(a, kept) : 0,
    };
    return true;
}

bool atoll_artifacts_find(struct atoll_engine *engine, const char *sandbox_id,
                          struct atoll_artifacts_view *ret)
{
    return view(engine->artifacts, atoll_map_get(&engine->artifacts->by_id, sandbox_id), ret);
}

bool atoll_artifacts_find_session(struct atoll_engine *engine, const char *session_id,
                                  struct atoll_artifacts_view *ret)
{
    for (const void *pos = NULL; *session_id && atoll_artifacts_next(engine, &pos, ret);)
        if (strcmp(ret->session_id, session_id) == 0)
            return true;
    return false;
}

bool atoll_artifacts_next(struct atoll_engine *engine, const void **pos,
                          struct atoll_artifacts_view *ret)
{
    const struct atoll_list *head = &engine->artifacts->by_age, *node = *pos ? *pos : head;

    while ((node = node->next) != head) {
        *pos = node;
        if (view(engine->artifacts, ATOLL_CONTAINER_OF(node, const struct atoll_kept, node), ret))
            return true;
    }
    return false;
}

struct file_walk {
    void (*each)(void *arg, const struct atoll_artifact *file);
    void *arg;
};

static int give_file(void *arg, const struct atoll_store_artifact *row, struct atoll_error *err)
{
    const struct file_walk *w = arg;

    (void)err;
    w->each(w->arg, &(struct atoll_artifact){row->path, row->size_bytes, row->mtime_ms});
    return 0;
}

int atoll_artifacts_files(struct atoll_engine *engine, const char *sandbox_id,
                          void (*each)(void *arg, const struct atoll_artifact *file), void *arg,
                          struct atoll_error *err)
{
    struct file_walk w = {each, arg};
    return atoll_store_each_artifact(engine->config.store, sandbox_id, NULL, give_file, &w, err);
}

static int take_row(void *arg, const struct atoll_store_artifact *row, struct atoll_error *err)
{
    struct atoll_store_artifact *ret = arg;

    (void)err;
    *ret = *row;
    ret->path = ""; /* not NULL: found */
    return 0;
}

int atoll_artifacts_open(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                         int *ret_fd, uint64_t *ret_size_bytes, struct atoll_error *err)
{
    struct atoll_store_artifact row = {0};
    char name[ATOLL_ID_LEN + 32];
    int fd,
        r = atoll_store_each_artifact(engine->config.store, sandbox_id, path, take_row, &row, err);

    if (r < 0)
        return r;
    if (!row.path)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no artifact %.200s", path);
    (void)snprintf(name, sizeof(name), "%s/%u", sandbox_id, (unsigned)row.number);
    fd = openat(engine->artifacts->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "open an artifact");
    *ret_fd = fd;
    *ret_size_bytes = row.size_bytes;
    return 0;
}

int atoll_artifacts_remove(struct atoll_engine *engine, const char *sandbox_id,
                           struct atoll_error *err)
{
    struct atoll_kept *kept = atoll_map_get(&engine->artifacts->by_id, sandbox_id);

    if (!kept)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there are no artifacts of sandbox %.32s", sandbox_id);
    return kept_remove(engine->artifacts, kept, err);
}
