/*
 * The documents of an image and what is done with them: by a worker thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "engine/file/inband.h"
#include "engine/json_memory.h"
#include "engine/template/defaults.h"
#include "engine/template/export_internal.h"
#include "image/layout.h"
#include "sandbox/stack.h"

#define PUSH_MS (INT64_C(60) * 60 * 1000)
#define CHUNK ((size_t)256 * 1024)

struct documents {
    char *config, *manifest; /* owned */
    struct atoll_image_manifest parts;
};

static void documents_done(struct documents *d)
{
    free(d->config);
    free(d->manifest);
}

/* The digest of a blob, from its bytes: the sandbox that wrote it is not asked. */
static int digest_blob(struct atoll_export_layer *layer, struct atoll_error *err)
{
    static const char hex[] = "0123456789abcdef";
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    uint8_t *bytes = atoll_alloc(CHUNK), sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    uint64_t size = 0;
    ssize_t n = 0;
    bool ok = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1;

    while (ok && (n = pread(layer->fd, bytes, CHUNK, (off_t)size)) > 0) {
        ok = EVP_DigestUpdate(digest, bytes, (size_t)n) == 1;
        size += (uint64_t)n;
    }
    ok = ok && n == 0 && EVP_DigestFinal_ex(digest, sum, &len) == 1;
    EVP_MD_CTX_free(digest);
    free(bytes);
    if (!ok)
        return atoll_fail_errno(err, n < 0 ? errno : ENOMEM, "read the archive of a layer");
    memcpy(layer->blob.digest, "sha256:", 7);
    for (unsigned k = 0; k < len; k++) {
        layer->blob.digest[7 + 2 * k] = hex[sum[k] >> 4];
        layer->blob.digest[8 + 2 * k] = hex[sum[k] & 15];
    }
    layer->blob.digest[7 + 2 * (size_t)len] = '\0';
    layer->blob.size = size;
    (void)snprintf(layer->blob.media, sizeof(layer->blob.media), "%s",
                   ATOLL_IMAGE_MEDIA_LAYER "+gzip");
    return 0;
}

