#include "cli/sync_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "base/fd.h"
#include "base/glob.h"

static char *copy_text(const char *text)
{
    char *made = strdup(text);

    if (!made)
        abort();
    return made;
}

/* Doubles the room when the count is a power of two. */
static void *grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1))
        return array;
    array = realloc(array, (count ? 2 * count : 1) * size);
    if (!array)
        abort();
    return array;
}

static struct atoll_sync_entry dup_entry(const struct atoll_sync_entry *entry)
{
    struct atoll_sync_entry made = *entry;

    made.path = copy_text(entry->path);
    made.target = copy_text(entry->target ? entry->target : "");
    return made;
}

static void free_entry(const struct atoll_sync_entry *entry)
{
    free((char *)(uintptr_t)entry->path);
    free((char *)(uintptr_t)entry->target);
}

static int add(struct atoll_sync_list *list, const struct atoll_sync_entry *entry,
               struct atoll_error *err)
{
    if (list->count == ATOLL_SYNC_ENTRIES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "there are more than %d entries", ATOLL_SYNC_ENTRIES_MAX);
    list->entries = grow(list->entries, list->count, sizeof(*list->entries));
    list->entries[list->count++] = dup_entry(entry);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct atoll_sync_entry *)a)->path,
                  ((const struct atoll_sync_entry *)b)->path);
}

static void sort(struct atoll_sync_list *list)
{
    if (list->count)
        qsort(list->entries, list->count, sizeof(*list->entries), by_path);
}

void atoll_sync_list_done(struct atoll_sync_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free_entry(&list->entries[i]);
    free(list->entries);
    *list = (struct atoll_sync_list){0};
}

const struct atoll_sync_entry *atoll_sync_find(const struct atoll_sync_list *list, const char *path)
{
    const struct atoll_sync_entry key = {.path = path};

    return list->count ? bsearch(&key, list->entries, list->count, sizeof(key), by_path) : NULL;
}

/* What is left out, with all below it. */
static bool is_excluded(const struct atoll_sync_filter *filter, const char *path)
{
    char part[ATOLL_CLI_COPY_PATH_MAX];

    for (const char *end = path; *end; end += *end == '/') {
        const char *name = end;

        end += strcspn(end, "/");
        if ((size_t)(end - path) >= sizeof(part))
            return true;
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = '\0';
        for (size_t i = 0; i < filter->count; i++)
            if (atoll_glob_match(filter->patterns[i], part) ||
                (!strchr(filter->patterns[i], '/') &&
                 atoll_glob_match(filter->patterns[i], part + (name - path))))
                return true;
    }
    return false;
}

/* The folder. */

struct walk {
    struct atoll_sync_list *list;
    const struct atoll_sync_filter *filter;
    char path[ATOLL_CLI_COPY_PATH_MAX];
};

static int walk(struct walk *w, int dir_fd, size_t len, unsigned depth, struct atoll_error *err);

static int take(struct walk *w, int dir_fd, const char *name, size_t len, unsigned depth,
                struct atoll_error *err)
{
    struct atoll_sync_entry e = {.path = w->path, .target = ""};
    char target[ATOLL_CLI_COPY_PATH_MAX];
    struct stat st;
    ssize_t n;
    int r, fd;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : atoll_fail_errno(err, errno, "read the folder");
    e.size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    e.mtime_ms = st.st_mtim.tv_sec * INT64_C(1000) + st.st_mtim.tv_nsec / 1000000;
    e.ctime_ms = st.st_ctim.tv_sec * INT64_C(1000) + st.st_ctim.tv_nsec / 1000000;
    e.mode = st.st_mode & 0777;
    if (S_ISLNK(st.st_mode)) {
        n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        if (n < 0)
            return 0;
        target[n] = '\0';
        e.kind = ATOLL_SYNC_LINK;
        e.target = target;
        return add(w->list, &e, err);
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    e.kind = S_ISREG(st.st_mode) ? ATOLL_SYNC_FILE : ATOLL_SYNC_DIRECTORY;
    r = add(w->list, &e, err);
    if (r < 0 || S_ISREG(st.st_mode))
        return r;
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, errno, "%.200s: %s", w->path,
                          strerror(errno));
    return walk(w, fd, len, depth + 1, err);
}

/* Takes dir_fd. w->path has `len` bytes. */
static int walk(struct walk *w, int dir_fd, size_t len, unsigned depth, struct atoll_error *err)
{
    DIR *dir = depth > ATOLL_CLI_COPY_DEPTH_MAX ? NULL : fdopendir(dir_fd);
    const struct dirent *entry;
    int r = 0;

    if (!dir) {
        (void)close(dir_fd);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ELOOP, "the folder is too deep");
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        int n;

        if (!atoll_cli_copy_is_name(entry->d_name))
            continue;
        n = snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "", entry->d_name);
        if ((size_t)n >= sizeof(w->path) - len)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "a path is too long");
        else if (!is_excluded(w->filter, w->path))
            r = take(w, dirfd(dir), entry->d_name, len + (size_t)n, depth, err);
        w->path[len] = '\0';
    }
    (void)closedir(dir);
    return r;
}

