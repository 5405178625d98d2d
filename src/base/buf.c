#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/switches.h"

#define MIN_CAPACITY 256

void atoll_buf_init(struct atoll_buf *b, size_t max)
{
    *b = (struct atoll_buf){.max = max};
}

void atoll_buf_init_erasing(struct atoll_buf *b, size_t max)
{
    *b = (struct atoll_buf){.max = max, .erases = true};
}

void atoll_buf_done(struct atoll_buf *b)
{
    if (b->erases && b->data)
        explicit_bzero(b->data, b->cap);
    free(b->data);
    *b = (struct atoll_buf){.max = b->max, .erases = b->erases};
}

void atoll_buf_wipe(struct atoll_buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    atoll_buf_done(b);
}

/* realloc() may leave a copy behind. */
static uint8_t *grow(struct atoll_buf *b, size_t cap)
{
    uint8_t *grown;

    if (atoll_fault("base.buf_grow"))
        return NULL;
    if (!b->erases || !b->data)
        return realloc(b->data, cap);
    grown = malloc(cap);
    if (!grown)
        return NULL;
    memcpy(grown, b->data, b->len);
    explicit_bzero(b->data, b->cap);
    free(b->data);
    return grown;
}

/* Makes cap - len >= n, moving the held bytes to the front before asking for more memory. */
static int make_room(struct atoll_buf *b, size_t n)
{
    size_t held = b->len - b->off;
    size_t cap;
    uint8_t *grown;

    if (b->cap - b->len >= n)
        return 0;
    if (b->off > 0) {
        memmove(b->data, b->data + b->off, held);
        if (b->erases)
            explicit_bzero(b->data + held, b->off);
        b->off = 0;
        b->len = held;
        if (b->cap - b->len >= n)
            return 0;
    }
    for (cap = ATOLL_MAX(b->cap, (size_t)MIN_CAPACITY); cap - held < n; cap *= 2)
        ;
    grown = grow(b, cap);
    if (!grown)
        return -ENOMEM;
    b->data = grown;
    b->cap = cap;
    return 0;
}

int atoll_buf_reserve(struct atoll_buf *b, size_t n, uint8_t **ret_tail)
{
    int r;

    if (n > b->max || atoll_buf_size(b) > b->max - n)
        return -ENOBUFS;
    r = make_room(b, n);
    if (r < 0)
        return r;
    *ret_tail = b->data ? b->data + b->len : NULL;
    return 0;
}

void atoll_buf_commit(struct atoll_buf *b, size_t n)
{
    assert(n <= b->cap - b->len);
    b->len += n;
}

int atoll_buf_append(struct atoll_buf *b, const void *bytes, size_t n)
{
    uint8_t *tail;
    int r;

    if (n == 0)
        return 0;
    r = atoll_buf_reserve(b, n, &tail);
    if (r < 0)
        return r;
    memcpy(tail, bytes, n);
    atoll_buf_commit(b, n);
    return 0;
}

int atoll_buf_appends(struct atoll_buf *b, const char *text)
{
    return atoll_buf_append(b, text, strlen(text));
}

int atoll_buf_appendf(struct atoll_buf *b, const char *fmt, ...)
{
    va_list ap;
    uint8_t *tail;
    int n, r;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -EINVAL;
    /* vsnprintf writes a NUL too; it is reserved but not committed. */
    r = atoll_buf_reserve(b, (size_t)n, &tail);
    if (r == 0)
        r = make_room(b, (size_t)n + 1);
    if (r < 0)
        return r;
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    atoll_buf_commit(b, (size_t)n);
    return 0;
}

void atoll_buf_consume(struct atoll_buf *b, size_t n)
{
    assert(n <= atoll_buf_size(b));
    if (b->erases && n > 0)
        explicit_bzero(b->data + b->off, n);
    b->off += n;
    if (b->off == b->len)
        b->off = b->len = 0;
}

void atoll_buf_clear(struct atoll_buf *b)
{
    atoll_buf_consume(b, atoll_buf_size(b));
    b->off = b->len = 0;
}

const char *atoll_buf_str(struct atoll_buf *b)
{
    if (make_room(b, 1) < 0)
        return "";
    b->data[b->len] = '\0';
    return (const char *)b->data + b->off;
}
