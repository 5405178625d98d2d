#pragma once
#include "base/error.h"

/*
 * The output of one exec, on disk: pieces of stdout and stderr in the order they came, each with its
 * offset in its stream. Made with its maximum: beyond it bytes are counted but not kept, and readers
 * are told of the gap. The file appears with the first byte.
 */
struct atoll_journal {
    int dir_fd; /* borrowed */
    char name[64];
    int fd; /* ATOLL_NO_FD until the first byte, and while nobody uses it */
    uint64_t size, max;
    uint64_t first[3]; /* bytes of each stream that were forgotten, by stream number */
    uint64_t seen[3];  /* bytes of each stream that came */
    uint64_t kept[3];  /* end of those in the file: a run without gaps from first on */
    unsigned emptied;  /* how often: places in the file from before mean nothing */
};

void atoll_journal_init(struct atoll_journal *j, int dir_fd, const char *name, uint64_t max);
/* Closes the file; it stays, and is opened again when it is read. */
void atoll_journal_rest(struct atoll_journal *j);

/* Takes up the file of an earlier daemon, if there is one; a piece cut short by its death is dropped. */
int atoll_journal_reopen(struct atoll_journal *j) ATOLL_MUST_CHECK;
/* Closes it and removes the file. */
void atoll_journal_remove(struct atoll_journal *j);

/* Adds bytes of a stream that begin at `offset` there. What is known already is skipped; a gap is
 * -EBADMSG. Another -errno says that the disk refused: the bytes are counted as seen, not kept. */
int atoll_journal_append(struct atoll_journal *j, int stream, uint64_t offset, const uint8_t *bytes,
                         size_t n) ATOLL_MUST_CHECK;

/* Empties the file: everything in it was used. The streams go on where they are, and what had no
 * room before has some again. */
int atoll_journal_forget(struct atoll_journal *j) ATOLL_MUST_CHECK;
/* The same, and the streams go on at these offsets: whoever writes them begins again there. */
int atoll_journal_restart(struct atoll_journal *j, uint64_t stdout_offset,
                          uint64_t stderr_offset) ATOLL_MUST_CHECK;

/* A place in the journal. */
struct atoll_journal_cursor {
    uint64_t at;      /* in the file */
    unsigned emptied; /* the file's, when it was there */
    uint64_t want[3]; /* next byte wanted of each stream */
};

/* Reads the next wanted bytes into buf. 1: got some; 0: at the end of what is there; -errno. */
int atoll_journal_read(struct atoll_journal *j, struct atoll_journal_cursor *c, uint8_t *buf,
                       size_t cap, int *ret_stream, uint64_t *ret_offset,
                       size_t *ret_len) ATOLL_MUST_CHECK;
