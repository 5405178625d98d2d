/*
 * atoll-diff and what the daemon reads of it. The first byte says what the others are: a script that makes
 * trees of layers, which are compared, merged and squashed; a stream of changes to carry out; three texts to join; what
 * atoll-diff printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/fd.h"
#include "diff/apply.h"
#include "diff/compare.h"
#include "diff/merge.h"
#include "diff/patch.h"
#include "diff/report.h"
#include "engine/json_memory.h"
#include "engine/state/changes.h"
#include "fuzz.h"
#include "sys/tree.h"
#include "unpack/squash.h"

#define OPS_MAX 48
#define OUTPUT_MAX ((size_t)4 << 20)

/* A directory for one input. */
struct place {
    char path[32];
    int fd;
};

static void place_open(struct place *p)
{
    (void)snprintf(p->path, sizeof(p->path), "/tmp/fuzz-diff-XXXXXX");
    FUZZ_CHECK(mkdtemp(p->path));
    p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(p->fd >= 0);
}

static void place_close(struct place *p)
{
    (void)close(p->fd);
    FUZZ_CHECK(atoll_tree_remove(AT_FDCWD, p->path) == 0);
}

static int output_new(void)
{
    int fd = memfd_create("out", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0);
    return fd;
}

static void output_read(int fd, struct atoll_buf *out)
{
    struct stat st;
    uint8_t *tail;

    FUZZ_CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size <= OUTPUT_MAX);
    atoll_buf_init(out, OUTPUT_MAX + 1);
    FUZZ_CHECK(atoll_buf_reserve(out, (size_t)st.st_size + 1, &tail) == 0);
    FUZZ_CHECK(pread(fd, tail, (size_t)st.st_size, 0) == st.st_size);
    atoll_buf_commit(out, (size_t)st.st_size);
}

/* Scripts. */

struct script {
    const uint8_t *at, *end;
};

