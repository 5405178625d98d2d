/*
 * Blobs and manifests to registries, as Docker pushes: POST opens an upload, PATCH sends the bytes, PUT
 * closes it with the digest. A broken PATCH is continued where the registry says that it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "image/registry_internal.h"

#define URL_CAP (ATOLL_IMAGE_HOST_MAX + 2 * ATOLL_IMAGE_PATH_MAX + 1024)

struct upload {
    const struct atoll_image_descriptor *blob;
    int fd;
    const char *from;
    char url[ATOLL_IMAGE_URL_MAX]; /* of the upload, as the registry said last */
    uint64_t at;                   /* bytes that the registry has */
};

/* Sends one request without an answer of interest except its head. */
static int tell(struct atoll_image_registry *r, struct atoll_image_ask *ask, const char *method,
                const char *url, struct atoll_error *err)
{
    struct atoll_buf body = {0};
    int e;

    ask->method = method;
    ask->url = url;
    e = atoll_image_ask(r, ask, &body, err);
    atoll_buf_done(&body);
    return e;
}

static void put_url(const struct atoll_image_ask *ask, char out[URL_CAP], const char *rest)
{
    (void)snprintf(out, URL_CAP, "%s/v2/%s/%s", ask->place->origin, ask->place->repository, rest);
}

/* Takes the address of the upload from an answer. */
static int take_location(const struct atoll_image_ask *ask, struct upload *u,
                         struct atoll_error *err)
{
    char *joined = malloc(ATOLL_IMAGE_URL_MAX);
    bool good = joined && *ask->head->location &&
                atoll_image_url_join(ask->url, ask->head->location, joined);

    if (good)
        memcpy(u->url, joined, ATOLL_IMAGE_URL_MAX);
    free(joined);
    return good ? 0
                : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                             "the registry %.200s does not say where to upload to",
                             ask->place->host);
}

/* 1: the blob is there. */
static int has_blob(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                    const struct upload *u, struct atoll_error *err)
{
    char rest[128], url[URL_CAP];
    struct atoll_error one = {0};
    int e;

    (void)snprintf(rest, sizeof(rest), "blobs/%s", u->blob->digest);
    put_url(ask, url, rest);
    e = tell(r, ask, "HEAD", url, &one);
    if (e == 0)
        return 1;
    if (one.kind == ATOLL_ERR_NOT_FOUND)
        return 0;
    *err = one;
    return e;
}

/* 1: the blob is there, mounted from another repository. */
static int open_upload(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                       struct upload *u, struct atoll_error *err)
{
    char rest[128 + ATOLL_IMAGE_DIGEST_MAX + ATOLL_IMAGE_PATH_MAX] = "blobs/uploads/", url[URL_CAP];
    int e;

    if (u->from)
        (void)snprintf(rest, sizeof(rest), "blobs/uploads/?mount=%s&from=%.*s", u->blob->digest,
                       ATOLL_IMAGE_PATH_MAX, u->from);
    put_url(ask, url, rest);
    ask->body = "";
    ask->body_len = 0;
    e = tell(r, ask, "POST", url, err);
    ask->body = NULL;
    if (e < 0)
        return e;
    u->at = 0;
    if (u->from && ask->head->status == 201)
        return 1;
    return take_location(ask, u, err);
}

/* Where a broken upload is: "Range: 0-N" of its address. False: it must begin anew. */
static bool ask_offset(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                       struct upload *u)
{
    struct atoll_error ignored = {0};
    char text[24] = "";
    uint64_t last;

    if (tell(r, ask, "GET", u->url, &ignored) < 0 || take_location(ask, u, &ignored) < 0 ||
        sscanf(ask->head->range, "0-%23[0-9]", text) != 1 ||
        atoll_text_u64(text, 0, UINT64_MAX - 1, &last) < 0 || last + 1 > u->blob->size)
        return false;
    /* A registry without a byte says 0-0. */
    u->at = last == 0 ? 0 : last + 1;
    return true;
}

static int send_bytes(struct atoll_image_registry *r, struct atoll_image_ask *ask, struct upload *u,
                      struct atoll_error *err)
{
    const struct atoll_image_part part = {
        .fd = u->fd, .at = u->at, .end = u->blob->size, .blob = u->blob};
    int e;

