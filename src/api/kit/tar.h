#pragma once
#include "base/buf.h"
#include "engine/engine.h"

/*
 * Tar archives (POSIX pax format) as a stream: this writes the head of each entry; the caller
 * writes the bytes of a file and its padding. Pure.
 */
#define ATOLL_TAR_BLOCK 512

/* Appends the head of an entry, named `name` in the archive; `size` counts for files only.
 * -ENOBUFS, -ENOMEM. */
int atoll_tar_head(struct atoll_buf *out, const char *name, const struct atoll_am_entry *entry,
                   uint64_t size) ATOLL_MUST_CHECK;
/* The number of zero bytes that follow a file of that size. */
size_t atoll_tar_padding(uint64_t size);
