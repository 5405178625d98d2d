#pragma once
#include "base/error.h"

/*
 * Names of images as Docker users write them: "alpine", "ghcr.io/x/y:tag", "name@sha256:…",
 * "localhost:5000/x". The first component is a host if it has a dot, a colon or a capital letter, or is
 * "localhost"; any other name is of docker.io, below library/ if it has one component. Pure.
 */
#define ATOLL_IMAGE_DIGEST_MAX (7 + 64 + 1) /* "sha256:" and hex digits */
#define ATOLL_IMAGE_HOST_MAX 256
#define ATOLL_IMAGE_PATH_MAX 256
#define ATOLL_IMAGE_TAG_MAX (128 + 1)
#define ATOLL_IMAGE_REFERENCE_MAX \
    (ATOLL_IMAGE_HOST_MAX + ATOLL_IMAGE_PATH_MAX + ATOLL_IMAGE_TAG_MAX + ATOLL_IMAGE_DIGEST_MAX)

#define ATOLL_IMAGE_DOCKER_HUB "docker.io"

struct atoll_image_reference {
    char host[ATOLL_IMAGE_HOST_MAX];     /* "docker.io", "localhost:5000", "[::1]:5000" */
    char path[ATOLL_IMAGE_PATH_MAX];     /* the repository: "library/alpine" */
    char tag[ATOLL_IMAGE_TAG_MAX];       /* "": only a digest was given */
    char digest[ATOLL_IMAGE_DIGEST_MAX]; /* "": only a tag; if there are both, the digest holds */
};

/* Without a tag and a digest the tag is "latest". INVALID_ARGUMENT says which part is wrong. */
int atoll_image_reference_parse(const char *text, struct atoll_image_reference *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* The whole name: "docker.io/library/alpine:latest", "ghcr.io/x/y:tag@sha256:…". */
const char *atoll_image_reference_text(const struct atoll_image_reference *ref,
                                       char out[ATOLL_IMAGE_REFERENCE_MAX]);
/* The short name that Docker shows: "alpine:latest". */
const char *atoll_image_reference_short(const struct atoll_image_reference *ref,
                                        char out[ATOLL_IMAGE_REFERENCE_MAX]);

/* Whether text is "sha256:" and 64 lower-case hex digits. */
bool atoll_image_is_digest(const char *text);
/* Whether text is a host as reference.host has it, with or without a port. */
bool atoll_image_is_host(const char *text);
/* The digest of bytes. Aborts without memory, as small objects do. */
void atoll_image_digest(const void *bytes, size_t n, char out[ATOLL_IMAGE_DIGEST_MAX]);
