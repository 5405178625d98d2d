/*
 * Archives with one image: an OCI layout, with manifest.json for `docker load`.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/fd.h"
#include "base/tar.h"
#include "image/json.h"
#include "image/layout.h"

#define COPY_BYTES ((size_t)256 * 1024)
#define HEAD_MAX ((size_t)64 * 1024)
#define OCI_LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define PATH_MAX_LEN (ATOLL_IMAGE_DIGEST_MAX + 16)

static const char zeros[2 * ATOLL_TAR_BLOCK];

static int put(int fd, const void *bytes, size_t n, struct atoll_error *err)
{
    int r = atoll_fd_write_all(fd, bytes, n);

    return r < 0 ? atoll_fail_errno(err, -r, "write an archive") : 0;
}

static int put_head(int fd, enum atoll_tar_type type, const char *name, uint64_t size,
                    struct atoll_error *err)
{
    const struct atoll_tar_entry entry = {.type = type,
                                          .name = name,
                                          .mode = type == ATOLL_TAR_DIRECTORY ? 0755 : 0644,
                                          .size = size};
    struct atoll_buf head;
    int r;

    atoll_buf_init(&head, HEAD_MAX);
    r = atoll_tar_head(&head, &entry);
    r = r < 0 ? atoll_fail_errno(err, -r, "write an archive")
              : put(fd, atoll_buf_head(&head), atoll_buf_size(&head), err);
    atoll_buf_done(&head);
    return r;
}

static int put_file(int fd, const char *name, const char *bytes, size_t n, struct atoll_error *err)
{
    int r = put_head(fd, ATOLL_TAR_FILE, name, n, err);

    if (r == 0)
        r = put(fd, bytes, n, err);
    return r < 0 ? r : put(fd, zeros, atoll_tar_padding(n), err);
}

static void path_of(const char *digest, char out[PATH_MAX_LEN])
{
    (void)snprintf(out, PATH_MAX_LEN, "blobs/sha256/%s", digest + 7);
}

static int put_document(int fd, const char *text, size_t n, struct atoll_error *err)
{
    char digest[ATOLL_IMAGE_DIGEST_MAX], path[PATH_MAX_LEN];

    atoll_image_digest(text, n, digest);
    path_of(digest, path);
    return put_file(fd, path, text, n, err);
}

static int copy(int out_fd, int in_fd, uint64_t size, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *bytes = malloc(COPY_BYTES);
    int r = bytes ? 0 : atoll_fail_errno(err, ENOMEM, "write an archive");

    for (uint64_t at = 0; r == 0 && at < size;) {
        ssize_t n =
            pread(in_fd, bytes, (size_t)ATOLL_MIN((uint64_t)COPY_BYTES, size - at), (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return atoll_fail_errno(err, errno, "read a layer");
        if (n == 0)
            return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                              "a layer is shorter than its manifest says");
        at += (uint64_t)n;
        r = put(out_fd, bytes, (size_t)n, err);
    }
    return r;
}

/* A layer that is in the image twice is in the archive once. */
static bool is_repeated(const struct atoll_image_manifest *m, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(m->layers[k].digest, m->layers[i].digest) == 0)
            return true;
    return false;
}

static int put_layers(int fd, const struct atoll_image_layout_new *what,
                      const struct atoll_image_manifest *m, struct atoll_error *err)
{
    char path[PATH_MAX_LEN];
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->layer_count; i++) {
        const struct atoll_image_descriptor *layer = &m->layers[i];
        ATOLL_AUTOCLOSE int in_fd = ATOLL_NO_FD;
        if (is_repeated(m, i))
            continue;
        in_fd = what->open_layer(what->arg, i, layer, err);
        if (in_fd < 0)
            return in_fd;
        path_of(layer->digest, path);
        r = put_head(fd, ATOLL_TAR_FILE, path, layer->size, err);
        if (r == 0)
            r = copy(fd, in_fd, layer->size, err);
        if (r == 0)
            r = put(fd, zeros, atoll_tar_padding(layer->size), err);
    }
    return r;
}

static int put_json(int fd, const char *name, const json_t *json, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    return text ? put_file(fd, name, text, strlen(text), err)
                : atoll_fail_errno(err, ENOMEM, "write an archive");
}

static int put_index(int fd, const struct atoll_image_layout_new *what,
                     const struct atoll_image_manifest *m, struct atoll_error *err)
{
    char digest[ATOLL_IMAGE_DIGEST_MAX], name[ATOLL_IMAGE_REFERENCE_MAX];
    ATOLL_IMAGE_AUTOJSON json_t *entry = NULL, *json = NULL;

    atoll_image_digest(what->manifest, what->manifest_len, digest);
    entry = json_pack("{s:s, s:s, s:I}", "mediaType", m->media, "digest", digest, "size",
                      (json_int_t)what->manifest_len);
    if (entry && what->name)
        (void)json_object_set_new(entry, "annotations",
                                  json_pack("{s:s, s:s}", "io.containerd.image.name",
                                            atoll_image_reference_text(what->name, name),
                                            "org.opencontainers.image.ref.name", what->name->tag));
    json = json_pack("{s:i, s:s, s:[O]}", "schemaVersion", 2, "mediaType", ATOLL_IMAGE_MEDIA_INDEX,
                     "manifests", entry);
    return put_json(fd, "index.json", json, err);
}

static int put_docker(int fd, const struct atoll_image_layout_new *what,
                      const struct atoll_image_manifest *m, struct atoll_error *err)
{
    ATOLL_IMAGE_AUTOJSON json_t *layers = json_array(), *tags = json_array(), *json = NULL;
    char path[PATH_MAX_LEN], name[ATOLL_IMAGE_REFERENCE_MAX];

    for (size_t i = 0; i < m->layer_count; i++) {
        path_of(m->layers[i].digest, path);
        (void)json_array_append_new(layers, json_string(path));
    }
    if (what->name && *what->name->tag)
        (void)json_array_append_new(tags,
                                    json_string(atoll_image_reference_short(what->name, name)));
    path_of(m->config.digest, path);
    json = json_pack("[{s:s, s:O, s:O}]", "Config", path, "RepoTags", tags, "Layers", layers);
    return put_json(fd, "manifest.json", json, err);
}

int atoll_image_layout_write(int out_fd, const struct atoll_image_layout_new *what,
                             struct atoll_error *err)
{
    ATOLL_AUTOFREE struct atoll_image_manifest *m = calloc(1, sizeof(*m));
    int r = m ? atoll_image_manifest_parse(what->manifest, what->manifest_len, m, err)
              : atoll_fail_errno(err, ENOMEM, "write an archive");

    if (r == 0)
        r = put_head(out_fd, ATOLL_TAR_DIRECTORY, "blobs/", 0, err);
    if (r == 0)
        r = put_head(out_fd, ATOLL_TAR_DIRECTORY, "blobs/sha256/", 0, err);
    if (r == 0)
        r = put_document(out_fd, what->config, what->config_len, err);
    if (r == 0)
        r = put_layers(out_fd, what, m, err);
    if (r == 0)
        r = put_document(out_fd, what->manifest, what->manifest_len, err);
    if (r == 0)
        r = put_index(out_fd, what, m, err);
    if (r == 0)
        r = put_docker(out_fd, what, m, err);
    if (r == 0)
        r = put_file(out_fd, "oci-layout", OCI_LAYOUT, strlen(OCI_LAYOUT), err);
    return r < 0 ? r : put(out_fd, zeros, sizeof(zeros), err);
}