static void put_time(json_t *root, int64_t unix_ms)
{
    const time_t when = (time_t)(unix_ms / 1000);
    char text[32];
    struct tm tm;

    if (gmtime_r(&when, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
        (void)json_object_set_new(root, "created", json_string(text));
}

/* Says on what the layers are if that is not part of them. */
static void put_base(json_t *config, bool on_host)
{
    json_t *labels = json_object_get(config, "Labels");

    if (!on_host) {
        (void)json_object_del(labels, ATOLL_IMAGE_BASE_LABEL);
        return;
    }
    if (!labels) {
        labels = json_object();
        (void)json_object_set_new(config, "Labels", labels);
    }
    (void)json_object_set_new(labels, ATOLL_IMAGE_BASE_LABEL, json_string(ATOLL_STACK_HOST));
}

static char *config_text(const struct atoll_export *e)
{
    struct atoll_image_platform here;
    json_t *diff_ids = json_array(), *config = atoll_json_load_own(e->config), *root;
    char *text;

    if (!config)
        config = json_object();
    put_base(config, e->on_host);
    if (e->built_in_user && !json_object_get(config, "User"))
        (void)json_object_set_new(config, "User", json_string(ATOLL_BUILT_IN_USER));
    atoll_image_platform_here(&here);
    for (size_t i = 0; i < e->count; i++)
        (void)json_array_append_new(diff_ids, json_string(e->layers[i].diff_id));
    root = json_pack("{s:s, s:s, s:o, s:{s:s, s:o}}", "architecture", here.arch, "os", here.os,
                     "config", config, "rootfs", "type", "layers", "diff_ids", diff_ids);
    if (root && *here.variant)
        (void)json_object_set_new(root, "variant", json_string(here.variant));
    if (root)
        put_time(root, e->created_unix_ms);
    text = root ? atoll_json_dump(root, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(root);
    return text;
}

static int write_documents(struct atoll_export *e, struct documents *d, struct atoll_error *err)
{
    struct atoll_image_manifest *m = &d->parts;

    (void)snprintf(m->media, sizeof(m->media), "%s", ATOLL_IMAGE_MEDIA_MANIFEST);
    (void)snprintf(m->config.media, sizeof(m->config.media), "%s", ATOLL_IMAGE_MEDIA_CONFIG);
    for (size_t i = 0; i < e->count; i++)
        m->layers[m->layer_count++] = e->layers[i].blob;
    d->config = config_text(e);
    if (d->config) {
        atoll_image_digest(d->config, strlen(d->config), m->config.digest);
        m->config.size = strlen(d->config);
        d->manifest = atoll_image_manifest_write(m);
    }
    if (!d->manifest)
        return atoll_fail_errno(err, ENOMEM, "the documents of an image");
    atoll_image_digest(d->manifest, strlen(d->manifest), e->digest);
    return 0;
}

/* A registry. */

static int put_config(struct atoll_export *e, const struct documents *d,
                      const struct atoll_image_call *call, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = memfd_create("atoll-config", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, d->config, strlen(d->config));

    if (r < 0)
        return atoll_fail_errno(err, -r, "the config of an image");
    return atoll_image_registry_put_blob(e->images->registry, &e->ref, &d->parts.config, fd, NULL,
                                         call, err);
}

/* Layers are sent one after the other, bottom first. */
static void note_sent(void *arg, const struct atoll_image_descriptor *blob, uint64_t bytes)
{
    struct atoll_export *e = arg;

    for (size_t i = 0; i < e->count; i++)
        if (blob == &e->layers[i].blob)
            atomic_store(&e->sent_bytes, e->layers[i].before_bytes + bytes);
}

static void count_bytes(struct atoll_export *e)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < e->count; i++) {
        e->layers[i].before_bytes = sum;
        sum += e->layers[i].blob.size;
    }
    atomic_store(&e->all_bytes, sum);
}

static int push(struct atoll_export *e, const struct documents *d, struct atoll_error *err)
{
    const struct atoll_image_login *l = &e->login;
    const struct atoll_image_call call = {
        .progress = note_sent,
        .progress_arg = e,
        .deadline_ms = atoll_clock_ms() + PUSH_MS,
        .cancel_fd = e->cancel_fd,
        .login = l->user || l->identity_token || l->registry_token ? l : NULL,
        .allow_private = e->allow_private};
    int r = 0;

    count_bytes(e);
    for (size_t i = 0; r == 0 && i < e->count; i++)
        r = atoll_image_registry_put_blob(e->images->registry, &e->ref, &e->layers[i].blob,
                                          e->layers[i].fd, NULL, &call, err);
    if (r == 0)
        r = put_config(e, d, &call, err);
    if (r == 0)
        r = atoll_image_registry_put_manifest(e->images->registry, &e->ref, d->parts.media,
                                              d->manifest, strlen(d->manifest), &call, err);
    return r;
}

/* An archive. */

static int open_layer(void *arg, size_t i, const struct atoll_image_descriptor *layer,
                      struct atoll_error *err)
{
    const struct atoll_export *e = arg;
    int fd = fcntl(e->layers[i].fd, F_DUPFD_CLOEXEC, 0);

    (void)layer;
    return fd < 0 ? atoll_fail_errno(err, errno, "open the archive of a layer") : fd;
}

static int save(struct atoll_export *e, const struct documents *d, struct atoll_error *err)
{
    const struct atoll_image_layout_new what = {.name = *e->ref.host ? &e->ref : NULL,
                                                .manifest = d->manifest,
                                                .manifest_len = strlen(d->manifest),
                                                .config = d->config,
                                                .config_len = strlen(d->config),
                                                .open_layer = open_layer,
                                                .arg = e};

    e->archive = atoll_file_nameless(e->images->blobs_fd);
    if (e->archive < 0)
        return atoll_fail_errno(err, -e->archive, "make an archive");
    return atoll_image_layout_write(e->archive, &what, err);
}

static void run(struct atoll_job *job)
{
    struct atoll_export *e = ATOLL_CONTAINER_OF(job, struct atoll_export, job);
    struct documents *d = atoll_alloc(sizeof(*d));

    e->ran = true;
    atomic_store(&e->writing, true);
    for (size_t i = 0; e->r == 0 && i < e->count; i++)
        e->r = digest_blob(&e->layers[i], &e->error);
    if (e->r == 0)
        e->r = write_documents(e, d, &e->error);
    if (e->r == 0)
        e->r = e->push ? push(e, d, &e->error) : save(e, d, &e->error);
    documents_done(d);
    free(d);
}

static void ended(struct atoll_job *job)
{
    struct atoll_export *e = ATOLL_CONTAINER_OF(job, struct atoll_export, job);

    if (!e->ran)
        e->r = atoll_fail(&e->error, ATOLL_ERR_ABORTED, ECANCELED, "the daemon is stopping");
    atoll_steps_done(&e->steps, e->r < 0 ? &e->error : NULL);
}

void atoll_export_write(void *export)
{
    struct atoll_export *e = export;
    struct atoll_error err;

    e->job = (struct atoll_job){.run = run, .done = ended, .owner = e->tenant};
    if (atoll_workers_submit(e->images->workers, &e->job, &err) < 0)
        atoll_steps_done(&e->steps, &err);
}