    ask->part = &part;
    ask->once = true;
    if (u->at > 0)
        (void)snprintf(ask->extra, sizeof(ask->extra), "Content-Range: %" PRIu64 "-%" PRIu64, u->at,
                       u->blob->size - 1);
    e = tell(r, ask, "PATCH", u->url, err);
    ask->part = NULL;
    ask->once = false;
    ask->extra[0] = '\0';
    if (e == 0)
        e = take_location(ask, u, err);
    if (e == 0)
        u->at = u->blob->size;
    return e;
}

static int send_all(struct atoll_image_registry *r, struct atoll_image_ask *ask, struct upload *u,
                    struct atoll_error *err)
{
    int e = 0;

    for (unsigned tries = 1; u->at < u->blob->size; tries++) {
        struct atoll_error one = {0};
        uint64_t before = u->at;
        e = send_bytes(r, ask, u, &one);
        if (e == 0)
            break;
        *err = one;
        if (tries >= ATOLL_IMAGE_TRIES || !atoll_image_is_passing(ask->call, &one) ||
            !atoll_image_wait(ask->call, tries, (uint32_t)one.retry_ms / 1000))
            return e;
        if (!ask_offset(r, ask, u) && (e = open_upload(r, ask, u, err)) != 0)
            return e;
        if (u->at > before)
            tries = 0;
    }
    return e;
}

static int close_upload(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                        const struct upload *u, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *url = NULL;
    int e;

    if (asprintf(&url, "%s%sdigest=%s", u->url, strchr(u->url, '?') ? "&" : "?", u->blob->digest) <
        0)
        return atoll_fail_errno(err, ENOMEM, "upload");
    ask->body = "";
    ask->body_len = 0;
    e = tell(r, ask, "PUT", url, err);
    ask->body = NULL;
    return e;
}

static int put_at(struct atoll_image_registry *r, struct atoll_image_ask *ask, void *arg,
                  struct atoll_error *err)
{
    struct upload *u = arg;
    int e = has_blob(r, ask, u, err);

    ask->from = u->from;
    if (e == 0)
        e = open_upload(r, ask, u, err);
    ask->from = NULL;
    if (e == 0)
        e = send_all(r, ask, u, err);
    if (e == 0)
        e = close_upload(r, ask, u, err);
    if (e >= 0 && ask->call->progress)
        ask->call->progress(ask->call->progress_arg, u->blob, u->blob->size);
    return ATOLL_MIN(e, 0);
}

int atoll_image_registry_put_blob(struct atoll_image_registry *r,
                                  const struct atoll_image_reference *ref,
                                  const struct atoll_image_descriptor *blob, int fd,
                                  const char *from, const struct atoll_image_call *call,
                                  struct atoll_error *err)
{
    ATOLL_AUTOFREE struct upload *u = calloc(1, sizeof(*u));

    if (!u)
        return atoll_fail_errno(err, ENOMEM, "upload");
    *u = (struct upload){.blob = blob, .fd = fd, .from = from};
    return atoll_image_each_place(r, ref, call, true, put_at, u, err);
}

struct document {
    const char *media, *bytes;
    size_t n;
};

static int manifest_at(struct atoll_image_registry *r, struct atoll_image_ask *ask, void *arg,
                       struct atoll_error *err)
{
    const struct document *d = arg;
    char digest[ATOLL_IMAGE_DIGEST_MAX], rest[256], url[URL_CAP];
    int e;

    atoll_image_digest(d->bytes, d->n, digest);
    (void)snprintf(rest, sizeof(rest), "manifests/%s", *ask->ref->tag ? ask->ref->tag : digest);
    put_url(ask, url, rest);
    ask->type = d->media;
    ask->body = d->bytes;
    ask->body_len = d->n;
    e = tell(r, ask, "PUT", url, err);
    if (e == 0 && *ask->head->digest && strcmp(ask->head->digest, digest) != 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                          "the registry %.200s stored another manifest than it was sent",
                          ask->place->host);
    return e;
}

int atoll_image_registry_put_manifest(struct atoll_image_registry *r,
                                      const struct atoll_image_reference *ref, const char *media,
                                      const char *bytes, size_t n,
                                      const struct atoll_image_call *call, struct atoll_error *err)
{
    struct document d = {.media = media, .bytes = bytes, .n = n};

    return atoll_image_each_place(r, ref, call, true, manifest_at, &d, err);
}
