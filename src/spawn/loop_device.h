#pragma once
#include "base/error.h"

/*
 * Loop devices for disk images. A device is detached when its last user closes it.
 */

/* lo_file_name of all our devices begins with this; the id of the sandbox follows. */
#define ATOLL_LOOP_DEVICE_NAME "atoll "
#define ATOLL_LOOP_DEVICE_PATH 32

/* Attaches the image to a free device. Returns a descriptor of the device. */
int atoll_loop_device_attach(int image_fd, const char *name,
                             char ret_path[static ATOLL_LOOP_DEVICE_PATH],
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* The device that the image is attached to already. -ENOENT. */
int atoll_loop_device_find(int image_fd,
                           char ret_path[static ATOLL_LOOP_DEVICE_PATH]) ATOLL_MUST_CHECK;
