#pragma once
#include "base/buf.h"

/*
 * Lines of JSON about a run, on stdout: notes as they occur, at most ATOLL_NOTES_PRINTED of them, and a last
 * line. The program's contract: unpack/unpack.h.
 */
#define ATOLL_NOTES_PRINTED 64

struct atoll_notes {
    int fd;         /* -1: counted only */
    uint64_t count; /* also those that were not printed */
};

/* kind: "device" …; path: bytes; text: what was done about it. */
void atoll_notes_add(struct atoll_notes *notes, const char *kind, const char *path,
                     const char *text);
