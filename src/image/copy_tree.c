#include "image/copy_tree.h"

#include <errno.h>
#include <string.h>
#include "base/memory.h"

#define LINKS_MAX 40
#define WALK_MAX ((size_t)64 * 1024) /* bytes of a path with the targets of its links */

/* Orders paths so that "/" sorts before every other character. */
static int compare(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0;

    while (i < n && i < m && a[i] == b[i])
        i++;
    if (i == n || i == m)
        return (n > m) - (n < m);
    if (a[i] == '/' || b[i] == '/')
        return a[i] == '/' ? -1 : 1;
    return (uint8_t)a[i] < (uint8_t)b[i] ? -1 : 1;
}

static int by_path(const void *a, const void *b)
{
    const struct atoll_copy_entry *x = a, *y = b;

    int r = compare(x->path, strlen(x->path), y->path, strlen(y->path));

    /* Equal paths keep the order of their lines: both point into one text. */
    return r ? r : (x->path > y->path) - (x->path < y->path);
}

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : (c | ' ') - 'a' + 10);
}

static void set_entry(struct atoll_copy_entry *entry, const struct atoll_tree_line *line)
{
    *entry = (struct atoll_copy_entry){.path = line->path,
                                       .target = line->target,
                                       .mode = line->mode,
                                       .uid = line->uid,
                                       .gid = line->gid,
                                       .type = (uint8_t)line->type};
    for (size_t i = 0; *line->sha256 && i < sizeof(entry->sha256); i++)
        entry->sha256[i] =
            (uint8_t)(digit(line->sha256[2 * i]) << 4 | digit(line->sha256[2 * i + 1]));
}

