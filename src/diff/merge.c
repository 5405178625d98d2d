#include "diff/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/text.h"
#include "diff/apply.h"

#define TEXT_MAX ((size_t)16 << 20)

static int read_content(const struct atoll_diff_node *node, struct atoll_buf *out)
{
    uint8_t *tail;
    ssize_t n;
    int r;

    if (!node->exists || S_ISDIR(node->st.st_mode))
        return 0;
    if (S_ISREG(node->st.st_mode)) {
        ATOLL_AUTOCLOSE int fd =
            openat(node->dir_fd, node->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        size_t size = (size_t)node->st.st_size;

        r = fd < 0 ? -errno : atoll_buf_reserve(out, size + 1, &tail);
        if (r == 0)
            r = atoll_fd_read_all(fd, tail, size);
        if (r == 0)
            atoll_buf_commit(out, size);
        return r;
    }
    r = atoll_buf_reserve(out, PATH_MAX, &tail);
    n = r < 0 || !S_ISLNK(node->st.st_mode)
            ? 0
            : readlinkat(node->dir_fd, node->name, (char *)tail, PATH_MAX);
    if (n < 0)
        return -errno;
    atoll_buf_commit(out, (size_t)n);
    return r;
}

/* Two nodes that need not be of one view. 1: they are the same for a merge. */
static int equal(const struct atoll_diff_node *a, const struct atoll_diff_node *b)
{
    struct atoll_buf x, y;
    int r = 0;

    if (a->exists != b->exists)
        return 0;
    if (!a->exists)
        return 1;
    if (a->st.st_mode != b->st.st_mode || a->st.st_uid != b->st.st_uid ||
        a->st.st_gid != b->st.st_gid)
        return 0;
    if (S_ISDIR(a->st.st_mode))
        return 1;
    if (S_ISREG(a->st.st_mode) && a->st.st_size != b->st.st_size)
        return 0;
    atoll_buf_init(&x, SIZE_MAX / 2);
    atoll_buf_init(&y, SIZE_MAX / 2);
    r = read_content(a, &x);
    if (r == 0)
        r = read_content(b, &y);
    if (r == 0)
        r = atoll_buf_size(&x) == atoll_buf_size(&y) &&
            (atoll_buf_size(&x) == 0 ||
             memcmp(atoll_buf_head(&x), atoll_buf_head(&y), atoll_buf_size(&x)) == 0);
    atoll_buf_done(&x);
    atoll_buf_done(&y);
    return r;
}

static bool is_text(const struct atoll_diff_node *node, const struct atoll_buf *bytes)
{
    return node->exists && S_ISREG(node->st.st_mode) &&
           (atoll_buf_size(bytes) == 0 || !memchr(atoll_buf_head(bytes), 0, atoll_buf_size(bytes)));
}

/* Texts that all three have. 1: joined into out. */
static int try_join(const struct atoll_diff_node *base, const struct atoll_diff_node *ours,
                    const struct atoll_diff_node *theirs, struct atoll_buf *out)
{
    const struct atoll_diff_node *nodes[] = {base, ours, theirs};
    struct atoll_buf texts[3];
    bool fits = true;
    int r = 0;

    for (size_t i = 0; i < 3; i++) {
        atoll_buf_init(&texts[i], TEXT_MAX);
        fits = fits && nodes[i]->exists && S_ISREG(nodes[i]->st.st_mode) &&
               (size_t)nodes[i]->st.st_size < TEXT_MAX;
    }
    for (size_t i = 0; r == 0 && fits && i < 3; i++) {
        r = read_content(nodes[i], &texts[i]);
        fits = r == 0 && is_text(nodes[i], &texts[i]);
    }
    if (r == 0 && fits)
        r = atoll_diff_join(&texts[0], &texts[1], &texts[2], out);
    for (size_t i = 0; i < 3; i++)
        atoll_buf_done(&texts[i]);
    return r;
}

/* Output. */

static int print(struct atoll_diff_merge *m, const struct atoll_buf *line)
{
    return atoll_fd_write_all(m->out_fd, atoll_buf_head(line), atoll_buf_size(line));
}

static int add_path(struct atoll_buf *line, const char *name, const char *path)
{
    char whole[PATH_MAX + 1];
    int r = atoll_buf_appendf(line, "{\"%s\":", name);

    (void)snprintf(whole, sizeof(whole), "/%s", path);
    return r < 0 ? r : atoll_text_json_quote(line, whole, strlen(whole));
}

static const char *state_of(const struct atoll_diff_node *base, const struct atoll_diff_node *now)
{
    return !now->exists ? "removed" : !base->exists ? "added" : "changed";
}

static int tell_conflict(struct atoll_diff_merge *m, const struct atoll_diff_change *change,
                         const struct atoll_diff_node *ours)
{
    struct atoll_buf line;
    int r;

    m->conflicts++;
    if (m->stream || m->conflict_lines_left == 0)
        return 0;
    m->conflict_lines_left--;
    atoll_buf_init(&line, (size_t)64 * 1024);
    r = add_path(&line, "conflict", change->path);
    if (r == 0)
        r = atoll_buf_appendf(&line, ",\"ours\":\"%s\",\"theirs\":\"%s\"}\n",
                              state_of(change->a, ours), state_of(change->a, change->b));
    if (r == 0)
        r = print(m, &line);
    atoll_buf_done(&line);
    return r;
}

static int tell_change(struct atoll_diff_merge *m, const struct atoll_diff_change *change,
                       bool joined)
{
    struct atoll_buf line;
    int r;

    if (m->lines_left == 0)
        return 0;
    m->lines_left--;
    atoll_buf_init(&line, (size_t)64 * 1024);
    r = add_path(&line, "path", change->path);
    if (r == 0)
        r = atoll_buf_appendf(&line, ",\"kind\":\"%s\",\"joined\":%s}\n",
                              state_of(change->a, change->b), joined ? "true" : "false");
    if (r == 0)
        r = print(m, &line);
    atoll_buf_done(&line);
    return r;
}

static struct atoll_diff_was describe(const struct atoll_diff_node *node)
{
    if (!node->exists)
        return (struct atoll_diff_was){0};
    return (struct atoll_diff_was){.mode = node->st.st_mode,
                                   .uid = node->st.st_uid,
                                   .gid = node->st.st_gid,
                                   .mtime_s = node->st.st_mtim.tv_sec,
                                   .mtime_ns = (uint32_t)node->st.st_mtim.tv_nsec,
                                   .size = (uint64_t)node->st.st_size};
}

static int stream_record(struct atoll_diff_merge *m, struct atoll_diff_record *record,
                         const struct atoll_buf *bytes)
{
    uint64_t need = sizeof(*record) + record->path_len + atoll_buf_size(bytes);

    if (need > m->bytes_left)
        return -EFBIG;
    m->bytes_left -= need;
    record->size = atoll_buf_size(bytes);
    return 0;
}

static int stream_change(struct atoll_diff_merge *m, const char *path,
                         const struct atoll_diff_node *was, const struct atoll_diff_node *is,
                         const struct atoll_buf *content)
{
    struct atoll_diff_record record = {.path_len = (uint32_t)strlen(path)};
    bool is_dir = is->exists && S_ISDIR(is->st.st_mode);
    bool was_dir = was->exists && S_ISDIR(was->st.st_mode);
    bool replaces = was->exists && is->exists && is_dir != was_dir;
    const struct atoll_buf none = {0};
    int r = 0;

    record.was = describe(was);
    record.replaces = replaces;
    if (was->exists && (!is->exists || replaces)) {
        record.op = was_dir ? ATOLL_DIFF_RMDIR : ATOLL_DIFF_REMOVE;
        r = stream_record(m, &record, &none);
        if (r == 0)
            r = atoll_diff_record_write(m->out_fd, &record, path, NULL);
    }
    if (r < 0 || !is->exists)
        return r;
    record = (struct atoll_diff_record){.op = ATOLL_DIFF_PUT,
                                        .mode = is->st.st_mode,
                                        .uid = is->st.st_uid,
                                        .gid = is->st.st_gid,
                                        .path_len = (uint32_t)strlen(path),
                                        .replaces = replaces};
    if (!replaces)
        record.was = describe(was);
    r = stream_record(m, &record, content);
    return r < 0 ? r : atoll_diff_record_write(m->out_fd, &record, path, atoll_buf_head(content));
}

/* Takes THEIRS, or the joined text. */
static int take(struct atoll_diff_merge *m, const struct atoll_diff_change *change,
                const struct atoll_diff_node *ours, const struct atoll_buf *joined)
{
    struct atoll_buf content;
    int r = 0;

    m->changes++;
    if (m->since)
        return 0;
    if (!m->stream)
        return tell_change(m, change, joined != NULL);
    atoll_buf_init(&content, (size_t)m->bytes_left + 1);
    if (!joined)
        r = read_content(change->b, &content);
    if (r == 0)
        r = stream_change(m, change->path, ours, change->b, joined ? joined : &content);
    atoll_buf_done(&content);
    return r == -ENOBUFS ? -EFBIG : r;
}

/* What was joined before is not joined again. */
static bool has_content(const struct atoll_diff_node *ours, const struct atoll_buf *joined)
{
    struct atoll_buf now;
    bool same;

    atoll_buf_init(&now, 2 * TEXT_MAX);
    same = read_content(ours, &now) == 0 && atoll_buf_size(&now) == atoll_buf_size(joined) &&
           (atoll_buf_size(&now) == 0 ||
            memcmp(atoll_buf_head(&now), atoll_buf_head(joined), atoll_buf_size(&now)) == 0);
    atoll_buf_done(&now);
    return same;
}

static int decide(struct atoll_diff_merge *m, const struct atoll_diff_change *change,
                  const struct atoll_diff_node *ours)
{
    struct atoll_buf joined;
    int r = equal(ours, change->b);

    if (r != 0)
        return r < 0 ? r : 0;
    r = equal(ours, change->a);
    if (r != 0)
        return r < 0 ? r : take(m, change, ours, NULL);
    atoll_buf_init(&joined, 2 * TEXT_MAX);
    r = try_join(change->a, ours, change->b, &joined);
    if (r == 1)
        r = has_content(ours, &joined) ? 0 : take(m, change, ours, &joined);
    else if (r == 0 && m->prefer == ATOLL_DIFF_PREFER_THEIRS)
        r = take(m, change, ours, NULL);
    else if (r == 0 && m->prefer == ATOLL_DIFF_PREFER_NONE)
        r = tell_conflict(m, change, ours);
    atoll_buf_done(&joined);
    return r;
}

/* Two forks. */

static bool is_directory(const struct atoll_diff_node *node)
{
    return node->exists && S_ISDIR(node->st.st_mode);
}

/* 1: the view has a directory there. */
static int has_directory(const struct atoll_diff_view *view, const char *path)
{
    struct atoll_diff_view_dir dir;
    struct atoll_diff_node node;
    int r = atoll_diff_view_lookup(view, path, &dir, &node);

    if (r < 0)
        return r;
    r = is_directory(&node);
    atoll_diff_view_dir_close(&dir);
    return r;
}

/* 1: OURS has removed or replaced the directory of the path. */
static int lost_parent(const struct atoll_diff_merge *m, const char *path)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];
    int r;

    if (!slash)
        return 0;
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    r = has_directory(m->ours, parent);
    return r != 0 ? ATOLL_MIN(r, 0) : has_directory(m->since, parent);
}

