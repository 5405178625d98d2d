#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * The output of one exec, on disk: pieces of stdout and stderr in the order they came, each with its
 * offset in its stream. The file appears with the first byte, and has two parts:
 *
 * - the head, for whoever comes later: up to its maximum, and from the piece that finds no room there
 *   on nothing more is added to it;
 * - the tail, for whoever is there: pieces that came after that, until they are forgotten. Where the
 *   disk takes none of them they are in memory, as far as that is granted.
 *
 * Bytes that are in neither are counted, and whoever reads is told of the gap where it is.
 */
struct atoll_journal {
    int dir_fd; /* borrowed */
    char name[64];
    int fd;                   /* ATOLL_NO_FD until the first byte, and while nobody uses it */
    uint64_t size, head, max; /* of the file, of its head, and what that may have */
    bool full;                /* the head gets nothing more */
    uint64_t seen[3];         /* bytes of each stream that came, by stream number */
    uint64_t kept[3];         /* where those in the head end */
    unsigned emptied;         /* how often the tail was: places there from before mean nothing */
    uint64_t emptied_at;     /* where the head ended when that was first: all before is as it was */
    struct atoll_buf memory; /* what comes after the file, until the tail is forgotten */
    size_t memory_max;       /* most of that; the caller's, before each append. 0: nothing */
    bool no_disk;            /* the file gets nothing; the caller's, before each append */
};

void atoll_journal_init(struct atoll_journal *j, int dir_fd, const char *name, uint64_t max);
/* Closes the file; it stays, and is opened again when it is read. What was in memory is gone. */
void atoll_journal_rest(struct atoll_journal *j);
/* Bytes of the file. */
uint64_t atoll_journal_file_bytes(const struct atoll_journal *j);
/* Gives up all that is kept, the file included; whoever reads is told of the gap. */
void atoll_journal_discard(struct atoll_journal *j);

/* Takes up the file of an earlier daemon, if there is one; a piece cut short by its death is dropped.
 * So is the tail where more is to come: it begins again where the head ends, for whoever writes it
 * still has what nobody has used. */
int atoll_journal_reopen(struct atoll_journal *j, bool more_comes) ATOLL_MUST_CHECK;
/* Closes it and removes the file. */
void atoll_journal_remove(struct atoll_journal *j);

/* Adds bytes of a stream that begin at `offset` there. What is known already is skipped; an offset
 * behind what came is -EBADMSG. What has no room in the head goes to the tail if it is to be `held`,
 * up to a size. Another -errno says that the disk refused, and memory too: the bytes are counted, not
 * kept. */
int atoll_journal_append(struct atoll_journal *j, int stream, uint64_t offset, const uint8_t *bytes,
                         size_t n, bool held) ATOLL_MUST_CHECK;

/* Empties the tail: everything in it was used. */
int atoll_journal_forget(struct atoll_journal *j) ATOLL_MUST_CHECK;

/* A place in the journal. */
struct atoll_journal_cursor {
    uint64_t at;      /* in the file */
    unsigned emptied; /* the file's, when it was there */
    uint64_t want[3]; /* next byte wanted of each stream */
};

/* Reads the next wanted bytes into buf. 1: got some; 2: there is none of these *ret_len bytes, which
 * come first; 0: at the end of what is there; -errno. */
int atoll_journal_read(struct atoll_journal *j, struct atoll_journal_cursor *c, uint8_t *buf,
                       size_t cap, int *ret_stream, uint64_t *ret_offset,
                       uint64_t *ret_len) ATOLL_MUST_CHECK;
