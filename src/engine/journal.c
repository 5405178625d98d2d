#include "engine/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include "base/switches.h"
#include "base/text.h"

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

int atoll_journal_reopen(struct atoll_journal *j)
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
            j->size + sizeof(piece) + piece.len > (uint64_t)end)
            break;
        if (j->kept[piece.stream] == 0) /* what was before it is forgotten */
            j->first[piece.stream] = j->seen[piece.stream] = j->kept[piece.stream] = piece.offset;
        if (piece.offset != j->seen[piece.stream])
            break;
        j->seen[piece.stream] += piece.len;
        j->kept[piece.stream] += piece.len;
        j->size += sizeof(piece) + piece.len;
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

int atoll_journal_append(struct atoll_journal *j, int stream, uint64_t offset, const uint8_t *bytes,
                         size_t n)
{
    uint64_t *seen = &j->seen[stream], *kept = &j->kept[stream];
    uint64_t known;
    struct piece piece;
    int r;

    if (offset > *seen)
        return -EBADMSG;
    known = *seen - offset;
    if (known >= n)
        return 0;
    bytes += known;
    n -= known;
    /* Once something was dropped, later bytes of the stream must be too: what is kept is a prefix. */
    if (*kept < *seen || j->size + sizeof(piece) + n > j->max) {
        *seen += n;
        return 0;
    }
    piece = (struct piece){(uint32_t)n, (uint32_t)stream, *seen};
    r = open_file(j);
    if (r == 0)
        r = write_piece(j, &piece, bytes);
    *seen += n;
    if (r == 0)
        *kept += n;
    return r;
}

int atoll_journal_forget(struct atoll_journal *j)
{
    return atoll_journal_restart(j, j->seen[1], j->seen[2]);
}

int atoll_journal_restart(struct atoll_journal *j, uint64_t stdout_offset, uint64_t stderr_offset)
{
    const uint64_t offsets[] = {0, stdout_offset, stderr_offset};
    int fault = atoll_fault("journal.restart");

    if (fault != 0)
        return -fault;
    if (j->size > 0 && j->fd < 0)
        j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CLOEXEC);
    if (j->size > 0 && (j->fd < 0 || ftruncate(j->fd, 0) < 0))
        return -errno;
    j->size = 0;
    j->emptied++;
    for (int stream = 1; stream <= 2; stream++)
        j->first[stream] = j->kept[stream] = j->seen[stream] = offsets[stream];
    return 0;
}

int atoll_journal_read(struct atoll_journal *j, struct atoll_journal_cursor *c, uint8_t *buf,
                       size_t cap, int *ret_stream, uint64_t *ret_offset, size_t *ret_len)
{
    if (c->emptied != j->emptied) {
        c->emptied = j->emptied;
        c->at = 0;
    }
    if (c->at < j->size && j->fd < 0) {
        j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CLOEXEC);
        if (j->fd < 0)
            return -errno;
    }
    while (c->at < j->size) {
        struct piece piece;
        uint64_t end, skip;
        size_t n;

        if (pread(j->fd, &piece, sizeof(piece), (off_t)c->at) != (ssize_t)sizeof(piece))
            return -EIO;
        end = piece.offset + piece.len;
        if (end <= c->want[piece.stream]) {
            c->at += sizeof(piece) + piece.len;
            continue;
        }
        skip = ATOLL_MAX(c->want[piece.stream], piece.offset) - piece.offset;
        n = ATOLL_MIN((size_t)(piece.len - skip), cap);
        if (pread(j->fd, buf, n, (off_t)(c->at + sizeof(piece) + skip)) != (ssize_t)n)
            return -EIO;
        *ret_stream = (int)piece.stream;
        *ret_offset = piece.offset + skip;
        *ret_len = n;
        c->want[piece.stream] = piece.offset + skip + n;
        return 1;
    }
    return 0;
}