static int read_lines(struct atoll_copy_tree *tree, struct atoll_error *err)
{
    size_t number = 1;

    for (char *p = tree->text, *end; *p; p = end, number++) {
        struct atoll_tree_line line;
        end = p + strcspn(p, "\n");
        if (*end)
            *end++ = '\0';
        if (atoll_tree_line_read(p, &line) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the manifest of the files has a bad line %zu", number);
        if (line.type != ATOLL_TREE_WHITEOUT)
            set_entry(&tree->entries[tree->count++], &line);
    }
    return 0;
}

/* Of several lines with one path the last one counts; a file hides what is below its path. */
static void drop_hidden(struct atoll_copy_tree *tree)
{
    size_t kept = 0;

    for (size_t i = 0; i < tree->count; i++) {
        const struct atoll_copy_entry *entry = &tree->entries[i];
        const struct atoll_copy_entry *last = kept ? &tree->entries[kept - 1] : NULL;
        size_t n = last ? strlen(last->path) : 0;
        if (last && strcmp(last->path, entry->path) == 0)
            kept--;
        else if (last && last->type != ATOLL_TREE_DIRECTORY &&
                 strncmp(last->path, entry->path, n) == 0 && entry->path[n] == '/')
            continue;
        tree->entries[kept++] = *entry;
    }
    tree->count = kept;
}

static int index_lines(struct atoll_copy_tree *tree, const char *text, size_t n,
                       struct atoll_error *err)
{
    static const struct atoll_copy_entry root = {
        .path = "", .target = "", .mode = 0755, .type = ATOLL_TREE_DIRECTORY};
    size_t lines = 2;

    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    tree->text = malloc(n + 1);
    tree->entries = calloc(lines, sizeof(*tree->entries));
    if (!tree->text || !tree->entries)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for a manifest");
    memcpy(tree->text, text, n);
    tree->text[n] = '\0';
    if (read_lines(tree, err) < 0)
        return -EINVAL;
    qsort(tree->entries, tree->count, sizeof(*tree->entries), by_path);
    drop_hidden(tree);
    if (tree->count == 0 || *tree->entries[0].path) {
        memmove(tree->entries + 1, tree->entries, tree->count * sizeof(*tree->entries));
        tree->entries[0] = root;
        tree->count++;
    }
    return 0;
}

int atoll_copy_tree_parse(const char *text, size_t n, struct atoll_copy_tree **ret,
                          struct atoll_error *err)
{
    struct atoll_copy_tree *tree;

    if (n > ATOLL_COPY_MANIFEST_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "too many files");
    tree = atoll_alloc(sizeof(*tree));
    if (index_lines(tree, text, n, err) < 0) {
        atoll_copy_tree_free(tree);
        return -EINVAL;
    }
    *ret = tree;
    return 0;
}

struct atoll_copy_tree *atoll_copy_tree_free(struct atoll_copy_tree *tree)
{
    if (tree) {
        free(tree->text);
        free(tree->entries);
    }
    free(tree);
    return NULL;
}

/* The first entry whose path is not before the given one. */
static size_t lower_bound(const struct atoll_copy_tree *tree, const char *path, size_t n)
{
    size_t low = 0, high = tree->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const char *other = tree->entries[mid].path;
        if (compare(other, strlen(other), path, n) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct atoll_copy_entry *atoll_copy_tree_find(const struct atoll_copy_tree *tree,
                                                    const char *path, size_t n)
{
    size_t at = lower_bound(tree, path, n);

    if (at == tree->count || strlen(tree->entries[at].path) != n ||
        memcmp(tree->entries[at].path, path, n) != 0)
        return NULL;
    return &tree->entries[at];
}

const struct atoll_copy_entry *atoll_copy_tree_end(const struct atoll_copy_tree *tree,
                                                   const struct atoll_copy_entry *entry)
{
    size_t n = strlen(entry->path), low = (size_t)(entry - tree->entries) + 1, high = tree->count;

    if (n == 0)
        return tree->entries + tree->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const char *path = tree->entries[mid].path;
        if (strncmp(path, entry->path, n) == 0 && path[n] == '/')
            low = mid + 1;
        else
            high = mid;
    }
    return &tree->entries[low];
}

/* A walk: the path so far, and what is left of the components. */
struct walk {
    char done[WALK_MAX]; /* clean, without "/" at its ends */
    size_t done_len;
    char left[WALK_MAX];
    int links;
};

static void step_up(struct walk *w)
{
    while (w->done_len > 0 && w->done[--w->done_len] != '/')
        ;
}

/* Puts the target of a link before what is left. False if that is too long. */
static bool follow(struct walk *w, const char *target, const char *rest)
{
    size_t n = strlen(target), m = strlen(rest);

    if (++w->links > LINKS_MAX || n + 1 + m + 1 > WALK_MAX)
        return false;
    memmove(w->left + n + 1, rest, m + 1);
    memcpy(w->left, target, n);
    w->left[n] = '/';
    if (*target == '/')
        w->done_len = 0;
    else
        step_up(w);
    return true;
}

static const struct atoll_copy_entry *walk(const struct atoll_copy_tree *tree, struct walk *w,
                                           bool *ret_loop)
{
    const struct atoll_copy_entry *entry = &tree->entries[0];
    char *p = w->left;

    while (*p) {
        size_t n = strcspn(p, "/");
        char *rest = p + n + (p[n] == '/');
        if (n == 2 && memcmp(p, "..", 2) == 0) {
            step_up(w);
        } else if (n > 0 && !(n == 1 && *p == '.')) {
            if (w->done_len + n + 2 > WALK_MAX)
                return NULL;
            if (w->done_len > 0)
                w->done[w->done_len++] = '/';
            memcpy(w->done + w->done_len, p, n);
            w->done_len += n;
        }
        entry = atoll_copy_tree_find(tree, w->done, w->done_len);
        if (!entry)
            return NULL;
        if (entry->type == ATOLL_TREE_LINK) {
            *ret_loop = !follow(w, entry->target, rest);
            if (*ret_loop)
                return NULL;
            rest = w->left;
        } else if (entry->type != ATOLL_TREE_DIRECTORY && *rest) {
            return NULL;
        }
        p = rest;
    }
    /* What is left may have ended with a link to "..". */
    return atoll_copy_tree_find(tree, w->done, w->done_len);
}

const struct atoll_copy_entry *atoll_copy_tree_walk(const struct atoll_copy_tree *tree,
                                                    const char *path, bool *ret_loop)
{
    const struct atoll_copy_entry *entry;
    struct walk *w;

    *ret_loop = false;
    if (strlen(path) >= WALK_MAX)
        return NULL;
    w = atoll_alloc(sizeof(*w));
    memcpy(w->left, path, strlen(path) + 1);
    entry = walk(tree, w, ret_loop);
    free(w);
    return entry;
}
