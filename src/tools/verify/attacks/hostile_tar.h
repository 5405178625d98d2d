#pragma once
#include "base/buf.h"

/*
 * Writer for malicious tar archives, and a careless extractor without any checks. Pure, except the
 * extractor, which writes below a given directory (and, being careless, elsewhere).
 */
struct atoll_hostile_tar_entry {
    const char *name;
    char type; /* '0' file, '1' hard link, '2' link, '3' '4' devices, '5' directory, '6' pipe, … */
    const char *link;
    unsigned mode;
    const char *data;
    uint64_t claims; /* forged size for the header; 0: the real size */
};

/* -ENOBUFS, -ENOMEM. */
int atoll_hostile_tar_add(struct atoll_buf *out,
                          const struct atoll_hostile_tar_entry *entry) ATOLL_MUST_CHECK;
/* A pax header that gives the next entry another path. */
int atoll_hostile_tar_add_pax_path(struct atoll_buf *out, const char *path) ATOLL_MUST_CHECK;
int atoll_hostile_tar_end(struct atoll_buf *out) ATOLL_MUST_CHECK;

/* A gzip file of a tar whose only entry is `size` zero bytes: about 160 times smaller. */
int atoll_hostile_tar_gzip_bomb(struct atoll_buf *out, uint64_t size) ATOLL_MUST_CHECK;

struct atoll_hostile_tar_carelessness {
    size_t entries;
    uint64_t reserved; /* size of the largest file that it allocated */
    bool kept_setuid;
};

/* Unpacks below `dir` without any checks. */
void atoll_hostile_tar_unpack_carelessly(const char *dir, const void *bytes, size_t n,
                                         struct atoll_hostile_tar_carelessness *ret);
