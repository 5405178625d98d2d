#include <errno.h>
#include <string.h>
#include "diff/lines.h"
#include "diff/merge.h"

/*
 * Both lists of edits are relative to the base. They are walked together: edits of the two sides that touch each other
 * conflict, unless they are the same.
 */
struct joining {
    struct atoll_diff_lines base, ours, theirs;
    struct atoll_diff_edits a, b; /* of ours, of theirs */
    struct atoll_buf *out;
};

static int copy(struct atoll_buf *out, const struct atoll_diff_lines *lines, size_t from, size_t n)
{
    int r = 0;

    for (size_t i = from; r == 0 && i < from + n; i++)
        r = atoll_buf_append(out, lines->at[i].bytes, lines->at[i].len);
    return r;
}

static bool same(const struct joining *j, const struct atoll_diff_edit *x,
                 const struct atoll_diff_edit *y)
{
    if (x->a != y->a || x->a_count != y->a_count || x->b_count != y->b_count)
        return false;
    for (size_t i = 0; i < x->b_count; i++)
        if (!atoll_diff_lines_equal(&j->ours.at[x->b + i], &j->theirs.at[y->b + i]))
            return false;
    return true;
}

static bool touch(const struct atoll_diff_edit *x, const struct atoll_diff_edit *y)
{
    return x->a <= y->a + y->a_count && y->a <= x->a + x->a_count;
}

/* 1: joined; 0: conflict. */
static int walk(struct joining *j)
{
    size_t x = 0, y = 0, at = 0;
    int r = 0;

    while (r == 0 && (x < j->a.count || y < j->b.count)) {
        const struct atoll_diff_edit *ours = x < j->a.count ? &j->a.at[x] : NULL;
        const struct atoll_diff_edit *theirs = y < j->b.count ? &j->b.at[y] : NULL;
        bool equal = ours && theirs && same(j, ours, theirs);
        bool take_ours = ours && (!theirs || ours->a <= theirs->a);
        const struct atoll_diff_edit *edit = take_ours ? ours : theirs;

        if (ours && theirs && !equal && touch(ours, theirs))
            return 0;
        r = copy(j->out, &j->base, at, edit->a - at);
        if (r == 0)
            r = copy(j->out, take_ours ? &j->ours : &j->theirs, edit->b, edit->b_count);
        at = edit->a + edit->a_count;
        x += take_ours || equal;
        y += !take_ours || equal;
    }
    if (r == 0)
        r = copy(j->out, &j->base, at, j->base.count - at);
    return r < 0 ? r : 1;
}

int atoll_diff_join(const struct atoll_buf *base, const struct atoll_buf *ours,
                    const struct atoll_buf *theirs, struct atoll_buf *out)
{
    struct joining j = {.out = out};
    int r = atoll_diff_lines_split(&j.base, atoll_buf_head(base), atoll_buf_size(base));

    if (r == 0)
        r = atoll_diff_lines_split(&j.ours, atoll_buf_head(ours), atoll_buf_size(ours));
    if (r == 0)
        r = atoll_diff_lines_split(&j.theirs, atoll_buf_head(theirs), atoll_buf_size(theirs));
    if (r == 0)
        r = atoll_diff_lines_compare(&j.base, &j.ours, &j.a);
    if (r == 0)
        r = atoll_diff_lines_compare(&j.base, &j.theirs, &j.b);
    if (r == 0)
        r = walk(&j);
    atoll_diff_lines_done(&j.base);
    atoll_diff_lines_done(&j.ours);
    atoll_diff_lines_done(&j.theirs);
    atoll_diff_edits_done(&j.a);
    atoll_diff_edits_done(&j.b);
    return r;
}
