#pragma once
#include "engine/engine.h"

/*
 * Images of registries. A pull finds the image, gets the blobs of the layers that are not here yet, and
 * unpacks them (unpack.h). The result is a version of a template that is named as the image: NAME
 * "docker.io/library/alpine", tag "3.19", and the digest that the registry has for it.
 *
 * Versions belong to the tenant that pulled. Layers are shared by all tenants; but a tenant that has no
 * version with a layer must get its blob from a registry, so that to know a digest is not enough to
 * read a private layer of another tenant.
 *
 * Requests for the same image with the same login share one pull. Blobs are in STATE/blobs while they are
 * needed; a later pull continues what a killed daemon left there.
 *
 * Thread: the loop's; requests to registries are made by worker threads.
 */
#define ATOLL_PULL_THREADS 8

struct atoll_images;

/* Copies the config. */
int atoll_images_new(struct atoll_engine *engine, const struct atoll_images_config *config,
                     struct atoll_images **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Cancels all pulls, waits for the workers. No callback is called. */
void atoll_images_stop(struct atoll_images *images);
struct atoll_images *atoll_images_free(struct atoll_images *images);

struct atoll_pull_request {
    const char *tenant; /* NULL: the operator's, which may also pull from private addresses */
    const char *image;  /* as Docker users write it */
    const struct atoll_registry_login *login; /* NULL: that of the operator's file, or none */
    /* Called from the loop with "2 of 5 layers, 12.5M of 80M" and the like; or NULL. */
    void (*progress)(void *arg, const char *text);
    void *progress_arg;
};

/* Gets the image, also if there is a version with that name. The error kinds are those of
 * image/registry.h and unpack.h. Returns what can be given up; NULL when done was called already. */
struct atoll_pull_waiter *atoll_image_pull(struct atoll_engine *engine,
                                           const struct atoll_pull_request *request,
                                           atoll_template_fn *done, void *arg);
/* No callback is called any more. The last waiter cancels the pull. Accepts NULL. */
void atoll_image_pull_leave(struct atoll_pull_waiter *waiter);

/* What an image is called as a template: HOST/PATH:TAG or HOST/PATH@DIGEST. INVALID_ARGUMENT. */
#define ATOLL_IMAGE_NAME_MAX 800
int atoll_image_template(const char *image, char out[static ATOLL_IMAGE_NAME_MAX],
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The version that `image` names, without asking a registry. NOT_FOUND. */
int atoll_image_find(struct atoll_engine *engine, const char *tenant, const char *image,
                     struct atoll_template_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
