#pragma once
#include "engine/engine_internal.h"
#include "engine/template/pull.h"
#include "image/registry.h"
#include "loop/workers.h"

/*
 * Shared by images.c, pull.c, archive.c, export.c and version_sbom.c.
 */
struct atoll_images {
    struct atoll_engine *engine;
    struct atoll_workers *workers;         /* owned */
    struct atoll_image_registry *registry; /* owned; workers use it */
    int blobs_fd;                          /* state/blobs: a directory for each tenant */
    char *logins;                          /* owned, or NULL */
    uint64_t max_bytes;
    struct atoll_map pulls;     /* by key: those that other requests can join */
    struct atoll_list all;      /* of struct pull, owned */
    struct atoll_list archives; /* of struct atoll_image_archive, owned */
    struct atoll_list exports;  /* of struct atoll_export, owned */
    unsigned exporting;         /* those that do not wait */
    struct atoll_list loads;    /* of struct load, owned; load.c */
    struct atoll_list sboms;    /* of struct listing, owned; version_sbom.c */
    unsigned listing;           /* those that do not wait */
    bool stopping;
};

/* In the config of an archive: what the layers are on, if that is not part of them. */
#define ATOLL_IMAGE_BASE_LABEL "atoll.base"

/* pull.c. The first function forgets the waiters too. */
void atoll_pulls_cancel(struct atoll_images *images);
void atoll_pulls_done(struct atoll_images *images);

/* archive.c. The first function forgets the callbacks of finish(): their owners are gone. */
void atoll_image_archives_cancel(struct atoll_images *images);
void atoll_image_archives_done(struct atoll_images *images);

/* export.c, as those of pull.c. */
void atoll_exports_cancel(struct atoll_images *images);
void atoll_exports_done(struct atoll_images *images);

/* load.c, as those of pull.c. */
void atoll_loads_cancel(struct atoll_images *images);
void atoll_loads_done(struct atoll_images *images);

/* images.c */
/* Makes the requests of a call fail: writes to its cancel_fd. */
void atoll_images_cancel(int cancel_fd);
/* Opens the directory of a tenant's blobs. Each tenant has its own: a blob that is there is used without a
 * request to the registry, which would have asked for a login. -errno. */
int atoll_images_open_blobs(const struct atoll_images *images, const char *tenant) ATOLL_MUST_CHECK;
/* Removes a blob that is unpacked. */
void atoll_images_drop_blob(int blobs_fd, const char *digest);
/* Whether a version that the tenant may use has this layer. */
bool atoll_images_has_layer(const struct atoll_images *images, const char *tenant,
                            const char *layer);

struct atoll_images_version {
    const char *tenant;
    const struct atoll_image_reference *ref;
    const char *name;     /* of the template; NULL: that of ref */
    const char *digest;   /* "sha256:…" */
    const json_t *config; /* the object `config` */
};
/* layers: the stack, without a NUL. The caller holds its layers and releases them afterwards. */
int atoll_images_store(struct atoll_images *images, const struct atoll_images_version *version,
                       struct atoll_buf *layers, struct atoll_template_view *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
