#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * The output of one exec, on disk: pieces of stdout and stderr in the order they came, each with
 * its offset in its stream. The file is created with the first byte and has two parts:
 *
 * - the head, for later readers: up to a maximum size. After the first piece that does not fit,
 * nothing more is added;
 *
 * - the tail, for following readers: pieces that came after that, until they are released. If the
 * disk does not take them, they are held in memory, up to a limit.
 *
 * Bytes that are in neither are counted, and readers get a gap in their place.
 */
struct atoll_journal {
    int dir_fd; /* borrowed */
    char name[64];
    int fd;                   /* ATOLL_NO_FD until the first byte, and while it is not in use */
    uint64_t size, head, max; /* size of the file, size of its head, and maximum of that */
    bool full;                /* nothing more is added to the head */
    uint64_t seen[3];         /* bytes received of each stream, by stream number */
    uint64_t kept[3];         /* offset where the head ends, by stream number */
    /* Number of times the tail was emptied: older cursors in it are invalid. */
    unsigned emptied;
    /* End of the head when it was first emptied: all before is unchanged. */
    uint64_t emptied_at;
    struct atoll_buf memory; /* follows the file, until the tail is released */
    size_t memory_max;       /* limit of memory; set by the caller before each append. 0: none */
    bool has_file;           /* it exists, perhaps with nothing in it: a write failed */
    bool no_disk;            /* do not write to the file; set by the caller before each append */
};

void atoll_journal_init(struct atoll_journal *j, int dir_fd, const char *name, uint64_t max);
/* Closes the file, which stays and is opened again when it is read. Drops what is in memory. */
void atoll_journal_rest(struct atoll_journal *j);
/* Size of the file. */
uint64_t atoll_journal_file_bytes(const struct atoll_journal *j);
/* Drops all content and the file; readers get a gap. */
void atoll_journal_discard(struct atoll_journal *j);

/* Opens the file of an earlier daemon, if there is one; an incomplete last piece is dropped. If
 * more output is expected (more_comes), the tail is dropped too: the agent still has what readers
 * have not released and sends it again. */
int atoll_journal_reopen(struct atoll_journal *j, bool more_comes) ATOLL_MUST_CHECK;
/* Closes it and removes the file. */
void atoll_journal_remove(struct atoll_journal *j);

/* Adds bytes of a stream that begin at `offset`. Bytes that are known already are skipped; an
 * offset beyond the end of the stream is -EBADMSG. Bytes that do not fit in the head go to the tail
 * if `held`, up to a limit. Another -errno: neither disk nor memory took them; they are counted,
 * not kept. */
int atoll_journal_append(struct atoll_journal *j, int stream, uint64_t offset, const uint8_t *bytes,
                         size_t n, bool held) ATOLL_MUST_CHECK;

/* Empties the tail, after all of it was released. */
int atoll_journal_forget(struct atoll_journal *j) ATOLL_MUST_CHECK;

/* A position in the journal. */
struct atoll_journal_cursor {
    uint64_t at;      /* in the file */
    unsigned emptied; /* value of the journal's `emptied` at that time */
    uint64_t want[3]; /* next offset wanted of each stream */
};

/* Reads the next wanted bytes into buf. 1: got some; 2: a gap of *ret_len bytes comes first; 0: no
 * more for now; -errno. */
int atoll_journal_read(struct atoll_journal *j, struct atoll_journal_cursor *c, uint8_t *buf,
                       size_t cap, int *ret_stream, uint64_t *ret_offset,
                       uint64_t *ret_len) ATOLL_MUST_CHECK;