static uint8_t take(struct script *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static const char *const names[] = {"a", "b", "c", ".git", "we\"i\nrd", "\xff\xfe", "a b", "\\"};
static const char *const texts[] = {"",       "1\n2\n3\n", "1\nx\n3\n", "1\n2\n3\n4\n",
                                    "no end", "a\0b",      "y\n2\n3\n", "\r\n"};

/* Up to three components. */
static void take_path(struct script *s, char out[static 64])
{
    unsigned byte = take(s), n = byte >> 6;
    size_t used = 0;

    *out = '\0';
    for (unsigned i = 0; i <= n && i < 3; i++)
        used += (size_t)snprintf(out + used, 64 - used, "%s%s", i ? "/" : "",
                                 names[(byte >> (2 * i)) & 7]);
}

static void make_file(int layer, const char *path, unsigned text)
{
    int fd = openat(layer, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    0644);
    size_t n = text == 5 ? 3 : strlen(texts[text]);

    if (fd < 0)
        return;
    (void)!write(fd, texts[text], n);
    (void)close(fd);
}

static void make_opaque(int layer, const char *path)
{
    int fd = openat(layer, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!fsetxattr(fd, "user.overlay.opaque", "y", 1, 0);
    (void)close(fd);
}

/* Layer 0 is an ordinary tree: a merge is carried out in it. */
static void run_one(struct script *s, const int *layers)
{
    unsigned op = take(s), index = op >> 6;
    int layer = layers[index];
    char path[64], target[64];

    take_path(s, path);
    switch (op & 7) {
    case 0:
    case 1:
        (void)!mkdirat(layer, path, op & 8 ? 0700 : 0755);
        break;
    case 2:
        make_file(layer, path, (op >> 3) & 7);
        break;
    case 3:
        take_path(s, target);
        (void)!symlinkat(target, layer, path);
        break;
    case 4:
        if (index > 0)
            (void)!mknodat(layer, path, S_IFCHR | 0600, makedev(0, 0));
        break;
    case 5:
        if (index > 0)
            make_opaque(layer, path);
        break;
    case 6:
        (void)!mkfifoat(layer, path, 0600);
        break;
    default:
        (void)!unlinkat(layer, path, op & 8 ? AT_REMOVEDIR : 0);
        break;
    }
}

static void make_layers(struct script *s, const struct place *p, int layers[4])
{
    for (int i = 0; i < 4; i++) {
        char name[2] = {(char)('0' + i), '\0'};

        FUZZ_CHECK(mkdirat(p->fd, name, 0755) == 0);
        layers[i] = openat(p->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        FUZZ_CHECK(layers[i] >= 0);
    }
    for (int i = 0; i < OPS_MAX && s->at < s->end; i++)
        run_one(s, layers);
}

/* "210": these layers of the place, topmost first. */
static void view_open(struct atoll_diff_view *view, const struct place *p, const char *layers)
{
    char text[256] = "";
    struct atoll_error err;
    size_t used = 0;

    for (; *layers; layers++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s/%c", used ? ":" : "",
                                 p->path, *layers);
    FUZZ_CHECK(atoll_diff_view_open(view, text, &err) == 0);
}

/* Comparisons. */

static int count(void *arg, const struct atoll_diff_change *change, struct atoll_error *err)
{
    uint64_t *counts = arg;

    (void)err;
    FUZZ_CHECK(*change->path && *change->path != '/');
    FUZZ_CHECK(change->a->exists || change->b->exists);
    FUZZ_CHECK((change->kind == ATOLL_DIFF_CHANGE_ADDED) == !change->a->exists);
    FUZZ_CHECK((change->kind == ATOLL_DIFF_CHANGE_REMOVED) == !change->b->exists);
    counts[change->kind]++;
    return 0;
}

static void compare(const struct atoll_diff_view *a, const struct atoll_diff_view *b,
                    uint64_t counts[ATOLL_DIFF_CHANGE_KINDS])
{
    struct atoll_diff_compare c = {.a = a, .b = b, .below = "", .fn = count, .arg = counts};
    struct atoll_error err;

    memset(counts, 0, ATOLL_DIFF_CHANGE_KINDS * sizeof(*counts));
    FUZZ_CHECK(atoll_diff_compare(&c, &err) == 0);
}

static bool is_same(const struct atoll_diff_view *a, const struct atoll_diff_view *b)
{
    uint64_t counts[ATOLL_DIFF_CHANGE_KINDS];

    compare(a, b, counts);
    return counts[0] + counts[1] + counts[2] + counts[3] == 0;
}

/* Every line is JSON that the daemon reads; the summary has the numbers. */
static void try_report(const struct atoll_diff_view *a, const struct atoll_diff_view *b,
                       const uint64_t *counts, uint64_t max_lines)
{
    struct atoll_diff_report report;
    struct atoll_diff_compare c = {
        .a = a, .b = b, .below = "", .fn = atoll_diff_report_add, .arg = &report};
    struct atoll_changes_summary sum;
    struct atoll_error err;
    struct atoll_buf out;
    uint64_t lines = 0;
    const uint8_t *at, *stop, *end;
    char kind[16];
    int fd = output_new();

    atoll_diff_report_init(&report, fd, max_lines);
    FUZZ_CHECK(atoll_diff_compare(&c, &err) == 0 && atoll_diff_report_finish(&report, &err) == 0);
    atoll_diff_report_done(&report);
    output_read(fd, &out);
    at = atoll_buf_head(&out);
    stop = at + atoll_buf_size(&out);
    for (; (end = memchr(at, '\n', (size_t)(stop - at))) != NULL && end + 1 < stop; at = end + 1) {
        FUZZ_CHECK(atoll_changes_read_kind(at, (size_t)(end + 1 - at), kind, sizeof(kind)));
        lines++;
    }
    FUZZ_CHECK(atoll_changes_read_summary(at, (size_t)(stop - at), &sum));
    FUZZ_CHECK(lines == ATOLL_MIN(max_lines, counts[0] + counts[1] + counts[2] + counts[3]));
    FUZZ_CHECK(sum.added == counts[ATOLL_DIFF_CHANGE_ADDED] &&
               sum.removed == counts[ATOLL_DIFF_CHANGE_REMOVED] &&
               sum.changed == counts[ATOLL_DIFF_CHANGE_CHANGED] + counts[ATOLL_DIFF_CHANGE_TYPE]);
    atoll_buf_done(&out);
    (void)close(fd);
}

static void try_patch(const struct atoll_diff_view *a, const struct atoll_diff_view *b)
{
    struct atoll_diff_patch patch = {.out_fd = output_new(), .max_bytes = OUTPUT_MAX};
    struct atoll_diff_compare c = {
        .a = a, .b = b, .below = "", .skip_git = true, .fn = atoll_diff_patch_add, .arg = &patch};
    struct atoll_error err;

    FUZZ_CHECK(atoll_diff_compare(&c, &err) == 0);
    (void)close(patch.out_fd);
}

/* Merges. */

static int merge(const struct atoll_diff_view *base, const struct atoll_diff_view *theirs,
                 const struct atoll_diff_view *ours, const struct atoll_diff_view *since,
                 bool stream, enum atoll_diff_prefer prefer, uint64_t *ret_conflicts)
{
    struct atoll_diff_merge m = {.ours = ours,
                                 .since = since,
                                 .prefer = prefer,
                                 .stream = stream,
                                 .out_fd = output_new(),
                                 .lines_left = 1000,
                                 .conflict_lines_left = 1000,
                                 .bytes_left = OUTPUT_MAX};
    struct atoll_diff_compare c = {
        .a = base, .b = theirs, .below = "", .fn = atoll_diff_merge_add, .arg = &m};
    struct atoll_error err;

    FUZZ_CHECK(atoll_diff_compare(&c, &err) == 0 && atoll_diff_merge_finish(&m, &err) == 0);
    *ret_conflicts = m.conflicts;
    return m.out_fd;
}

static void try_json(int fd)
{
    struct atoll_buf out;
    const char *at, *end;

    output_read(fd, &out);
    at = (const char *)atoll_buf_head(&out);
    for (const char *stop = at + atoll_buf_size(&out); at < stop; at = end + 1) {
        json_t *line;

        end = memchr(at, '\n', (size_t)(stop - at));
        FUZZ_CHECK(end);
        line = atoll_json_load(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, NULL);
        FUZZ_CHECK(json_is_object(line));
        json_decref(line);
    }
    atoll_buf_done(&out);
    (void)close(fd);
}

/* Layers that have become one show on a tree what they showed before. */
static void try_squash(const struct place *p)
{
    const struct atoll_squash_options limits = {.max_bytes = 1 << 20, .max_files = 1000};
    struct atoll_squash_result made;
    struct atoll_diff_view several, one;
    char paths[3][48], *dirs[3];
    struct atoll_error err;
    int out;

    for (int i = 0; i < 3; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/%d", p->path, i + 1);
        dirs[i] = paths[i];
    }
    FUZZ_CHECK(mkdirat(p->fd, "s", 0755) == 0);
    out = openat(p->fd, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(out >= 0 && atoll_squash(dirs, 3, out, &limits, &made, &err) == 0);
    view_open(&several, p, "3210");
    view_open(&one, p, "s0");
    FUZZ_CHECK(is_same(&several, &one));
    atoll_diff_view_close(&several);
    atoll_diff_view_close(&one);
    (void)close(out);
}

static void try_trees(const uint8_t *data, size_t size)
{
    struct script s = {data, data + size};
    struct atoll_diff_view a, b, c;
    uint64_t there[ATOLL_DIFF_CHANGE_KINDS], back[ATOLL_DIFF_CHANGE_KINDS], conflicts;
    struct atoll_error err;
    struct place p;
    int layers[4], fd, out;

    place_open(&p);
    make_layers(&s, &p, layers);
    view_open(&a, &p, "0");
    view_open(&b, &p, "210");
    view_open(&c, &p, "30");
    FUZZ_CHECK(is_same(&b, &b));
    try_squash(&p);
    compare(&a, &b, there);
    compare(&b, &a, back);
    FUZZ_CHECK(there[ATOLL_DIFF_CHANGE_ADDED] == back[ATOLL_DIFF_CHANGE_REMOVED] &&
               there[ATOLL_DIFF_CHANGE_REMOVED] == back[ATOLL_DIFF_CHANGE_ADDED] &&
               there[ATOLL_DIFF_CHANGE_CHANGED] == back[ATOLL_DIFF_CHANGE_CHANGED] &&
               there[ATOLL_DIFF_CHANGE_TYPE] == back[ATOLL_DIFF_CHANGE_TYPE]);
    try_report(&a, &b, there, 1000);
    try_report(&a, &b, there, 2);
    try_patch(&a, &b);
    for (int prefer = ATOLL_DIFF_PREFER_NONE; prefer <= ATOLL_DIFF_PREFER_THEIRS; prefer++) {
        try_json(merge(&a, &b, &c, NULL, false, prefer, &conflicts));
        FUZZ_CHECK(conflicts == 0 || prefer == ATOLL_DIFF_PREFER_NONE);
    }
    /* Of two forks, one of which has changed nothing. */
    try_json(merge(&a, &b, &c, &a, false, ATOLL_DIFF_PREFER_NONE, &conflicts));
    try_json(merge(&a, &b, &c, &c, false, ATOLL_DIFF_PREFER_NONE, &conflicts));
    FUZZ_CHECK(conflicts == 0);
    /* What is carried out in a tree that has not changed makes it the other one. */
    fd = merge(&a, &b, &a, NULL, true, ATOLL_DIFF_PREFER_NONE, &conflicts);
    FUZZ_CHECK(conflicts == 0 && lseek(fd, 0, SEEK_SET) == 0);
    out = output_new();
    FUZZ_CHECK(atoll_diff_apply(layers[0], fd, out, &err) == 0);
    FUZZ_CHECK(lseek(out, 0, SEEK_END) == 0); /* no conflicts */
    (void)close(fd);
    (void)close(out);
    place_close(&p);
    atoll_diff_view_close(&a);
    atoll_diff_view_close(&b);
    atoll_diff_view_close(&c);
    for (int i = 0; i < 4; i++)
        (void)close(layers[i]);
}

/* Whatever the stream says, nothing outside of the tree changes. */
static void try_stream(const uint8_t *data, size_t size)
{
    static const struct timespec epoch[2];
    struct stat before, after;
    struct atoll_error err;
    struct place p;
    int fd = output_new(), out = output_new(), root;

    place_open(&p);
    FUZZ_CHECK(mkdirat(p.fd, "root", 0755) == 0 && mkdirat(p.fd, "out", 0700) == 0);
    make_file(p.fd, "out/kept", 1);
    root = openat(p.fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(root >= 0 && symlinkat("../out", root, "a") == 0 && mkdirat(root, "b", 0755) == 0);
    FUZZ_CHECK(utimensat(root, "a", epoch, AT_SYMLINK_NOFOLLOW) ==
               0); /* so that a record can name it */
    FUZZ_CHECK(atoll_fd_write_all(fd, data, size) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    FUZZ_CHECK(fstatat(p.fd, "out", &before, 0) == 0);
    (void)!atoll_diff_apply(root, fd, out, &err);
    try_json(out);
    FUZZ_CHECK(fstatat(p.fd, "out", &after, 0) == 0 && before.st_mode == after.st_mode &&
               before.st_uid == after.st_uid && before.st_nlink == after.st_nlink);
    FUZZ_CHECK(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    FUZZ_CHECK(fstatat(p.fd, "out/kept", &after, 0) == 0 && after.st_size == 6 &&
               (after.st_mode & 07777) == 0644);
    (void)close(root);
    (void)close(fd);
    place_close(&p);
}

/* Texts to join, separated by bytes 0. */
static void try_join(const uint8_t *data, size_t size)
{
    struct atoll_buf side[3], out;
    const uint8_t *end = data + size;

    for (int i = 0; i < 3; i++) {
        const uint8_t *stop = memchr(data, 0, (size_t)(end - data));
        size_t n = (size_t)((stop && i < 2 ? stop : end) - data);

        atoll_buf_init(&side[i], size + 1);
        FUZZ_CHECK(atoll_buf_append(&side[i], data, n) == 0);
        data += n + (stop && i < 2);
    }
    atoll_buf_init(&out, 4 * size + 64);
    (void)!atoll_diff_join(&side[0], &side[1], &side[2], &out);
    atoll_buf_clear(&out);
    /* Only one side has changed: the result is that side. */
    if (atoll_diff_join(&side[0], &side[1], &side[0], &out) == 1)
        FUZZ_CHECK(
            atoll_buf_size(&out) == atoll_buf_size(&side[1]) &&
            (atoll_buf_size(&out) == 0 ||
             memcmp(atoll_buf_head(&out), atoll_buf_head(&side[1]), atoll_buf_size(&out)) == 0));
    atoll_buf_done(&out);
    for (int i = 0; i < 3; i++)
        atoll_buf_done(&side[i]);
}

static void try_output(const uint8_t *data, size_t size)
{
    struct atoll_changes_summary sum;
    char kind[16];

    (void)atoll_changes_read_summary(data, size, &sum);
    if (atoll_changes_read_kind(data, size, kind, sizeof(kind)))
        FUZZ_CHECK(strlen(kind) < sizeof(kind));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0]) {
    case 't':
        try_trees(data + 1, size - 1);
        break;
    case 's':
        try_stream(data + 1, size - 1);
        break;
    case 'j':
        try_join(data + 1, size - 1);
        break;
    case 'o':
        try_output(data + 1, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
