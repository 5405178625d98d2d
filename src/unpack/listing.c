#include "unpack/listing.h"

#include <errno.h>
#include <string.h>
#include "base/fd.h"
#include "base/map.h"
#include "base/memory.h"

#define LINE_MAX_BYTES ((size_t)64 * 1024)
#define CHUNK_BYTES ((size_t)256 * 1024)

struct entry {
    struct atoll_tree_line line;
    size_t number; /* in the order of the archive */
    char texts[];  /* path, target */
};

struct atoll_listing {
    struct atoll_map by_path; /* of struct entry, owned */
    size_t count;             /* entries ever added */
};

struct atoll_listing *atoll_listing_new(void)
{
    struct atoll_listing *l = atoll_alloc(sizeof(*l));

    atoll_map_init(&l->by_path);
    return l;
}

struct atoll_listing *atoll_listing_free(struct atoll_listing *l)
{
    struct entry *e;
    size_t pos = 0;

    if (!l)
        return NULL;
    while ((e = atoll_map_next(&l->by_path, &pos)))
        free(e);
    atoll_map_done(&l->by_path);
    free(l);
    return NULL;
}

/* An archive need not list the directories above its entries: the tree has them, with this mode. */
static int add_above(struct atoll_listing *l, const char *path)
{
    const char *slash = strrchr(path, '/');
    ATOLL_AUTOFREE char *above = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    struct atoll_tree_line line = {
        .type = ATOLL_TREE_DIRECTORY, .mode = 0755, .path = above, .target = ""};

    if (!slash || (above && atoll_map_get(&l->by_path, above)))
        return 0;
    return above ? atoll_listing_add(l, &line) : -ENOMEM;
}

int atoll_listing_add(struct atoll_listing *l, const struct atoll_tree_line *line)
{
    size_t path = strlen(line->path) + 1, target = strlen(line->target) + 1;
    struct entry *e = malloc(sizeof(*e) + path + target);
    int r = e ? add_above(l, line->path) : -ENOMEM;

    if (r < 0) {
        free(e);
        return r;
    }
    e->line = *line;
    memcpy(e->texts, line->path, path);
    memcpy(e->texts + path, line->target, target);
    e->line.path = e->texts;
    e->line.target = e->texts + path;
    e->number = l->count++;
    free(atoll_map_remove(&l->by_path, e->line.path));
    r = atoll_map_put(&l->by_path, e->line.path, e);
    if (r < 0)
        free(e);
    return r;
}

int atoll_listing_link(struct atoll_listing *l, const char *path, const char *target)
{
    const struct entry *e = atoll_map_get(&l->by_path, target);
    struct atoll_tree_line line;

    if (!e || strcmp(path, target) == 0)
        return 0;
    line = e->line;
    line.path = path;
    return atoll_listing_add(l, &line);
}

static int by_path(const void *a, const void *b)
{
    const struct entry *const *x = a, *const *y = b;
    return strcmp((*x)->line.path, (*y)->line.path);
}

/* Whether an entry above this one, which is not a directory, came later and so removed it. */
static bool is_replaced(const struct atoll_listing *l, const struct entry *e, char *above)
{
    char *slash;

    (void)memcpy(above, e->line.path, strlen(e->line.path) + 1);
    while ((slash = strrchr(above, '/'))) {
        const struct entry *parent;

        *slash = '\0';
        parent = atoll_map_get(&l->by_path, above);
        if (parent && parent->line.type != ATOLL_TREE_DIRECTORY && parent->number > e->number)
            return true;
    }
    return false;
}

static int flush(struct atoll_buf *out, int fd)
{
    int r = atoll_fd_write_all(fd, atoll_buf_head(out), atoll_buf_size(out));

    atoll_buf_clear(out);
    return r;
}

static int write_lines(const struct atoll_listing *l, struct entry **sorted, size_t n, int fd)
{
    ATOLL_CLEANUP(atoll_buf_done) struct atoll_buf out;
    char above[LINE_MAX_BYTES / 4];
    int r = 0;

    atoll_buf_init(&out, CHUNK_BYTES + LINE_MAX_BYTES);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (strlen(sorted[i]->line.path) >= sizeof(above))
            return -ENAMETOOLONG;
        if (!is_replaced(l, sorted[i], above))
            r = atoll_tree_line_write(&out, &sorted[i]->line);
        if (r == 0 && atoll_buf_size(&out) >= CHUNK_BYTES)
            r = flush(&out, fd);
    }
    return r < 0 ? r : flush(&out, fd);
}

int atoll_listing_write(struct atoll_listing *l, int fd)
{
    ATOLL_AUTOFREE struct entry **sorted = calloc(l->count + 1, sizeof(*sorted));
    struct entry *e;
    size_t n = 0, pos = 0;

    if (!sorted)
        return -ENOMEM;
    while ((e = atoll_map_next(&l->by_path, &pos)))
        sorted[n++] = e;
    qsort(sorted, n, sizeof(struct entry *), by_path);
    return write_lines(l, sorted, n, fd);
}
