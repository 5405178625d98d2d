#include "image/layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "image/json.h"
#include "image/tar_index.h"

#define CONTAINERD_NAME "io.containerd.image.name"
#define REF_NAME "org.opencontainers.image.ref.name"
#define ATTESTATION "vnd.docker.reference.type"

/* One name of one image: a descriptor of index.json, or an entry of manifest.json. */
struct entry {
    char name[ATOLL_IMAGE_REFERENCE_MAX];
    const json_t *json; /* borrowed from the document */
};

struct atoll_image_layout {
    struct atoll_image_tar *tar;
    json_t *document; /* index.json or manifest.json */
    bool docker;      /* it is manifest.json */
    struct entry entries[ATOLL_IMAGE_LAYOUT_IMAGES_MAX];
    size_t count;
};

static int bad(struct atoll_error *err, const char *why)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is malformed: %s", why);
}

static int add_entry(struct atoll_image_layout *l, const char *name, const json_t *json,
                     struct atoll_error *err)
{
    struct atoll_image_reference ref;
    struct entry *e = &l->entries[l->count];

    if (l->count == ATOLL_IMAGE_LAYOUT_IMAGES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the archive has more than %d images", ATOLL_IMAGE_LAYOUT_IMAGES_MAX);
    *e = (struct entry){.json = json};
    /* A tag alone is a name within a repository that the archive does not know. */
    if (name && strpbrk(name, ":/") && atoll_image_reference_parse(name, &ref, NULL) == 0)
        (void)atoll_image_reference_text(&ref, e->name);
    l->count++;
    return 0;
}

static int list_docker(struct atoll_image_layout *l, struct atoll_error *err)
{
    const json_t *image, *tag;
    size_t i, k;
    int r = 0;

    if (!json_is_array(l->document))
        return bad(err, "manifest.json is not an array");
    json_array_foreach(l->document, i, image)
    {
        const json_t *tags = json_object_get(image, "RepoTags");
        if (!json_is_object(image))
            return bad(err, "an entry of manifest.json");
        if (json_array_size(tags) == 0)
            r = add_entry(l, NULL, image, err);
        json_array_foreach((json_t *)(uintptr_t)tags, k, tag)
        {
            if (r == 0)
                r = add_entry(l, json_string_value(tag), image, err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int list_oci(struct atoll_image_layout *l, struct atoll_error *err)
{
    const json_t *list = json_object_get(l->document, "manifests"), *entry;
    size_t i;
    int r = 0;

    if (!json_is_array(list))
        return bad(err, "index.json has no manifests");
    json_array_foreach((json_t *)(uintptr_t)list, i, entry)
    {
        const json_t *notes = json_object_get(entry, "annotations");
        const char *name = json_string_value(json_object_get(notes, CONTAINERD_NAME));
        if (json_object_get(notes, ATTESTATION))
            continue;
        if (!name)
            name = json_string_value(json_object_get(notes, REF_NAME));
        r = add_entry(l, name, entry, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_json(const struct atoll_image_layout *l, const char *name, json_t **ret,
                     struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = NULL;
    size_t n;
    int r = atoll_image_tar_load(l->tar, name, ATOLL_IMAGE_DOCUMENT_MAX, &text, &n, err);

    if (r < 0)
        return r;
    *ret = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    return *ret ? 0 : bad(err, "a document is not JSON");
}

static int list(struct atoll_image_layout *l, struct atoll_error *err)
{
    uint64_t offset, size;
    int r;

    /* Newer engines write both; manifest.json has the names and only what is there. */
    l->docker = atoll_image_tar_find(l->tar, "manifest.json", &offset, &size);
    if (!l->docker && !atoll_image_tar_find(l->tar, "index.json", &offset, &size))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the archive has no image: neither manifest.json (docker save) nor "
                          "index.json (OCI layout)");
    r = load_json(l, l->docker ? "manifest.json" : "index.json", &l->document, err);
    if (r == 0)
        r = l->docker ? list_docker(l, err) : list_oci(l, err);
    return r < 0 || l->count > 0 ? r : bad(err, "it has no image");
}

int atoll_image_layout_open(int fd, struct atoll_image_layout **ret, struct atoll_error *err)
{
    struct atoll_image_layout *l = calloc(1, sizeof(*l));
    int r = l ? atoll_image_tar_read(fd, &l->tar, err) : atoll_fail_errno(err, ENOMEM, "archive");

    if (r == 0)
        r = list(l, err);
    if (r == 0)
        *ret = l;
    else
        (void)atoll_image_layout_close(l);
    return r;
}

struct atoll_image_layout *atoll_image_layout_close(struct atoll_image_layout *l)
{
    if (!l)
        return NULL;
    json_decref(l->document);
    (void)atoll_image_tar_free(l->tar);
    free(l);
    return NULL;
}

size_t atoll_image_layout_count(const struct atoll_image_layout *l)
{
    return l->count;
}

const char *atoll_image_layout_name(const struct atoll_image_layout *l, size_t i)
{
    return l->entries[i].name;
}

/* Images. */

void atoll_image_layout_image_done(struct atoll_image_layout_image *image)
{
    free(image->config_text);
    atoll_image_config_done(&image->config);
    *image = (struct atoll_image_layout_image){0};
}

/* The path of a blob of an OCI layout. */
static const char *blob_path(const char *digest, char out[ATOLL_IMAGE_DIGEST_MAX + 16])
{
    (void)snprintf(out, ATOLL_IMAGE_DIGEST_MAX + 16, "blobs/sha256/%s", digest + 7);
    return out;
}

static int missing(struct atoll_error *err, const char *path)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "the archive is incomplete: it has no file %.200s", path);
}

static int load_blob(const struct atoll_image_layout *l, const char *digest, char **ret,
                     size_t *ret_len, struct atoll_error *err)
{
    char path[ATOLL_IMAGE_DIGEST_MAX + 16], found[ATOLL_IMAGE_DIGEST_MAX];
    int r = atoll_image_tar_load(l->tar, blob_path(digest, path), ATOLL_IMAGE_DOCUMENT_MAX, ret,
                                 ret_len, err);

    if (r == -ENOENT)
        return missing(err, path);
    if (r < 0)
        return r;
    atoll_image_digest(*ret, *ret_len, found);
    if (strcmp(found, digest) == 0)
        return 0;
    free(ATOLL_TAKE_PTR(*ret));
    return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                      "%.100s in the archive does not match its digest", path);
}

static int add_layer(const struct atoll_image_layout *l, const char *path, const char *digest,
                     struct atoll_image_layout_image *image, struct atoll_error *err)
{
    struct atoll_image_layout_layer *layer = &image->layers[image->layer_count];

    if (image->layer_count == ATOLL_IMAGE_LAYERS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the image has more than %d layers", ATOLL_IMAGE_LAYERS_MAX);
    if (!atoll_image_tar_find(l->tar, path, &layer->offset, &layer->size))
        return missing(err, path);
    if (layer->size == 0)
        return bad(err, "a layer, which is empty");
    (void)snprintf(layer->digest, sizeof(layer->digest), "%s", digest);
    image->layer_count++;
    return 0;
}

/* Errors of documents name the image as malformed; here it is the client's archive. */
static int blame(struct atoll_error *err, int r)
{
    if (r < 0 && err && err->kind == ATOLL_ERR_FAILED_PRECONDITION)
        err->kind = ATOLL_ERR_INVALID_ARGUMENT;
    return r;
}

static int read_config(struct atoll_image_layout_image *image, struct atoll_error *err)
{
    int r = atoll_image_config_parse(image->config_text, image->config_len, &image->config, err);

    if (r == 0 && image->config.diff_id_count != image->layer_count)
        return bad(err, "the number of layers and of diff ids differ");
    return r;
}

/* docker save: {"Config": "X.json", "Layers": ["A/layer.tar", …]}. */
static int read_docker(const struct atoll_image_layout *l, const json_t *json,
                       struct atoll_image_layout_image *image, struct atoll_error *err)
{
    const char *config = json_string_value(json_object_get(json, "Config"));
    const json_t *layers = json_object_get(json, "Layers"), *layer;
    size_t i;
    int r;

    if (!config || !json_is_array(layers))
        return bad(err, "manifest.json names no config or no layers");
    r = atoll_image_tar_load(l->tar, config, ATOLL_IMAGE_DOCUMENT_MAX, &image->config_text,
                             &image->config_len, err);
    if (r == -ENOENT)
        return missing(err, config);
    if (r < 0)
        return r;
    atoll_image_digest(image->config_text, image->config_len, image->digest);
    json_array_foreach((json_t *)(uintptr_t)layers, i, layer)
    {
        if (!json_is_string(layer))
            return bad(err, "manifest.json names a layer that is not a text");
        r = add_layer(l, json_string_value(layer), "", image, err);
        if (r < 0)
            return r;
    }
    return read_config(image, err);
}

/* The manifest that a descriptor of index.json leads to, perhaps by another index. */
static int find_manifest(const struct atoll_image_layout *l, const json_t *json,
                         const struct atoll_image_platform *platform, char *digest, char **ret,
                         size_t *ret_len, struct atoll_error *err)
{
    struct atoll_image_descriptor chosen;
    enum atoll_image_document kind;
    int r;

    if (!atoll_image_json_text(json, "digest", digest, ATOLL_IMAGE_DIGEST_MAX) ||
        !atoll_image_is_digest(digest))
        return bad(err, "a digest of index.json");
    for (int depth = 0; depth < 3; depth++) {
        free(ATOLL_TAKE_PTR(*ret));
        r = load_blob(l, digest, ret, ret_len, err);
        if (r == 0)
            r = atoll_image_document_kind(*ret, *ret_len, NULL, &kind, err);
        if (r < 0 || kind == ATOLL_IMAGE_IS_MANIFEST)
            return r;
        r = atoll_image_index_choose(*ret, *ret_len, platform, &chosen, err);
        if (r < 0)
            return r;
        memcpy(digest, chosen.digest, ATOLL_IMAGE_DIGEST_MAX);
    }
    return bad(err, "an index leads to an index");
}

static int read_oci(const struct atoll_image_layout *l, const json_t *json,
                    const struct atoll_image_platform *platform,
                    struct atoll_image_layout_image *image, struct atoll_error *err)
{
    ATOLL_AUTOFREE struct atoll_image_manifest *m = calloc(1, sizeof(*m));
    ATOLL_AUTOFREE char *text = NULL;
    char path[ATOLL_IMAGE_DIGEST_MAX + 16];
    size_t n = 0;
    int r = m ? find_manifest(l, json, platform, image->digest, &text, &n, err)
              : atoll_fail_errno(err, ENOMEM, "archive");

    if (r == 0)
        r = atoll_image_manifest_parse(text, n, m, err);
    if (r == 0)
        r = load_blob(l, m->config.digest, &image->config_text, &image->config_len, err);
    for (size_t i = 0; r == 0 && i < m->layer_count; i++) {
        r = add_layer(l, blob_path(m->layers[i].digest, path), m->layers[i].digest, image, err);
        if (r == 0 && image->layers[i].size != m->layers[i].size)
            r = bad(err, "a layer does not have the size that its manifest says");
    }
    return r < 0 ? r : read_config(image, err);
}

int atoll_image_layout_read(const struct atoll_image_layout *l, size_t i,
                            const struct atoll_image_platform *platform,
                            struct atoll_image_layout_image *ret, struct atoll_error *err)
{
    struct atoll_image_platform here;
    int r;

    atoll_image_platform_here(&here);
    *ret = (struct atoll_image_layout_image){0};
    r = l->docker ? read_docker(l, l->entries[i].json, ret, err)
                  : read_oci(l, l->entries[i].json, platform ? platform : &here, ret, err);
    if (r < 0)
        atoll_image_layout_image_done(ret);
    return blame(err, r);
}
