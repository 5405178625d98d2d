#pragma once
#include "base/error.h"

/*
 * Where the files of a tar archive are: reads the heads of a plain tar file (ustar, pax, GNU names) and
 * skips the content. Archives are hostile: names, links and sizes are checked and bounded.
 *
 * Blocking: reads the file.
 */
#define ATOLL_IMAGE_TAR_MEMBERS_MAX 65536
#define ATOLL_IMAGE_TAR_NAME_MAX 1024

struct atoll_image_tar;

/* fd: a regular file, borrowed until _free(). INVALID_ARGUMENT: not a tar (a compressed one is named);
 * RESOURCE_EXHAUSTED: more members than the maximum. */
int atoll_image_tar_read(int fd, struct atoll_image_tar **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_image_tar *atoll_image_tar_free(struct atoll_image_tar *tar);

/* The range of a file, by its name without "./"; links are followed inside the archive. The last member
 * of a name holds. False: there is no such file. */
bool atoll_image_tar_find(const struct atoll_image_tar *tar, const char *name, uint64_t *ret_offset,
                          uint64_t *ret_size);
/* Reads a file of at most max bytes, with a NUL behind it. NOT_FOUND, RESOURCE_EXHAUSTED. */
int atoll_image_tar_load(const struct atoll_image_tar *tar, const char *name, size_t max,
                         char **ret, size_t *ret_len, struct atoll_error *err) ATOLL_MUST_CHECK;
