#pragma once
#include "image/login.h"
#include "image/manifest.h"

/*
 * A client of registries (OCI distribution specification 1.1): finds images, gets and puts their blobs.
 * One object serves all registries; it keeps connections and bearer tokens.
 *
 * Registries are spoken to with https; with http only on a loopback address or a host that the operator
 * named as insecure. Redirects are followed without the login. A request to a private address is refused
 * unless the call allows it, also if a redirect or a token server leads there.
 *
 * Requests that a registry refuses with "later" (429, 5xx), and downloads that break, are tried again
 * until the deadline, at most 5 times without progress.
 *
 * Blocking. Thread: any; several calls at a time. Error kinds of all functions:
 *   NOT_FOUND            the repository or image does not exist, or is private and there is no login
 *   UNAUTHENTICATED      the registry wants a login, or refuses this one; hint: `docker login HOST`
 *   PERMISSION_DENIED    the login may not do this; or a private address
 *   UNAVAILABLE          the registry cannot be reached, or asks to try later (retry_ms)
 *   RESOURCE_EXHAUSTED   the registry's rate limit (429), a document that is too long, a full disk
 *   FAILED_PRECONDITION  what it answers is not an image; its certificate is not trusted
 *   DATA_LOSS            content that does not match its digest
 *   DEADLINE_EXCEEDED, ABORTED (cancelled), INTERNAL
 * Errors that are a registry's have err->another set: the provider's health is unaffected.
 */
struct atoll_image_registry;

struct atoll_image_mirror {
    const char *host; /* of references: "docker.io" */
    const char
        *url; /* "https://mirror.example[:port][/path]"; tried first, then the registry itself */
};

struct atoll_image_registry_config {
    const struct atoll_image_mirror *mirrors; /* several may have the same host: in this order */
    size_t mirror_count;
    const char *const *insecure; /* hosts[:port] that may be spoken to with http */
    size_t insecure_count;
    const char *ca; /* PEM file of more certificate authorities; NULL: the system's */
};

/* Copies the config. INVALID_ARGUMENT: a mirror that is not a URL. */
int atoll_image_registry_new(const struct atoll_image_registry_config *config,
                             struct atoll_image_registry **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* No call may be under way. */
struct atoll_image_registry *atoll_image_registry_free(struct atoll_image_registry *r);

/* What all calls about one image share. Everything is borrowed for the duration of the call. */
struct atoll_image_call {
    int64_t deadline_ms;                   /* CLOCK_MONOTONIC */
    int cancel_fd;                         /* readable: the call fails with ABORTED; < 0: none */
    const struct atoll_image_login *login; /* for the reference's host; NULL: anonymous */
    bool allow_private;                    /* also hosts with private and loopback addresses; the
                                            * operator's mirrors and insecure hosts always are */
    /* Bytes of a blob that are there; called at most every 100 ms and at the end. NULL: no reports. */
    void (*progress)(void *arg, const struct atoll_image_descriptor *blob, uint64_t bytes);
    void *progress_arg;
};

/* An image as a registry describes it. */
struct atoll_image {
    char digest[ATOLL_IMAGE_DIGEST_MAX];       /* of the manifest for the platform */
    char index_digest[ATOLL_IMAGE_DIGEST_MAX]; /* of the index that led to it; "": there was none */
    char *manifest_text;                       /* owned; exactly the bytes that the digest is of */
    size_t manifest_len;
    struct atoll_image_manifest manifest;
    char *config_text; /* owned */
    size_t config_len;
    struct atoll_image_config config; /* has as many diff ids as the manifest has layers */
};
void atoll_image_done(struct atoll_image *image);

/* Finds the manifest of ref for the platform (NULL: this host's) and gets its config. */
int atoll_image_registry_find(struct atoll_image_registry *r,
                              const struct atoll_image_reference *ref,
                              const struct atoll_image_platform *platform,
                              const struct atoll_image_call *call, struct atoll_image *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Only the digest that ref has now (of an index, if it is one), by one request. */
int atoll_image_registry_digest(struct atoll_image_registry *r,
                                const struct atoll_image_reference *ref,
                                const struct atoll_image_call *call,
                                char ret[ATOLL_IMAGE_DIGEST_MAX],
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/*
 * Gets a blob into the directory blobs_fd as "sha256-HEX"; returns at once if it is there. It is written
 * to "sha256-HEX.part" and renamed when its digest is right and it is on disk. A broken download is
 * continued there, also by a later call or daemon. Two calls for one blob: one waits for the other.
 * A blob that is there is not asked for: where knowing a digest must not be enough to read it, give each
 * tenant a directory.
 */
int atoll_image_registry_get_blob(struct atoll_image_registry *r,
                                  const struct atoll_image_reference *ref,
                                  const struct atoll_image_descriptor *blob, int blobs_fd,
                                  const struct atoll_image_call *call,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* "sha256-HEX" of a digest; out holds ATOLL_IMAGE_DIGEST_MAX bytes. */
const char *atoll_image_blob_name(const char *digest, char *out);

/*
 * Puts a blob of fd (offset 0, blob->size bytes) into the repository of ref unless it is there. `from`:
 * another repository of the same registry that may have it (the blob is mounted if so); NULL: none.
 */
int atoll_image_registry_put_blob(struct atoll_image_registry *r,
                                  const struct atoll_image_reference *ref,
                                  const struct atoll_image_descriptor *blob, int fd,
                                  const char *from, const struct atoll_image_call *call,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* Puts a manifest or index under the tag of ref; its blobs must be there. */
int atoll_image_registry_put_manifest(struct atoll_image_registry *r,
                                      const struct atoll_image_reference *ref, const char *media,
                                      const char *bytes, size_t n,
                                      const struct atoll_image_call *call,
                                      struct atoll_error *err) ATOLL_MUST_CHECK;
