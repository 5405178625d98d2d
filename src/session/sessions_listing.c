#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "session/sessions_internal.h"

#define DEPTH_MAX 32
#define FILES_MAX 20000

struct listed {
    uint64_t size_bytes;
    int64_t mtime_ms;
    char path[]; /* relative to the directory */
};

void atoll_listing_init(struct atoll_listing *l)
{
    *l = (struct atoll_listing){0};
    atoll_map_init(&l->files);
}

void atoll_listing_done(struct atoll_listing *l)
{
    struct listed *file;
    size_t pos = 0;

    while ((file = atoll_map_next(&l->files, &pos)))
        free(file);
    atoll_map_done(&l->files);
    json_decref(l->ignore);
    l->ignore = NULL;
}

static bool is_code(struct atoll_listing *l, const char *path)
{
    if (strncmp(path, ATOLL_SESSION_CODE_PREFIX, strlen(ATOLL_SESSION_CODE_PREFIX)) != 0)
        return false;
    if (l->code_count < ATOLL_LISTING_CODES &&
        atoll_text_copy(l->codes[l->code_count], sizeof(l->codes[0]), path) == 0)
        l->code_count++;
    return true;
}

static bool is_ignored(const struct atoll_listing *l, const char *path)
{
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1)
        for (size_t i = 0; i < json_array_size(l->ignore); i++) {
            const char *name = json_string_value(json_array_get(l->ignore, i));
            if (strlen(name) == (size_t)(slash - path) &&
                memcmp(name, path, (size_t)(slash - path)) == 0)
                return true;
        }
    return false;
}

static void take(void *arg, const struct atoll_am_entry *entry)
{
    struct atoll_listing *l = arg;
    const char *slash = strrchr(entry->path, '/');
    struct listed *file;
    size_t n;

    /* The first entry is always in the directory itself. */
    if (l->root_len == 0)
        l->root_len = (size_t)(slash - entry->path) + 1;
    if (entry->type != ATOLL_ENTRY_FILE || strlen(entry->path) <= l->root_len ||
        is_code(l, entry->path + l->root_len) || is_ignored(l, entry->path + l->root_len))
        return;
    if (l->files.used >= FILES_MAX) {
        l->incomplete = true;
        return;
    }
    n = strlen(entry->path + l->root_len) + 1;
    file = atoll_session_alloc(sizeof(*file) + n);
    file->size_bytes = entry->size_bytes;
    file->mtime_ms = entry->mtime_ms;
    memcpy(file->path, entry->path + l->root_len, n);
    if (atoll_map_put(&l->files, file->path, file) < 0)
        free(file); /* listed twice: renamed during the listing */
}

static void ended(void *arg, const struct atoll_error *error)
{
    struct atoll_listing *l = arg;

    if (error)
        l->incomplete = true;
    /* Too many entries: deliver those there are. */
    l->done(l->arg, error && error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED ? NULL : error);
}

void atoll_listing_take(struct atoll_listing *l, struct atoll_engine *engine,
                        const char *sandbox_id, const json_t *ignore, atoll_done_fn *done,
                        void *arg)
{
    atoll_listing_done(l);
    atoll_listing_init(l);
    l->ignore = json_incref((json_t *)ignore);
    l->done = done;
    l->arg = arg;
    atoll_files_list(engine, sandbox_id, NULL, ".", DEPTH_MAX, take, ended, l);
}

static int by_path(const void *a, const void *b)
{
    const struct atoll_session_artifact *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static bool is_same(const struct listed *a, const struct listed *b)
{
    return a->size_bytes == b->size_bytes && a->mtime_ms == b->mtime_ms;
}

struct atoll_session_artifact *atoll_listing_changes(const struct atoll_listing *before,
                                                     const struct atoll_listing *after,
                                                     size_t *ret_count, bool *ret_all)
{
    struct atoll_session_artifact *changes;
    const struct listed *file;
    size_t pos = 0, count = 0;

    *ret_count = 0;
    *ret_all = !after->incomplete && (!before || !before->incomplete);
    changes = atoll_session_alloc((after->files.used + 1) * sizeof(*changes));
    /* Without a complete list from before, old files would be reported as new. */
    while ((!before || !before->incomplete) && (file = atoll_map_next(&after->files, &pos))) {
        const struct listed *was = before ? atoll_map_get(&before->files, file->path) : NULL;
        if (!was || !is_same(was, file))
            changes[count++] =
                (struct atoll_session_artifact){file->path, file->size_bytes, was == NULL};
    }
    if (count > 1)
        qsort(changes, count, sizeof(*changes), by_path);
    if (count > ATOLL_SESSION_ARTIFACTS_MAX) {
        count = ATOLL_SESSION_ARTIFACTS_MAX;
        *ret_all = false;
    }
    *ret_count = count;
    return changes;
}
