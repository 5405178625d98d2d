#pragma once
#include <jansson.h>
#include "image/reference.h"

/*
 * The documents of an image: index (OCI) or manifest list (Docker), manifest (OCI, Docker v2 schema 2),
 * and config. They come from registries and archives and are hostile: every text has a maximum, digests
 * and sizes are checked, unknown members are ignored. Pure.
 */
#define ATOLL_IMAGE_DOCUMENT_MAX \
    ((size_t)4 * 1024 * 1024) /* bytes of each, as in the OCI specification */
#define ATOLL_IMAGE_LAYERS_MAX 128
#define ATOLL_IMAGE_INDEX_MAX 256 /* manifests of an index */
#define ATOLL_IMAGE_MEDIA_MAX 128

#define ATOLL_IMAGE_MEDIA_INDEX "application/vnd.oci.image.index.v1+json"
#define ATOLL_IMAGE_MEDIA_LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define ATOLL_IMAGE_MEDIA_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define ATOLL_IMAGE_MEDIA_DOCKER "application/vnd.docker.distribution.manifest.v2+json"
#define ATOLL_IMAGE_MEDIA_CONFIG "application/vnd.oci.image.config.v1+json"
#define ATOLL_IMAGE_MEDIA_LAYER "application/vnd.oci.image.layer.v1.tar" /* "+gzip", "+zstd" */

struct atoll_image_platform {
    char os[32], arch[32],
        variant[32]; /* as Go names them: "linux", "arm64", "v8"; variant may be "" */
};
/* That of this host. */
void atoll_image_platform_here(struct atoll_image_platform *ret);
/* "linux/amd64", "linux/arm64/v8". INVALID_ARGUMENT. */
int atoll_image_platform_parse(const char *text, struct atoll_image_platform *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* "linux/arm64/v8"; out holds 100 bytes. */
const char *atoll_image_platform_text(const struct atoll_image_platform *p, char *out);

/* A reference to content by its digest. */
struct atoll_image_descriptor {
    char media[ATOLL_IMAGE_MEDIA_MAX]; /* media type */
    char digest[ATOLL_IMAGE_DIGEST_MAX];
    uint64_t size; /* bytes */
};

struct atoll_image_manifest {
    char media[ATOLL_IMAGE_MEDIA_MAX]; /* of the manifest itself */
    struct atoll_image_descriptor config;
    struct atoll_image_descriptor layers[ATOLL_IMAGE_LAYERS_MAX]; /* bottom first, tar archives */
    size_t layer_count;
};

/* What a document is, by its media type or, without one, by its members. */
enum atoll_image_document {
    ATOLL_IMAGE_IS_INDEX,
    ATOLL_IMAGE_IS_MANIFEST,
};
/* media: of the answer, may be NULL or have parameters. FAILED_PRECONDITION: neither (such as Docker's
 * manifests of schema 1, and artifacts that are not images). */
int atoll_image_document_kind(const char *bytes, size_t n, const char *media,
                              enum atoll_image_document *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* The manifest of an index that fits the platform best: the same variant, else one without a variant,
 * else the highest that this processor runs. Attestations are skipped. NOT_FOUND lists the platforms
 * that there are; FAILED_PRECONDITION: malformed. */
int atoll_image_index_choose(const char *bytes, size_t n,
                             const struct atoll_image_platform *platform,
                             struct atoll_image_descriptor *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* FAILED_PRECONDITION: malformed, not an image, or with layers that are not plain, gzip or zstd tar
 * archives; RESOURCE_EXHAUSTED: too many layers. */
int atoll_image_manifest_parse(const char *bytes, size_t n, struct atoll_image_manifest *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same as an OCI manifest; NULL: no memory. The caller frees it. */
char *atoll_image_manifest_write(const struct atoll_image_manifest *m);

struct atoll_image_config {
    json_t *root;   /* owned: the whole document, with `history`, `created`, `author` */
    json_t *config; /* borrowed: its member `config`, checked; an empty object if it had none */
    struct atoll_image_platform platform;
    char (*diff_ids)
        [ATOLL_IMAGE_DIGEST_MAX]; /* owned; digests of the uncompressed layers, bottom first */
    size_t diff_id_count;
};
/* FAILED_PRECONDITION: malformed. In `config`, Env, Cmd, Entrypoint, Shell, OnBuild are arrays of texts
 * (Env: NAME=VALUE), User, WorkingDir, StopSignal are texts, ExposedPorts, Volumes and Labels are
 * objects (Labels: of texts), Healthcheck is an object; a null member is removed. */
int atoll_image_config_parse(const char *bytes, size_t n, struct atoll_image_config *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_image_config_done(struct atoll_image_config *c);
/* Checks a `config` object alone, as above. INVALID_ARGUMENT. */
int atoll_image_config_check(json_t *config, struct atoll_error *err) ATOLL_MUST_CHECK;
