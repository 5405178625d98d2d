#include "diff/report.h"

#include <errno.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"

#define CHUNK ((size_t)64 * 1024)
#define LINE_BYTES ((size_t)64 * 1024)

static const char *const kinds[ATOLL_DIFF_CHANGE_KINDS] = {"added", "changed", "removed", "type"};

static const char *type_of(mode_t mode)
{
    return S_ISREG(mode)    ? "file"
           : S_ISDIR(mode)  ? "directory"
           : S_ISLNK(mode)  ? "link"
           : S_ISFIFO(mode) ? "fifo"
                            : "device";
}

void atoll_diff_report_init(struct atoll_diff_report *report, int out_fd, uint64_t max_lines)
{
    *report = (struct atoll_diff_report){.out_fd = out_fd, .lines_left = max_lines};
    atoll_buf_init(&report->out, CHUNK + LINE_BYTES);
}

void atoll_diff_report_done(struct atoll_diff_report *report)
{
    atoll_buf_done(&report->out);
}

static int flush(struct atoll_diff_report *report)
{
    int r = atoll_fd_write_all(report->out_fd, atoll_buf_head(&report->out),
                               atoll_buf_size(&report->out));

    atoll_buf_clear(&report->out);
    return r;
}

static int add_side(struct atoll_buf *out, const char *name, const struct atoll_diff_node *node)
{
    const struct stat *st = &node->st;

    if (!node->exists)
        return 0;
    return atoll_buf_appendf(
        out, ",\"%s\":{\"type\":\"%s\",\"mode\":%u,\"uid\":%u,\"gid\":%u,\"size\":%llu}", name,
        type_of(st->st_mode), (unsigned)(st->st_mode & 07777), (unsigned)st->st_uid,
        (unsigned)st->st_gid,
        (unsigned long long)(S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) ? st->st_size : 0));
}

static int add_line(struct atoll_diff_report *report, const struct atoll_diff_change *change)
{
    struct atoll_buf *out = &report->out;
    char path[2 + 4096];
    int r;

    path[0] = '/';
    r = atoll_text_copy(path + 1, sizeof(path) - 1, change->path);
    if (r == 0)
        r = atoll_buf_appends(out, "{\"path\":");
    if (r == 0)
        r = atoll_text_json_quote(out, path, strlen(path));
    if (r == 0)
        r = atoll_buf_appendf(out, ",\"kind\":\"%s\",\"content\":%s", kinds[change->kind],
                              change->content ? "true" : "false");
    if (r == 0)
        r = add_side(out, "before", change->a);
    if (r == 0)
        r = add_side(out, "after", change->b);
    if (r == 0)
        r = atoll_buf_appends(out, "}\n");
    return r == 0 && atoll_buf_size(out) >= CHUNK ? flush(report) : r;
}

static uint64_t bytes_of(const struct atoll_diff_change *change)
{
    bool written = change->b->exists && S_ISREG(change->b->st.st_mode) &&
                   (change->content || change->kind != ATOLL_DIFF_CHANGE_CHANGED);
    return written ? (uint64_t)change->b->st.st_size : 0;
}

int atoll_diff_report_add(void *arg, const struct atoll_diff_change *change,
                          struct atoll_error *err)
{
    struct atoll_diff_report *report = arg;
    int r;

    report->counts[change->kind]++;
    report->bytes += bytes_of(change);
    if (report->lines_left == 0) {
        report->truncated = true;
        return 0;
    }
    report->lines_left--;
    r = add_line(report, change);
    return r < 0 ? atoll_fail_errno(err, -r, "report /%.200s", change->path) : 0;
}

int atoll_diff_report_finish(struct atoll_diff_report *report, struct atoll_error *err)
{
    int r = atoll_buf_appends(&report->out, "{\"summary\":{");

    for (size_t i = 0; r == 0 && i < ATOLL_DIFF_CHANGE_KINDS; i++)
        r = atoll_buf_appendf(&report->out, "\"%s\":%llu,", kinds[i],
                              (unsigned long long)report->counts[i]);
    if (r == 0)
        r = atoll_buf_appendf(&report->out, "\"bytes\":%llu,\"truncated\":%s}}\n",
                              (unsigned long long)report->bytes,
                              report->truncated ? "true" : "false");
    if (r == 0)
        r = flush(report);
    return r < 0 ? atoll_fail_errno(err, -r, "report") : 0;
}