int atoll_sync_list_local(int dir_fd, const struct atoll_sync_filter *filter,
                          struct atoll_sync_list *ret, struct atoll_error *err)
{
    struct walk w = {.list = ret, .filter = filter};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    *ret = (struct atoll_sync_list){0};
    if (fd < 0)
        return atoll_fail_errno(err, errno, "open the folder");
    r = walk(&w, fd, 0, 0, err);
    if (r < 0)
        atoll_sync_list_done(ret);
    sort(ret);
    return r;
}

/* The sandbox. */

static bool is_inner_path(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");

        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

int64_t atoll_sync_time(const char *text)
{
    struct tm tm = {0};
    int ms = 0;

    if (sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &ms) < 6)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (int64_t)timegm(&tm) * 1000 + ms;
}

static int take_remote(struct atoll_sync_list *list, const char *top, const json_t *object,
                       const struct atoll_sync_filter *filter, struct atoll_error *err)
{
    const char *path = atoll_link_text(object, "path", "");
    const char *type = atoll_link_text(object, "type", "");
    size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);
    struct atoll_sync_entry e = {
        .path = path + n + 1,
        .size = 0,
        .mtime_ms = atoll_sync_time(atoll_link_text(object, "mtime", "")),
        .mode = (uint32_t)strtoul(atoll_link_text(object, "mode", "0"), NULL, 8) & 0777,
        .target = atoll_link_text(object, "target", ""),
        .kind = strcmp(type, "file") == 0        ? ATOLL_SYNC_FILE
                : strcmp(type, "directory") == 0 ? ATOLL_SYNC_DIRECTORY
                                                 : ATOLL_SYNC_LINK,
    };

    if (strncmp(path, top, n) != 0 || path[n] != '/' || !is_inner_path(e.path) ||
        strlen(e.path) >= ATOLL_CLI_COPY_PATH_MAX || strcmp(type, "other") == 0 ||
        is_excluded(filter, e.path))
        return 0;
    if (e.kind == ATOLL_SYNC_FILE)
        e.size = atoll_link_count(object, "size");
    else
        e.mtime_ms = e.kind == ATOLL_SYNC_LINK ? 0 : e.mtime_ms;
    return add(list, &e, err);
}

int atoll_sync_list_remote(struct atoll_cli_copy *copy, const char *top,
                           const struct atoll_sync_filter *filter, struct atoll_sync_list *ret,
                           struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_copy_call(copy, "GET", "/list", top, "&depth=64", &reply, err);
    const json_t *entries = r < 0 ? NULL : json_object_get(reply, "entries");

    *ret = (struct atoll_sync_list){0};
    for (size_t i = 0; r == 0 && i < json_array_size(entries); i++)
        r = take_remote(ret, top, json_array_get(entries, i), filter, err);
    if (r < 0)
        atoll_sync_list_done(ret);
    sort(ret);
    return r;
}

/* Whether an entry of the sorted list is below the directory. */
static bool has_below(const struct atoll_sync_list *list, const char *directory)
{
    size_t n = strlen(directory), low = 0, high = list->count;

    while (low < high) { /* the first that does not sort before "DIRECTORY/" */
        size_t middle = low + (high - low) / 2;
        int order = strncmp(list->entries[middle].path, directory, n);

        if (order < 0 || (order == 0 && (unsigned char)list->entries[middle].path[n] < '/'))
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && strncmp(list->entries[low].path, directory, n) == 0 &&
           list->entries[low].path[n] == '/';
}

static void leave_below(struct atoll_sync_list *list, const char *directory)
{
    size_t n = strlen(directory), kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->entries[i].path;

        if (strncmp(path, directory, n) == 0 && path[n] == '/')
            free_entry(&list->entries[i]);
        else
            list->entries[kept++] = list->entries[i];
    }
    list->count = kept;
}

int atoll_sync_leave_unreadable(struct atoll_cli_copy *copy, const char *top,
                                struct atoll_sync_list *local, const struct atoll_sync_list *remote,
                                struct atoll_error *err)
{
    char path[ATOLL_CLI_COPY_PATH_MAX];

    for (size_t i = 0; i < remote->count; i++) {
        const struct atoll_sync_entry *e = &remote->entries[i];
        ATOLL_AUTOJSON json_t *reply = NULL;

        if (e->kind != ATOLL_SYNC_DIRECTORY || has_below(remote, e->path) ||
            !has_below(local, e->path))
            continue;
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", strcmp(top, "/") == 0 ? "" : top,
                             e->path) >= sizeof(path))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "a path is too long");
        if (atoll_cli_copy_call(copy, "GET", "/list", path, "&depth=1", &reply, err) == 0)
            continue;
        if (err->kind != ATOLL_ERR_PERMISSION_DENIED && err->kind != ATOLL_ERR_NOT_FOUND)
            return -EIO;
        atoll_cli_copy_skip(copy, e->path, "it cannot be read in the sandbox");
        leave_below(local, e->path);
    }
    return 0;
}

