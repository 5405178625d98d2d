#pragma once
#include "base/error.h"
#include "loop/loop.h"

/*
 * Formatted disk images, one per size, made once with mkfs.ext4 and copied for each sandbox.
 * `name` is below the state directory. done comes at once when the image is there already.
 */
void atoll_image_make(struct atoll_loop *loop, const char *state_dir, const char *name,
                      uint64_t size_bytes, uint64_t inodes,
                      void (*done)(void *arg, const struct atoll_error *error), void *arg);