static int note_added(void *arg, const struct atoll_diff_change *change,
                      struct atoll_error *err ATOLL_UNUSED)
{
    bool *any = arg;

    *any = *any || !change->a->exists;
    return 0;
}

/* 1: OURS has something new in the directory. */
static int has_new_entries(const struct atoll_diff_merge *m, const char *path)
{
    bool any = false;
    struct atoll_error err;
    const struct atoll_diff_compare compare = {
        .a = m->since, .b = m->ours, .below = path, .fn = note_added, .arg = &any};
    int r = atoll_diff_compare(&compare, &err);

    return r < 0 ? r : any;
}

static int decide_between(struct atoll_diff_merge *m, const struct atoll_diff_change *change,
                          const struct atoll_diff_node *ours)
{
    struct atoll_diff_view_dir dir;
    struct atoll_diff_node was;
    int r = atoll_diff_view_lookup(m->since, change->path, &dir, &was);

    if (r < 0)
        return r;
    r = equal(ours, &was);
    atoll_diff_view_dir_close(&dir);
    if (r == 0)
        return decide(m, change, ours);
    if (r > 0)
        r = change->b->exists ? lost_parent(m, change->path) : 0;
    if (r == 0 && is_directory(change->a) && change->b->exists && !is_directory(change->b))
        r = has_new_entries(m, change->path);
    return r > 0 ? tell_conflict(m, change, ours) : r;
}

