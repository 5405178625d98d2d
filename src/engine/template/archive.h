#pragma once
#include "engine/engine.h"

/*
 * Images from an archive: what `docker save` writes, or an OCI layout as a tar file. The archive is written
 * to an unnamed file; a worker reads its documents, and the layers are unpacked from it (unpack.h).
 *
 * Thread: the loop's. Ownership: the caller owns struct atoll_image_archive until finish or drop.
 */
struct atoll_image_archive;

/* name: of the template; NULL: each image of the archive becomes one with its own name (those without are
 * refused). With a name, the archive must have one image. tenant: its owner. */
int atoll_image_archive_open(struct atoll_engine *engine, const char *tenant, const char *name,
                             struct atoll_image_archive **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* The next bytes; done is called when more can be written. After an error, drop it. */
void atoll_image_archive_write(struct atoll_image_archive *archive, const uint8_t *bytes, size_t n,
                               atoll_done_fn *done, void *arg);
/* End of the archive; frees it. done gets the (last) version. Error kinds as in image/layout.h and unpack.h. */
void atoll_image_archive_finish(struct atoll_image_archive *archive, atoll_template_fn *done,
                                void *arg);
/* Not after finish. Accepts NULL. */
void atoll_image_archive_drop(struct atoll_image_archive *archive);
