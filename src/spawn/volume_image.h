#pragma once
#include <stdbool.h>
#include "base/error.h"

/*
 * Volumes with a limit: an ext4 image in place of the directory volumes/TENANT/NAME. All sandboxes that mount it use
 * one loop device, and so one file system. The device shares the open file description that holds the lock of
 * the image. So the lock lasts as long as the image is attached, and an image is never attached twice.
 * Blocking: the copy of a nearly empty image, and a mount.
 */

/* Copies the formatted image to dir_fd/NAME, whole or not at all. Success if it exists. */
int atoll_volume_image_make(int dir_fd, const char *name, int source_fd) ATOLL_MUST_CHECK;
/* Whether a sandbox has it, or a copy is being made of it: another descriptor has the lock. */
bool atoll_volume_image_is_attached(int image_fd);
/* Returns a detached mount of the image. The top of a new one is given to `owner` with `mode`. */
int atoll_volume_image_mount(int dir_fd, const char *name, uint32_t owner,
                             uint32_t mode) ATOLL_MUST_CHECK;
