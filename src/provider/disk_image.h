#pragma once
#include "base/error.h"
#include "loop/loop.h"

/*
 * Formatted disk images, one per size, made once with mkfs.ext4 and copied for each sandbox.
 * `name` is below the state directory. done comes at once when the image is there already.
 * journal: it is to survive a crash of the host; the room that takes comes on top of the size.
 */
void atoll_disk_image_make(struct atoll_loop *loop, const char *state_dir, const char *name,
                           uint64_t size_bytes, uint64_t inodes, bool journal,
                           void (*done)(void *arg, const struct atoll_error *error), void *arg);

/* The same for a worker: blocks while mkfs.ext4 runs. */
int atoll_disk_image_make_now(const char *state_dir, const char *name, uint64_t size_bytes,
                              uint64_t inodes, bool journal,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* The sandboxes that have a disk in the state directory which can outlive them. */
void atoll_disk_image_each_kept(const char *state_dir, void (*each)(void *arg, const char *id),
                                void *arg);
/* Absent is fine. */
void atoll_disk_image_drop_kept(const char *state_dir, const char *id);
