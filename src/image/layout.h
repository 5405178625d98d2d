#pragma once
#include "image/manifest.h"

/*
 * Images in archives: OCI layouts and what `docker save` writes (with manifest.json, both generations),
 * as a plain tar file. Only the heads of the tar and the JSON documents are read; layers are given as
 * ranges of the file, to be unpacked elsewhere. Documents are checked as those of registries are.
 *
 * Blocking: reads the file. Ownership: the descriptor is borrowed until _close().
 */
#define ATOLL_IMAGE_LAYOUT_IMAGES_MAX 64

struct atoll_image_layout;

/* fd: a regular file, read with pread(). INVALID_ARGUMENT: not a tar (a compressed one is named), or
 * without an image; RESOURCE_EXHAUSTED. */
int atoll_image_layout_open(int fd, struct atoll_image_layout **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_image_layout *atoll_image_layout_close(struct atoll_image_layout *l);

/* Names in it, as references ("docker.io/library/alpine:3"); "" for an image without a name. */
size_t atoll_image_layout_count(const struct atoll_image_layout *l);
const char *atoll_image_layout_name(const struct atoll_image_layout *l, size_t i);

struct atoll_image_layout_layer {
    uint64_t offset, size;               /* in the file: a tar archive, perhaps compressed */
    char digest[ATOLL_IMAGE_DIGEST_MAX]; /* of these bytes; "": the archive does not say */
};

struct atoll_image_layout_image {
    char digest[ATOLL_IMAGE_DIGEST_MAX]; /* of its manifest; without one, of its config */
    char *config_text;                   /* owned */
    size_t config_len;
    struct atoll_image_config config;
    struct atoll_image_layout_layer layers[ATOLL_IMAGE_LAYERS_MAX]; /* as many as config.diff_ids */
    size_t layer_count;
};
void atoll_image_layout_image_done(struct atoll_image_layout_image *image);

/* The image number i, for the platform (NULL: this host's) if it is an index. INVALID_ARGUMENT: malformed
 * or with missing parts; NOT_FOUND: no such platform. DATA_LOSS: a document does not match its digest.
 * Layers are not read: check that their digest, and their diff id, is right when they are unpacked. */
int atoll_image_layout_read(const struct atoll_image_layout *l, size_t i,
                            const struct atoll_image_platform *platform,
                            struct atoll_image_layout_image *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* What to write into an archive. Everything is borrowed. */
struct atoll_image_layout_new {
    const struct atoll_image_reference *name; /* NULL: the image gets no name */
    const char *manifest, *config;            /* documents */
    size_t manifest_len, config_len;
    /* Opens layer i of the manifest, whose bytes begin at offset 0; the writer closes it. */
    int (*open_layer)(void *arg, size_t i, const struct atoll_image_descriptor *layer,
                      struct atoll_error *err);
    void *arg;
};

/* Writes an OCI layout that also has manifest.json, so that `docker load`, podman and skopeo read it. The
 * same image gives the same bytes. FAILED_PRECONDITION: the manifest; DATA_LOSS: a layer is shorter than its
 * manifest says; INTERNAL: out_fd. */
int atoll_image_layout_write(int out_fd, const struct atoll_image_layout_new *what,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
