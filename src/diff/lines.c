#include "diff/lines.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DIFFERENCES_MAX 2000 /* the memory grows with the square of it: 16 MiB */

static uint64_t hash_of(const uint8_t *bytes, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    return h;
}

int atoll_diff_lines_split(struct atoll_diff_lines *lines, const uint8_t *bytes, size_t n)
{
    const uint8_t *end = n > 0 ? bytes + n : bytes; /* no bytes have no address */
    size_t count = 0;

    for (const uint8_t *p = bytes; p && p < end; count++) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        p = newline ? newline + 1 : end;
    }
    *lines = (struct atoll_diff_lines){.at = calloc(count + 1, sizeof(*lines->at))};
    if (!lines->at)
        return -ENOMEM;
    for (const uint8_t *p = bytes; lines->count < count;) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        const uint8_t *next = newline ? newline + 1 : end;
        size_t len = (size_t)(next - p);

        lines->at[lines->count++] = (struct atoll_diff_line){p, len, hash_of(p, len)};
        p = next;
    }
    return 0;
}

void atoll_diff_lines_done(struct atoll_diff_lines *lines)
{
    free(lines->at);
    *lines = (struct atoll_diff_lines){0};
}

bool atoll_diff_lines_equal(const struct atoll_diff_line *a, const struct atoll_diff_line *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

void atoll_diff_edits_done(struct atoll_diff_edits *edits)
{
    free(edits->at);
    *edits = (struct atoll_diff_edits){0};
}

/* The parts that remain between the common beginning and the common end. */
struct search {
    const struct atoll_diff_line *a, *b;
    size_t skipped; /* lines of the common beginning */
    int n, m;
    /* rows[d][k + d]: the line of a that diagonal k = x - y reaches with d differences; owned. Points outside of
     * the texts are never on the way to the end, since ways only go forward. */
    int *rows[DIFFERENCES_MAX + 1];
};

/* Whether diagonal k is reached from k + 1, by a line of b, or from k - 1, by a line of a. */
static bool comes_from_above(const int *before, int d, int k)
{
    const int *v = before + d - 1;
    return k == -d || (k != d && v[k - 1] < v[k + 1]);
}

static int begin_of(const int *before, int d, int k)
{
    const int *v = before + d - 1;
    return comes_from_above(before, d, k) ? v[k + 1] : v[k - 1] + 1;
}

/* 1: the end is reached with d differences. */
static int extend(struct search *s, int d)
{
    int *row = malloc((size_t)(2 * d + 1) * sizeof(*row));

    if (!row)
        return -ENOMEM;
    s->rows[d] = row;
    for (int k = -d; k <= d; k += 2) {
        int x = d == 0 ? 0 : begin_of(s->rows[d - 1], d, k), y = x - k;

        while (x < s->n && y < s->m && atoll_diff_lines_equal(&s->a[x], &s->b[y]))
            x++, y++;
        row[k + d] = x;
        if (k < d)
            row[k + d + 1] = -1; /* not used: every second diagonal */
        if (x == s->n && y == s->m)
            return 1;
    }
    return 0;
}

/* Adds a difference before all others; one that touches the last one is part of it. */
static void prepend(const struct search *s, struct atoll_diff_edits *edits, int x, int y,
                    bool from_b)
{
    size_t a = s->skipped + (size_t)x, b = s->skipped + (size_t)y;
    struct atoll_diff_edit *first = edits->count ? &edits->at[edits->count - 1] : NULL;

    if (first && first->a == a + !from_b && first->b == b + from_b) {
        first->a = a;
        first->b = b;
    } else {
        first = &edits->at[edits->count++];
        *first = (struct atoll_diff_edit){.a = a, .b = b};
    }
    *(from_b ? &first->b_count : &first->a_count) += 1;
}

/* Goes back from the end, which was reached with d differences. */
static int trace(const struct search *s, int d, struct atoll_diff_edits *ret)
{
    int x = s->n, y = s->m;

    ret->at = calloc((size_t)d + 1, sizeof(*ret->at));
    if (!ret->at)
        return -ENOMEM;
    for (; d > 0; d--) {
        int k = x - y;
        bool from_b = comes_from_above(s->rows[d - 1], d, k);
        int before = s->rows[d - 1][(from_b ? k + 1 : k - 1) + d - 1];

        x = before;
        y = before - (from_b ? k + 1 : k - 1);
        prepend(s, ret, x, y, from_b);
    }
    for (size_t i = 0; i < ret->count / 2; i++) {
        struct atoll_diff_edit other = ret->at[i];
        ret->at[i] = ret->at[ret->count - 1 - i];
        ret->at[ret->count - 1 - i] = other;
    }
    return 0;
}

/* One difference for all that remains. */
static int replace_all(const struct search *s, struct atoll_diff_edits *ret)
{
    ret->at = calloc(1, sizeof(*ret->at));
    if (!ret->at)
        return -ENOMEM;
    ret->count = 1;
    *ret->at = (struct atoll_diff_edit){s->skipped, (size_t)s->n, s->skipped, (size_t)s->m};
    return 0;
}

static int search(struct search *s, struct atoll_diff_edits *ret)
{
    int r = 0, d = 0;

    for (; r == 0 && d <= DIFFERENCES_MAX; d++)
        r = extend(s, d);
    if (r == 1)
        r = trace(s, d - 1, ret);
    else if (r == 0)
        r = replace_all(s, ret);
    for (int i = 0; i <= DIFFERENCES_MAX; i++)
        free(s->rows[i]);
    return r;
}

int atoll_diff_lines_compare(const struct atoll_diff_lines *a, const struct atoll_diff_lines *b,
                             struct atoll_diff_edits *ret)
{
    size_t shorter = ATOLL_MIN(a->count, b->count), head = 0, tail = 0;
    struct search *s;
    int r;

    *ret = (struct atoll_diff_edits){0};
    while (head < shorter && atoll_diff_lines_equal(&a->at[head], &b->at[head]))
        head++;
    while (tail < shorter - head &&
           atoll_diff_lines_equal(&a->at[a->count - 1 - tail], &b->at[b->count - 1 - tail]))
        tail++;
    if (head == a->count && head == b->count)
        return 0;
    if (a->count > INT_MAX / 2 || b->count > INT_MAX / 2)
        return -EFBIG;
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->a = a->at + head;
    s->b = b->at + head;
    s->n = (int)(a->count - head - tail);
    s->m = (int)(b->count - head - tail);
    s->skipped = head;
    r = search(s, ret);
    free(s);
    return r;
}
