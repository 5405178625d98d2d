#pragma once
#include "engine/engine.h"

/*
 * The SBOM of a version: the list of the packages in its layers (CycloneDX JSON). `atoll-unpack sbom` makes
 * it in a builder sandbox, which sees the stack read-only; the daemon does not read trees. It is a file of the
 * version (atoll_version_file(), "sbom").
 *
 * A new version gets it in the background, one version at a time, shortly after it was made. If the daemon ends
 * before, or the list was never made, the first request for it makes it.
 *
 * Thread: the loop's; a worker thread copies the list.
 */
struct atoll_images;

/* Makes it in the background, if the version has none. */
void atoll_version_sbom_soon(struct atoll_engine *engine, const char *version_id);
/* Makes it if the version has none, before those in the background. done is called once, possibly before the
 * call returns: without an error the file exists. NOT_FOUND: there is no such version;
 * FAILED_PRECONDITION: a provider keeps it, and its files are not here. */
void atoll_version_sbom_make(struct atoll_engine *engine, const char *version_id,
                             atoll_done_fn *done, void *arg);
/* For a version that is being removed: ends what is in progress. done is called once, when no sandbox uses its layers;
 * the file may exist until then. */
void atoll_version_sbom_end(struct atoll_engine *engine, const char *version_id,
                            atoll_done_fn *done, void *arg);

/* images.c: the first one drops callbacks without calling them: their owners are gone. */
void atoll_version_sboms_cancel(struct atoll_images *images);
void atoll_version_sboms_done(struct atoll_images *images);
