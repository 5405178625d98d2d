#pragma once
#include "engine/engine.h"

/*
 * Templates as OCI images, for other tools: pushed to a registry, or saved as an archive. Each layer is
 * packed by the program atoll-unpack in a builder sandbox, which sees the layer read-only; the daemon does
 * not read trees. Packing is canonical: the same version always gives the same image. The blobs of an
 * image that was pulled are not kept, so that its layers get other digests, with the same content.
 *
 * At most ATOLL_EXPORTS are made at a time; others wait. Blobs and archives are files without a name: they
 * end with the export, or with the daemon.
 *
 * Thread: the loop's; digests, documents and requests to registries are made by worker threads.
 */
#define ATOLL_EXPORTS 2

struct atoll_export;

struct atoll_export_request {
    const char
        *tenant; /* that asks; NULL: the operator's, which may also push to private addresses */
    const char *template; /* NAME, NAME:TAG, NAME@sha256:HEX … (template.h); or NULL: */
    /* The version with this id, without its config, as an archive that has this name. */
    const char *version_id, *name;
    /* Where to push it, as Docker users write it; NULL: to an archive. */
    const char *image;
    /* NULL: for the operator's tenant that of the operator's file, for others none. */
    const struct atoll_registry_login *login;
    /* Called from the loop with "packing layer 2 of 5", "12.5M of 80M sent" and the like; or NULL. */
    void (*progress)(void *arg, const char *text);
};

/* Borrowed; valid during the callback. */
struct atoll_exported {
    const char *digest;    /* of the manifest: "sha256:…" */
    const char *reference; /* HOST/PATH:TAG, of a push; of an archive the name in it, or "" */
    uint64_t size_bytes;   /* of the layers as they were packed */
    int fd;                /* of an archive: the caller's; else -1 */
    uint64_t archive_bytes;
};

typedef void atoll_export_fn(void *arg, const struct atoll_exported *made,
                             const struct atoll_error *error);

/* FAILED_PRECONDITION: the template has no layers of its own (host, on the host template, or kept by a
 * provider). NOT_FOUND, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, and the errors of image/registry.h. Returns
 * what can be given up; NULL when done was called already. */
struct atoll_export *atoll_template_export(struct atoll_engine *engine,
                                           const struct atoll_export_request *request,
                                           atoll_export_fn *done, void *arg);
/* No callback is called any more. Accepts NULL. */
void atoll_template_export_drop(struct atoll_export *e);
