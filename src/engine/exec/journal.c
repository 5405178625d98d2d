#include "engine/exec/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include "base/switches.h"
#include "base/text.h"

/* More than an agent sends before it waits for an acknowledgement. */
#define TAIL_MAX ((uint64_t)16 << 20)

/* The header of each piece in the file. */
struct piece {
    uint32_t len;
    uint32_t stream;
    uint64_t offset;
};

void atoll_journal_init(struct atoll_journal *j, int dir_fd, const char *name, uint64_t max)
{
    *j = (struct atoll_journal){.dir_fd = dir_fd, .fd = ATOLL_NO_FD, .max = max};
    atoll_buf_init(&j->memory, TAIL_MAX);
    if (atoll_text_copy(j->name, sizeof(j->name), name) < 0)
        abort(); /* the names are made by the daemon */
}

uint64_t atoll_journal_file_bytes(const struct atoll_journal *j)
{
    return j->size - atoll_buf_size(&j->memory);
}

/* Call after the tail was cut off: cursors in it start again at the end of the head. The head may
 * grow again if it was ended by a full disk. */
static void note_emptied(struct atoll_journal *j)
{
    j->emptied_at = j->emptied == 0 ? j->head : ATOLL_MIN(j->emptied_at, j->head);
    j->emptied++;
}

static void drop_memory(struct atoll_journal *j)
{
    if (atoll_buf_size(&j->memory) == 0)
        return;
    j->size = atoll_journal_file_bytes(j);
    note_emptied(j);
    atoll_buf_done(&j->memory);
    atoll_buf_init(&j->memory, TAIL_MAX);
}

void atoll_journal_rest(struct atoll_journal *j)
{
    drop_memory(j);
    if (j->fd >= 0)
        (void)close(ATOLL_TAKE_FD(j->fd));
}

void atoll_journal_discard(struct atoll_journal *j)
{
    atoll_journal_remove(j);
    j->size = j->head = 0;
    memset(j->kept, 0, sizeof(j->kept));
    j->full = true;
    note_emptied(j);
}

void atoll_journal_remove(struct atoll_journal *j)
{
    atoll_journal_rest(j);
    if (j->size > 0 || j->emptied > 0 || j->has_file)
        (void)unlinkat(j->dir_fd, j->name, 0);
    j->has_file = false;
}

static int open_file(struct atoll_journal *j)
{
    int fault;

    if (j->fd >= 0)
        return 0;
    fault = atoll_fault("journal.open");
    if (fault != 0)
        return -fault;
    /* A file that was emptied exists already. */
    j->fd = openat(j->dir_fd, j->name,
                   O_RDWR | O_CREAT | (j->emptied || j->has_file ? 0 : O_EXCL) | O_CLOEXEC, 0600);
    if (j->fd < 0)
        return -errno;
    j->has_file = true;
    return 0;
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
    j->has_file = true;
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
    j->emptied = j->size == 0; /* the file exists */
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
    if (n != whole) /* the size was not advanced: the next piece overwrites the incomplete one */
        return n < 0 ? -errno : -ENOSPC;
    j->size += (uint64_t)whole;
    return 0;
}

/* Whether a piece of n bytes can be stored. */
static bool find_room(struct atoll_journal *j, size_t n, bool held)
{
    const uint64_t whole = sizeof(struct piece) + n;

    /* The head is contiguous: after the first piece that does not fit, shorter ones are not added
     * either. */
    j->full = j->full || j->size + whole > j->max;
    return !j->full || (held && j->size - j->head + whole <= TAIL_MAX);
}

static int write_memory(struct atoll_journal *j, const struct piece *piece, const uint8_t *bytes)
{
    const size_t whole = sizeof(*piece) + piece->len;
    int r = atoll_buf_size(&j->memory) + whole > j->memory_max
                ? -ENOBUFS
                : atoll_buf_append(&j->memory, piece, sizeof(*piece));

    if (r < 0)
        return r;
    r = atoll_buf_append(&j->memory, bytes, piece->len);
    if (r < 0)
        j->memory.len -= sizeof(*piece);
    else
        j->size += whole;
    return r;
}

/* Writes to the head or to the file's tail. 1: no room, which is not an error. */
static int write_file(struct atoll_journal *j, const struct piece *piece, const uint8_t *bytes,
                      bool held)
{
    int r;

    if (!find_room(j, piece->len, held))
        return 1;
    r = open_file(j);
    if (r == 0)
        r = write_piece(j, piece, bytes);
    if (r == 0 && !j->full) {
        j->kept[piece->stream] = piece->offset + piece->len;
        j->head = j->size;
    }
    return r;
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
    /* To keep the order, bytes after those in memory go to memory too. */
    r = j->no_disk || atoll_buf_size(&j->memory) > 0 ? -EDQUOT : write_file(j, &piece, bytes, held);
    if (r < 0 && held && write_memory(j, &piece, bytes) == 0)
        return 0;
    return r == 1 ? 0 : r;
}

int atoll_journal_forget(struct atoll_journal *j)
{
    int fault;

    drop_memory(j);
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
    note_emptied(j);
    return 0;
}

/* Reads at a position of the journal, which is the file followed by the memory. */
static int fetch(struct atoll_journal *j, void *out, size_t n, uint64_t at)
{
    const uint64_t file = atoll_journal_file_bytes(j);

    if (at >= file) {
        if (at - file + n > atoll_buf_size(&j->memory))
            return -EIO;
        memcpy(out, atoll_buf_head(&j->memory) + (at - file), n);
        return 0;
    }
    if (j->fd < 0) {
        j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CLOEXEC);
        if (j->fd < 0)
            return -errno;
    }
    return pread(j->fd, out, n, (off_t)at) == (ssize_t)n ? 0 : -EIO;
}

int atoll_journal_read(struct atoll_journal *j, struct atoll_journal_cursor *c, uint8_t *buf,
                       size_t cap, int *ret_stream, uint64_t *ret_offset, uint64_t *ret_len)
{
    if (c->emptied != j->emptied) {
        c->emptied = j->emptied;
        c->at = ATOLL_MIN(c->at, j->emptied_at);
    }
    while (c->at < j->size) {
        struct piece piece;
        uint64_t end, skip, *want;
        size_t n;
        int r = fetch(j, &piece, sizeof(piece), c->at);

        if (r < 0)
            return r;
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
        r = fetch(j, buf, n, c->at + sizeof(piece) + skip);
        if (r < 0)
            return r;
        *ret_len = n;
        *want += n;
        return 1;
    }
    return 0;
}