int atoll_diff_merge_add(void *arg, const struct atoll_diff_change *change, struct atoll_error *err)
{
    struct atoll_diff_merge *m = arg;
    struct atoll_diff_view_dir dir;
    struct atoll_diff_node ours = {0};
    int r = atoll_diff_view_lookup(m->ours, change->path, &dir, &ours);

    if (r == 0) {
        r = m->since ? decide_between(m, change, &ours) : decide(m, change, &ours);
        atoll_diff_view_dir_close(&dir);
    }
    if (r == -EFBIG)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the merge has more bytes than can be brought over at once");
    return r < 0 ? atoll_fail_errno(err, -r, "merge /%.200s", change->path) : 0;
}

int atoll_diff_merge_finish(struct atoll_diff_merge *m, struct atoll_error *err)
{
    struct atoll_diff_record end = {.op = ATOLL_DIFF_END};
    struct atoll_buf line;
    int r;

    if (m->stream) {
        r = atoll_diff_record_write(m->out_fd, &end, "", NULL);
    } else {
        atoll_buf_init(&line, 256);
        r = atoll_buf_appendf(&line, "{\"summary\":{\"changes\":%llu,\"conflicts\":%llu}}\n",
                              (unsigned long long)m->changes, (unsigned long long)m->conflicts);
        if (r == 0)
            r = print(m, &line);
        atoll_buf_done(&line);
    }
    return r < 0 ? atoll_fail_errno(err, -r, "print the merge") : 0;
}