/* What the sides were. */

void atoll_sync_base_path(const char *folder, const char *sandbox_id, const char *top,
                          char out[static ATOLL_CLI_COPY_PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *texts[] = {folder, top};
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    int n;

    for (size_t i = 0; i < 2; i++)
        for (const char *p = texts[i];; p++) {
            hash = (hash ^ (uint8_t)*p) * UINT64_C(1099511628211);
            if (!*p)
                break;
        }
    if (state && *state == '/')
        n = snprintf(out, ATOLL_CLI_COPY_PATH_MAX, "%s/atoll/sync", state);
    else
        n = home && *home == '/'
                ? snprintf(out, ATOLL_CLI_COPY_PATH_MAX, "%s/.local/state/atoll/sync", home)
                : ATOLL_CLI_COPY_PATH_MAX;
    if (n < ATOLL_CLI_COPY_PATH_MAX)
        n += snprintf(out + n, ATOLL_CLI_COPY_PATH_MAX - (size_t)n, "/%s-%016llx.json", sandbox_id,
                      (unsigned long long)hash);
    if (n >= ATOLL_CLI_COPY_PATH_MAX)
        out[0] = '\0';
}

static bool read_entry(const json_t *array, size_t at, const char *path,
                       struct atoll_sync_entry *ret)
{
    const char *kind = json_string_value(json_array_get(array, at));
    const char *target = json_string_value(json_array_get(array, at + 4));

    *ret = (struct atoll_sync_entry){
        .path = path,
        .kind = kind ? (enum atoll_sync_kind) * kind : 0,
        .size = (uint64_t)json_integer_value(json_array_get(array, at + 1)),
        .mtime_ms = json_integer_value(json_array_get(array, at + 2)),
        .mode = (uint32_t)json_integer_value(json_array_get(array, at + 3)),
        .target = target ? target : "",
    };
    return kind != NULL;
}

void atoll_sync_base_load(const char *path, struct atoll_sync_base *ret)
{
    ATOLL_AUTOJSON json_t *rows = *path ? json_load_file(path, 0, NULL) : NULL;

    *ret = (struct atoll_sync_base){0};
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_array_get(row, 0));
        struct atoll_sync_entry local, remote;

        if (name && is_inner_path(name) && read_entry(row, 1, name, &local) &&
            read_entry(row, 6, name, &remote))
            atoll_sync_base_add(ret, &local, &remote);
    }
}

static void make_parents(const char *path)
{
    char part[ATOLL_CLI_COPY_PATH_MAX];

    for (const char *slash = path; (slash = strchr(slash + 1, '/')) != NULL;) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        (void)mkdir(part, 0700); /* a failure shows when the file is written */
    }
}

int atoll_sync_base_save(const char *path, const struct atoll_sync_base *base,
                         struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *rows = json_array();
    char temporary[ATOLL_CLI_COPY_PATH_MAX + 8];

    if (!*path)
        return 0;
    for (size_t i = 0; i < base->count; i++) {
        const struct atoll_sync_entry *l = &base->pairs[i].local, *r = &base->pairs[i].remote;
        const char kinds[] = {(char)l->kind, '\0', (char)r->kind, '\0'};

        /* NULL, and so never in step, if a name is not UTF-8. */
        (void)json_array_append_new(
            rows, json_pack("[s, s, I, I, I, s, s, I, I, I, s]", l->path, kinds,
                            (json_int_t)l->size, (json_int_t)l->mtime_ms, (json_int_t)l->mode,
                            l->target, kinds + 2, (json_int_t)r->size, (json_int_t)r->mtime_ms,
                            (json_int_t)r->mode, r->target));
    }
    make_parents(path);
    (void)snprintf(temporary, sizeof(temporary), "%s.new", path);
    if (json_dump_file(rows, temporary, JSON_COMPACT) < 0 || rename(temporary, path) < 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, errno, "%.200s cannot be written: %s", path,
                          strerror(errno));
    return 0;
}

void atoll_sync_base_done(struct atoll_sync_base *base)
{
    for (size_t i = 0; i < base->count; i++) {
        free_entry(&base->pairs[i].local);
        free_entry(&base->pairs[i].remote);
    }
    free(base->pairs);
    *base = (struct atoll_sync_base){0};
}

void atoll_sync_base_add(struct atoll_sync_base *base, const struct atoll_sync_entry *local,
                         const struct atoll_sync_entry *remote)
{
    base->pairs = grow(base->pairs, base->count, sizeof(*base->pairs));
    base->pairs[base->count++] =
        (struct atoll_sync_pair){.local = dup_entry(local), .remote = dup_entry(remote)};
}
