#pragma once
#include "base/error.h"
#include "loop/loop.h"

#define ATOLL_DISK_IMAGE_JOURNAL_BYTES (UINT64_C(4) * 1024 * 1024)

/*
 * Formatted disk images, one per size, made once with mkfs.ext4 and copied for each sandbox. `name`
 * is relative to the state directory. done is called before this returns if the image exists.
 * journal: the disk must survive a crash of the host; the journal's space is added to the size.
 */
void atoll_disk_image_make(struct atoll_loop *loop, const char *state_dir, const char *name,
                           uint64_t size_bytes, uint64_t inodes, bool journal,
                           void (*done)(void *arg, const struct atoll_error *error), void *arg);

/* The same for a worker thread: blocks while mkfs.ext4 runs. */
int atoll_disk_image_make_now(const char *state_dir, const char *name, uint64_t size_bytes,
                              uint64_t inodes, bool journal,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether the persistent disk of the sandbox is in the disk pool. */
bool atoll_disk_image_is_cow(const char *state_dir, const char *id);

/* Calls each() for every sandbox that has a persistent disk in the state directory. */
void atoll_disk_image_each_kept(const char *state_dir, void (*each)(void *arg, const char *id),
                                void *arg);
/* Success also if there is no such disk. */
void atoll_disk_image_drop_kept(const char *state_dir, const char *id);
