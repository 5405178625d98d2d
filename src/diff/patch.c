#include "diff/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include "base/fd.h"
#include "diff/git_binary.h"
#include "diff/lines.h"

#define FILE_MAX ((size_t)64 << 20)
#define CONTEXT 3

/* One side of a change: content of a file or the target of a link. */
struct side {
    bool exists;
    unsigned mode; /* git's */
    struct atoll_buf bytes;
};

static bool is_kept(const struct atoll_diff_node *node)
{
    return node->exists && (S_ISREG(node->st.st_mode) || S_ISLNK(node->st.st_mode));
}

static unsigned mode_of(const struct stat *st)
{
    return S_ISLNK(st->st_mode) ? 0120000 : st->st_mode & 0100 ? 0100755 : 0100644;
}

static int read_file(const struct atoll_diff_node *node, struct atoll_buf *out)
{
    ATOLL_AUTOCLOSE int fd =
        openat(node->dir_fd, node->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    size_t left = (size_t)node->st.st_size;
    uint8_t *tail;
    int r;

    if (fd < 0)
        return -errno;
    r = left > FILE_MAX ? -ENOBUFS : atoll_buf_reserve(out, left + 1, &tail);
    if (r == 0)
        r = atoll_fd_read_all(fd, tail, left);
    if (r == 0)
        atoll_buf_commit(out, left);
    return r;
}

static int read_side(const struct atoll_diff_node *node, struct side *side)
{
    uint8_t *tail;
    ssize_t n;
    int r = 0;

    atoll_buf_init(&side->bytes, FILE_MAX + 1);
    side->exists = is_kept(node);
    if (!side->exists)
        return 0;
    side->mode = mode_of(&node->st);
    if (S_ISREG(node->st.st_mode))
        return read_file(node, &side->bytes);
    r = atoll_buf_reserve(&side->bytes, PATH_MAX, &tail);
    if (r < 0)
        return r;
    n = readlinkat(node->dir_fd, node->name, (char *)tail, PATH_MAX);
    if (n < 0)
        return -errno;
    atoll_buf_commit(&side->bytes, (size_t)n);
    return 0;
}

/* Names that git would quote: with control bytes, quotes, backslashes or bytes that are not ASCII. */
static bool needs_quotes(const char *path)
{
    for (const char *p = path; *p; p++)
        if ((uint8_t)*p < 0x20 || (uint8_t)*p >= 0x7f || *p == '"' || *p == '\\')
            return true;
    return false;
}

static int add_path(struct atoll_buf *out, char side, const char *path)
{
    int r;

    if (!needs_quotes(path))
        return atoll_buf_appendf(out, "%c/%s", side, path);
    r = atoll_buf_appendf(out, "\"%c/", side);
    for (const char *p = path; r == 0 && *p; p++)
        r = *p == '"' || *p == '\\' ? atoll_buf_appendf(out, "\\%c", *p)
            : (uint8_t)*p < 0x20 || (uint8_t)*p >= 0x7f
                ? atoll_buf_appendf(out, "\\%03o", (unsigned)(uint8_t)*p)
                : atoll_buf_append(out, p, 1);
    return r < 0 ? r : atoll_buf_appends(out, "\"");
}

/* "--- a/PATH": git ends names with a tab if they have spaces. */
static int add_name(struct atoll_buf *out, const char *mark, char side, const char *path,
                    bool exists)
{
    int r = atoll_buf_appends(out, mark);

    if (r == 0)
        r = exists ? add_path(out, side, path) : atoll_buf_appends(out, "/dev/null");
    if (r == 0 && exists && !needs_quotes(path) && strchr(path, ' '))
        r = atoll_buf_appends(out, "\t");
    return r < 0 ? r : atoll_buf_appends(out, "\n");
}

static int add_head(struct atoll_buf *out, const char *path, const struct side *a,
                    const struct side *b)
{
    int r = atoll_buf_appends(out, "diff --git ");

    if (r == 0)
        r = add_path(out, 'a', path);
    if (r == 0)
        r = atoll_buf_appends(out, " ");
    if (r == 0)
        r = add_path(out, 'b', path);
    if (r < 0)
        return r;
    if (!a->exists)
        return atoll_buf_appendf(out, "\nnew file mode %06o\n", b->mode);
    if (!b->exists)
        return atoll_buf_appendf(out, "\ndeleted file mode %06o\n", a->mode);
    if (a->mode != b->mode)
        return atoll_buf_appendf(out, "\nold mode %06o\nnew mode %06o\n", a->mode, b->mode);
    return atoll_buf_appends(out, "\n");
}

/* Text. */

static int add_lines(struct atoll_buf *out, char mark, const struct atoll_diff_lines *lines,
                     size_t from, size_t to)
{
    int r = 0;

    for (size_t i = from; r == 0 && i < to; i++) {
        const struct atoll_diff_line *line = &lines->at[i];

        r = atoll_buf_append(out, &mark, 1);
        if (r == 0)
            r = atoll_buf_append(out, line->bytes, line->len);
        if (r == 0 && line->bytes[line->len - 1] != '\n')
            r = atoll_buf_appends(out, "\n\\ No newline at end of file\n");
    }
    return r;
}

/* A hunk: edits first … last, with the lines around them. */
static int add_hunk(struct atoll_buf *out, const struct atoll_diff_lines *a,
                    const struct atoll_diff_lines *b, const struct atoll_diff_edit *first,
                    const struct atoll_diff_edit *last)
{
    size_t before = ATOLL_MIN(first->a, (size_t)CONTEXT);
    size_t after = ATOLL_MIN(a->count - last->a - last->a_count, (size_t)CONTEXT);
    size_t a_from = first->a - before, a_to = last->a + last->a_count + after;
    size_t b_from = first->b - before, b_to = last->b + last->b_count + after;
    size_t at = a_from;
    int r = atoll_buf_appendf(out, "@@ -%zu,%zu +%zu,%zu @@\n", a_from + (a_to > a_from),
                              a_to - a_from, b_from + (b_to > b_from), b_to - b_from);

    for (const struct atoll_diff_edit *e = first; r == 0 && e <= last; e++) {
        r = add_lines(out, ' ', a, at, e->a);
        if (r == 0)
            r = add_lines(out, '-', a, e->a, e->a + e->a_count);
        if (r == 0)
            r = add_lines(out, '+', b, e->b, e->b + e->b_count);
        at = e->a + e->a_count;
    }
    return r < 0 ? r : add_lines(out, ' ', a, at, a_to);
}

static int add_hunks(struct atoll_buf *out, const struct atoll_diff_lines *a,
                     const struct atoll_diff_lines *b)
{
    struct atoll_diff_edits edits;
    int r = atoll_diff_lines_compare(a, b, &edits);

    for (size_t i = 0; r == 0 && i < edits.count;) {
        size_t last = i;

        while (last + 1 < edits.count &&
               edits.at[last + 1].a - edits.at[last].a - edits.at[last].a_count <= 2 * CONTEXT)
            last++;
        r = add_hunk(out, a, b, &edits.at[i], &edits.at[last]);
        i = last + 1;
    }
    atoll_diff_edits_done(&edits);
    return r;
}

static int add_text(struct atoll_buf *out, const char *path, const struct side *a,
                    const struct side *b)
{
    struct atoll_diff_lines x = {0}, y = {0};
    int r = add_name(out, "--- ", 'a', path, a->exists);

    if (r == 0)
        r = add_name(out, "+++ ", 'b', path, b->exists);
    if (r == 0)
        r = atoll_diff_lines_split(&x, atoll_buf_head(&a->bytes), atoll_buf_size(&a->bytes));
    if (r == 0)
        r = atoll_diff_lines_split(&y, atoll_buf_head(&b->bytes), atoll_buf_size(&b->bytes));
    if (r == 0)
        r = add_hunks(out, &x, &y);
    atoll_diff_lines_done(&x);
    atoll_diff_lines_done(&y);
    return r;
}

/* Other content. */

static const uint8_t *bytes_of(const struct side *side)
{
    static const uint8_t nothing[1];
    const uint8_t *head = atoll_buf_head(&side->bytes);

    return !side->exists ? NULL : head ? head : nothing;
}

static int add_binary(struct atoll_buf *out, const struct side *a, const struct side *b)
{
    char x[ATOLL_GIT_NAME_LEN + 1], y[ATOLL_GIT_NAME_LEN + 1];
    int r = atoll_git_name(bytes_of(a), atoll_buf_size(&a->bytes), x);

    if (r == 0)
        r = atoll_git_name(bytes_of(b), atoll_buf_size(&b->bytes), y);
    if (r == 0)
        r = atoll_buf_appendf(out, "index %s..%s\nGIT binary patch\n", x, y);
    if (r == 0)
        r = atoll_git_literal(out, atoll_buf_head(&b->bytes), atoll_buf_size(&b->bytes));
    return r < 0 ? r : atoll_git_literal(out, atoll_buf_head(&a->bytes), atoll_buf_size(&a->bytes));
}

static bool is_text(const struct side *side)
{
    size_t n = atoll_buf_size(&side->bytes);
    return n == 0 || !memchr(atoll_buf_head(&side->bytes), 0, n);
}

static bool same_bytes(const struct side *a, const struct side *b)
{
    size_t n = atoll_buf_size(&a->bytes);

    return n == atoll_buf_size(&b->bytes) &&
           (n == 0 || memcmp(atoll_buf_head(&a->bytes), atoll_buf_head(&b->bytes), n) == 0);
}

static int add_change(struct atoll_buf *out, const char *path, const struct side *a,
                      const struct side *b)
{
    bool same = same_bytes(a, b);
    int r;

    if (same && a->exists && b->exists && a->mode == b->mode)
        return 0; /* owner, or mode bits that git does not have */
    r = add_head(out, path, a, b);
    if (r < 0 || same)
        return r;
    return is_text(a) && is_text(b) ? add_text(out, path, a, b) : add_binary(out, a, b);
}

/* git has no change of a type: the old one is removed, the new one is added. */
static int add_sides(struct atoll_buf *out, const char *path, const struct side *a,
                     const struct side *b)
{
    const struct side none = {0};
    int r;

    if (!a->exists || !b->exists || (a->mode & S_IFMT) == (b->mode & S_IFMT))
        return a->exists || b->exists ? add_change(out, path, a, b) : 0;
    r = add_change(out, path, a, &none);
    return r < 0 ? r : add_change(out, path, &none, b);
}

/* The path in the patch; the directory that it is relative to may itself be a file. */
static const char *name_of(const struct atoll_diff_patch *patch, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (strlen(path) >= patch->skip)
        return path + patch->skip;
    return slash ? slash + 1 : path;
}

static int write_out(struct atoll_diff_patch *patch, const struct atoll_buf *out,
                     struct atoll_error *err)
{
    int r;

    patch->bytes += atoll_buf_size(out);
    if (patch->bytes > patch->max_bytes)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the patch is longer than %llu MiB; ask for a part of the tree",
                          (unsigned long long)(patch->max_bytes >> 20));
    r = atoll_fd_write_all(patch->out_fd, atoll_buf_head(out), atoll_buf_size(out));
    return r < 0 ? atoll_fail_errno(err, -r, "write the patch") : 0;
}

int atoll_diff_patch_add(void *arg, const struct atoll_diff_change *change, struct atoll_error *err)
{
    struct atoll_diff_patch *patch = arg;
    struct side a = {0}, b = {0};
    struct atoll_buf out;
    int r = read_side(change->a, &a);

    atoll_buf_init(&out, (size_t)patch->max_bytes + 1);
    if (r == 0)
        r = read_side(change->b, &b);
    if (r == 0)
        r = add_sides(&out, name_of(patch, change->path), &a, &b);
    if (r == -ENOBUFS)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                       "/%.200s is too large for a patch; ask for a part of the tree",
                       change->path);
    else if (r < 0)
        r = atoll_fail_errno(err, -r, "/%.200s", change->path);
    else
        r = write_out(patch, &out, err);
    atoll_buf_done(&out);
    atoll_buf_done(&a.bytes);
    atoll_buf_done(&b.bytes);
    return r;
}
