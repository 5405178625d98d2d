#include "engine/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include "base/switches.h"
#include "base/text.h"

/* More than an agent sends before it is told to go on. */
#define TAIL_MAX ((uint64_t)16 << 20)

/* In the file, before the bytes of each piece. */
struct piece {
    uint32_t len;
    uint32_t stream;
    uint64_t offset;
};

void atoll_journal_init(struct atoll_journal *j, int dir_fd, const char *name, uint64_t max)
{
    *j = (struct atoll_journal){.dir_fd = dir_fd, .fd = ATOLL_NO_FD, .max = max};
    if (atoll_text_copy(j->name, sizeof(j->name), name) < 0)
        abort(); /* names are ours */
}

void atoll_journal_rest(struct atoll_journal *j)
{
    if (j->fd >= 0)
        (void)close(ATOLL_TAKE_FD(j->fd));
}

void atoll_journal_remove(struct atoll_journal *j)
{
    atoll_journal_rest(j);
    if (j->size > 0 || j->emptied > 0)
        (void)unlinkat(j->dir_fd, j->name, 0);
}

static int open_file(struct atoll_journal *j)
{
    int fault;

    if (j->fd >= 0)
        return 0;
    fault = atoll_fault("journal.open");
    if (fault != 0)
        return -fault;
    /* One that was emptied is there already. */
    j->fd =
        openat(j->dir_fd, j->name, O_RDWR | O_CREAT | (j->emptied ? 0 : O_EXCL) | O_CLOEXEC, 0600);
    return j->fd < 0 ? -errno : 0;
}

static void take_up(struct atoll_journal *j, const struct piece *piece)
{
    const uint64_t whole = sizeof(*piece) + piece->len, end = piece->offset + piece->len;

    j->full = j->full || j->size + whole > j->max;
    j->seen[piece->stream] = end;
    j->size += whole;
    if (!j->full) {
        j->kept[piece->stream] = end;
        j->head = j->size;
    }
}

int atoll_journal_reopen(struct atoll_journal *j, bool more_comes)
{
    struct piece piece;
    off_t end;
    int fault = atoll_fault("journal.reopen");

    if (fault != 0)
        return -fault;
    j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CLOEXEC);
    if (j->fd < 0)
        return errno == ENOENT ? 0 : -errno;
    end = lseek(j->fd, 0, SEEK_END);
    if (end < 0)
        return -errno;
    while (j->size + sizeof(piece) <= (uint64_t)end &&
           pread(j->fd, &piece, sizeof(piece), (off_t)j->size) == (ssize_t)sizeof(piece)) {
        if (piece.stream < 1 || piece.stream > 2 || piece.offset > INT64_MAX ||
            piece.offset < j->seen[piece.stream] ||
            j->size + sizeof(piece) + piece.len > (uint64_t)end)
            break;
        take_up(j, &piece);
    }
    if (more_comes) {
        j->size = j->head;
        memcpy(j->seen, j->kept, sizeof(j->seen));
    }
    j->emptied = j->size == 0; /* the file is there */
    return ftruncate(j->fd, (off_t)j->size) < 0 ? -errno : 0;
}

static int write_piece(struct atoll_journal *j, const struct piece *piece, const uint8_t *bytes)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)piece, sizeof(*piece)},
                           {(void *)(uintptr_t)bytes, piece->len}};
    ssize_t whole = (ssize_t)(sizeof(*piece) + piece->len);
    int fault = atoll_fault("journal.write");
    ssize_t n;

    if (fault != 0)
        return -fault;
    n = pwritev(j->fd, iov, 2, (off_t)j->size);
    atoll_fault_die("journal.write.after");
    if (n != whole) /* the size was not advanced: the next piece goes over the torn one */
        return n < 0 ? -errno : -ENOSPC;
    j->size += (uint64_t)whole;
    return 0;
}

/* Whether a piece of n bytes goes anywhere. */
static bool find_room(struct atoll_journal *j, size_t n, bool held)
{
    const uint64_t whole = sizeof(struct piece) + n;

    /* What is kept for later is one run: a short piece that would still fit is not added. */
    j->full = j->full || j->size + whole > j->max;
    return !j->full || (held && j->size - j->head + whole <= TAIL_MAX);
}

int atoll_journal_append(struct atoll_journal *j, int stream, uint64_t offset, const uint8_t *bytes,
                         size_t n, bool held)
{
    uint64_t *seen = &j->seen[stream];
    struct piece piece;
    uint64_t known;
    int r;

    if (offset > *seen)
        return -EBADMSG;
    known = *seen - offset;
    if (known >= n)
        return 0;
    bytes += known;
    n -= known;
    piece = (struct piece){(uint32_t)n, (uint32_t)stream, *seen};
    *seen += n;
    if (!find_room(j, n, held))
        return 0;
    r = open_file(j);
    if (r == 0)
        r = write_piece(j, &piece, bytes);
    if (r == 0 && !j->full) {
        j->kept[stream] = *seen;
        j->head = j->size;
    }
    return r;
}

int atoll_journal_forget(struct atoll_journal *j)
{
    int fault;

    if (j->size == j->head)
        return 0;
    fault = atoll_fault("journal.forget");
    if (fault != 0)
        return -fault;
    if (j->fd < 0)
        j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CLOEXEC);
    if (j->fd < 0 || ftruncate(j->fd, (off_t)j->head) < 0)
        return -errno;
    j->size = j->head;
    j->emptied++;
    return 0;
}

int atoll_journal_read(struct atoll_journal *j, struct atoll_journal_cursor *c, uint8_t *buf,
                       size_t cap, int *ret_stream, uint64_t *ret_offset, uint64_t *ret_len)
{
    if (c->emptied != j->emptied) {
        c->emptied = j->emptied;
        c->at = ATOLL_MIN(c->at, j->head);
    }
    if (c->at < j->size && j->fd < 0) {
        j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CLOEXEC);
        if (j->fd < 0)
            return -errno;
    }
    while (c->at < j->size) {
        struct piece piece;
        uint64_t end, skip, *want;
        size_t n;

        if (pread(j->fd, &piece, sizeof(piece), (off_t)c->at) != (ssize_t)sizeof(piece))
            return -EIO;
        end = piece.offset + piece.len;
        want = &c->want[piece.stream];
        *ret_stream = (int)piece.stream;
        *ret_offset = *want;
        if (end <= *want) {
            c->at += sizeof(piece) + piece.len;
            continue;
        }
        if (*want < piece.offset) {
            *ret_len = piece.offset - *want;
            *want = piece.offset;
            return 2;
        }
        skip = *want - piece.offset;
        n = ATOLL_MIN((size_t)(piece.len - skip), cap);
        if (pread(j->fd, buf, n, (off_t)(c->at + sizeof(piece) + skip)) != (ssize_t)n)
            return -EIO;
        *ret_len = n;
        *want += n;
        return 1;
    }
    return 0;
}
