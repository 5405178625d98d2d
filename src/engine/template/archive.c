#include "engine/template/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/template/images_internal.h"
#include "engine/template/settle.h"
#include "image/layout.h"
#include "loop/steps.h"
#include "sandbox/stack.h"

#define READ_BYTES ((size_t)256 * 1024)

/* One layer of the image. */
struct part {
    struct atoll_image_archive *archive;
    char layer[72];
    bool held;
};

struct atoll_image_archive {
    struct atoll_images *images;
    struct atoll_list node; /* in images->archives */
    char tenant[65], name[65];
    struct atoll_tenant_file *file; /* while it is written */
    int fd;                         /* owned */
    uint64_t size_bytes;
    atoll_done_fn *taken;
    void *taken_arg;
    struct atoll_steps steps;
    struct atoll_job job;
    bool ran;
    int r; /* of the job */
    struct atoll_error error;
    size_t at, count; /* images of the archive */
    struct atoll_image_reference ref;
    struct atoll_image_layout_image image;
    struct part parts[ATOLL_IMAGE_LAYERS_MAX];
    size_t part_count, pending;
    struct atoll_buf stack; /* names of the layers */
    char settled[72];       /* the last one, held; "": none */
    struct atoll_template_view view;
    atoll_template_fn *done;
    void *arg;
};

static void forget_image(struct atoll_image_archive *a)
{
    for (size_t i = 0; i < a->part_count; i++)
        if (a->parts[i].held)
            atoll_layer_release(a->images->engine, a->parts[i].layer);
    a->part_count = 0;
    if (*a->settled)
        atoll_layer_release(a->images->engine, a->settled);
    a->settled[0] = '\0';
    atoll_buf_clear(&a->stack);
    atoll_image_layout_image_done(&a->image);
    memset(&a->image, 0, sizeof(a->image));
}

static void archive_free(struct atoll_image_archive *a)
{
    atoll_list_remove(&a->node);
    forget_image(a);
    a->file = atoll_tenant_file_close(a->file);
    atoll_buf_done(&a->stack);
    if (a->fd >= 0)
        (void)close(a->fd);
    free(a);
}

/* Receiving it. */

static void tell_taken(struct atoll_image_archive *a, int r)
{
    atoll_done_fn *taken = ATOLL_TAKE_PTR(a->taken);
    struct atoll_error err;

    if (r < 0)
        (void)atoll_upload_fail(r, &err);
    if (taken)
        taken(a->taken_arg, r < 0 ? &err : NULL);
}

static void on_room(void *arg)
{
    struct atoll_image_archive *a = arg;
    int r;

    if (a->steps.steps) { /* finished: the file is flushed */
        r = atoll_tenant_file_flush(a->file);
        if (r == 1)
            return;
        if (r < 0)
            (void)atoll_upload_fail(r, &a->error);
        atoll_steps_done(&a->steps, r < 0 ? &a->error : NULL);
        return;
    }
    tell_taken(a, 0);
}

int atoll_image_archive_open(struct atoll_engine *engine, const char *tenant, const char *name,
                             struct atoll_image_archive **ret, struct atoll_error *err)
{
    struct atoll_images *images = engine->images;
    struct atoll_lane lane = {.tenant = ATOLL_OPERATOR_TENANT};
    struct atoll_image_archive *a;
    int r = atoll_room_admit(engine, err), fd;

    if (r == 0 && name)
        r = atoll_template_check(engine, tenant, name, ATOLL_TEMPLATE_ROOTFS, err);
    if (r < 0)
        return r;
    a = atoll_alloc(sizeof(*a));
    a->images = images;
    atoll_list_push_back(&images->archives, &a->node);
    atoll_buf_init(&a->stack, (size_t)ATOLL_IMAGE_LAYERS_MAX * 72);
    (void)snprintf(a->tenant, sizeof(a->tenant), "%s", tenant);
    (void)snprintf(a->name, sizeof(a->name), "%s", name ? name : "");
    a->fd = openat(images->blobs_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    fd = a->fd < 0 ? -1 : dup(a->fd);
    r = fd < 0 ? -errno : atoll_tenant_file_open(engine->offload, &lane, fd, &a->file);
    if (r < 0) {
        archive_free(a);
        return atoll_fail_errno(err, -r, "archive of an image");
    }
    atoll_tenant_file_on_ready(a->file, on_room, a);
    *ret = a;
    return 0;
}

void atoll_image_archive_write(struct atoll_image_archive *a, const uint8_t *bytes, size_t n,
                               atoll_done_fn *done, void *arg)
{
    struct atoll_error err;
    int r;

    a->size_bytes += n;
    if (a->size_bytes > a->images->max_bytes) {
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                         "the archive is larger than an image may be (--image-max)");
        done(arg, &err);
        return;
    }
    a->taken = done;
    a->taken_arg = arg;
    r = atoll_tenant_file_write(a->file, bytes, n);
    if (r <= 0)
        tell_taken(a, r);
}

void atoll_image_archive_drop(struct atoll_image_archive *a)
{
    if (a)
        archive_free(a);
}

/* Step 2, for each image: its documents, and the digests of its layers. On a worker. */

static int hash_range(int fd, uint64_t offset, uint64_t size, char out[72], struct atoll_error *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t *buf = malloc(READ_BYTES), digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int r = ctx && buf && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;

    while (r == 0 && size > 0) {
        ssize_t n = pread(fd, buf, ATOLL_MIN((uint64_t)READ_BYTES, size), (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            r = n < 0 ? -errno : -EBADMSG;
        else
            (void)EVP_DigestUpdate(ctx, buf, (size_t)n);
        offset += (uint64_t)(n > 0 ? n : 0);
        size -= (uint64_t)(n > 0 ? n : 0);
    }
    if (r == 0)
        (void)EVP_DigestFinal_ex(ctx, digest, &len);
    for (unsigned k = 0; k < len; k++)
        (void)snprintf(out + 2 * k, 3, "%02x", digest[k]);
    EVP_MD_CTX_free(ctx);
    free(buf);
    return r < 0 ? atoll_fail_errno(err, -r, "read the archive") : 0;
}

static int hash_layers(struct atoll_image_archive *a, struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < a->image.layer_count; i++) {
        const struct atoll_image_layout_layer *l = &a->image.layers[i];

        r = hash_range(a->fd, l->offset, l->size, a->parts[i].layer, err);
        if (r == 0 && *l->digest && strcmp(l->digest + strlen("sha256:"), a->parts[i].layer) != 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EBADMSG,
                           "a layer of the archive does not have the digest that it is named by");
    }
    return r;
}

static int name_image(struct atoll_image_archive *a, const struct atoll_image_layout *layout,
                      struct atoll_error *err)
{
    const char *name = atoll_image_layout_name(layout, a->at);

    if (*a->name && a->count > 1)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the archive has %zu images: give no name, so that each keeps its own",
                          a->count);
    if (*a->name)
        return 0;
    if (!*name)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "an image of the archive has no name: give one");
    return atoll_image_reference_parse(name, &a->ref, err);
}

static void run_read(struct atoll_job *job)
{
    struct atoll_image_archive *a = ATOLL_CONTAINER_OF(job, struct atoll_image_archive, job);
    struct atoll_image_layout *layout = NULL;

    a->ran = true;
    a->r = atoll_image_layout_open(a->fd, &layout, &a->error);
    if (a->r < 0)
        return;
    a->count = atoll_image_layout_count(layout);
    a->r = name_image(a, layout, &a->error);
    if (a->r == 0)
        a->r = atoll_image_layout_read(layout, a->at, NULL, &a->image, &a->error);
    if (a->r == 0)
        a->r = hash_layers(a, &a->error);
    (void)atoll_image_layout_close(layout);
}

static void unpack_layers(struct atoll_image_archive *a);

static void read_ended(struct atoll_job *job)
{
    struct atoll_image_archive *a = ATOLL_CONTAINER_OF(job, struct atoll_image_archive, job);

    if (!a->ran)
        a->r = atoll_fail(&a->error, ATOLL_ERR_ABORTED, ECANCELED, "the daemon is stopping");
    if (a->r == 0 && a->images->stopping)
        a->r = atoll_fail(&a->error, ATOLL_ERR_ABORTED, ECANCELED, "the daemon is stopping");
    if (a->r < 0)
        atoll_steps_done(&a->steps, &a->error);
    else
        unpack_layers(a);
}

static void read_image(void *arg)
{
    struct atoll_image_archive *a = arg;
    struct atoll_error err;

    a->file = atoll_tenant_file_close(a->file);
    a->ran = false;
    a->job = (struct atoll_job){.run = run_read, .done = read_ended, .owner = a->tenant};
    if (atoll_workers_submit(a->images->workers, &a->job, &err) < 0)
        atoll_steps_done(&a->steps, &err);
}

/* Its layers, and its version. */

static int store_image(struct atoll_image_archive *a, struct atoll_error *err)
{
    const struct atoll_images_version version = {.tenant = a->tenant,
                                                 .ref = &a->ref,
                                                 .name = *a->name ? a->name : NULL,
                                                 .digest = a->image.digest,
                                                 .config = a->image.config.config};

    return atoll_images_store(a->images, &version, &a->stack, &a->view, err);
}

/* Goes on with the next image, or ends. */
static void image_ended(struct atoll_image_archive *a)
{
    bool ok = a->error.kind == ATOLL_ERR_NONE;

    forget_image(a);
    if (ok && ++a->at < a->count)
        read_image(a);
    else
        atoll_steps_done(&a->steps, ok ? NULL : &a->error);
}

/* Whether the image is a template of another daemon whose layers are on the host's own system. The label
 * is not kept: the stack says it. */
static bool take_base(json_t *config)
{
    json_t *labels = json_object_get(config, "Labels");
    const char *base = json_string_value(json_object_get(labels, ATOLL_IMAGE_BASE_LABEL));
    bool on_host = base && strcmp(base, ATOLL_STACK_HOST) == 0;

    (void)json_object_del(labels, ATOLL_IMAGE_BASE_LABEL);
    return on_host;
}

static void put_host_below(struct atoll_buf *stack)
{
    ATOLL_AUTOFREE char *above = strdup(atoll_buf_str(stack));

    atoll_buf_clear(stack);
    if (!above || atoll_buf_appendf(stack, "%s %s", ATOLL_STACK_HOST, above) < 0)
        abort();
}

static void on_settled(void *arg, const struct atoll_unpacked *made,
                       const struct atoll_error *error)
{
    struct atoll_image_archive *a = arg;

    if (error) {
        a->error = *error;
    } else {
        (void)snprintf(a->settled, sizeof(a->settled), "%s", made->layer);
        if (*made->layer && atoll_buf_appendf(&a->stack, " %s", made->layer) < 0)
            abort();
        if (take_base(a->image.config.config))
            put_host_below(&a->stack);
        (void)!store_image(a, &a->error);
    }
    image_ended(a);
}

static void settle(struct atoll_image_archive *a)
{
    for (size_t i = 0; i < a->part_count; i++)
        if (a->parts[i].held &&
            atoll_buf_appendf(&a->stack, "%s%s", atoll_buf_size(&a->stack) ? " " : "",
                              a->parts[i].layer) < 0)
            abort();
    atoll_settle_stack(a->images->engine, atoll_buf_str(&a->stack), on_settled, a);
}

static void part_ended(struct atoll_image_archive *a, const struct atoll_error *error)
{
    if (error && a->error.kind == ATOLL_ERR_NONE)
        a->error = *error;
    if (--a->pending > 0)
        return;
    if (a->error.kind == ATOLL_ERR_NONE)
        settle(a);
    else
        image_ended(a);
}

static void on_unpacked(void *arg, const struct atoll_unpacked *made,
                        const struct atoll_error *error)
{
    struct part *part = arg;

    part->held = made != NULL;
    part_ended(part->archive, error);
}

/* Whether the same layer comes again above, see pull.c. */
static bool comes_again(const struct atoll_image_archive *a, size_t i)
{
    for (size_t k = i + 1; k < a->part_count; k++)
        if (strcmp(a->parts[k].layer, a->parts[i].layer) == 0)
            return true;
    return false;
}

static void unpack_layers(struct atoll_image_archive *a)
{
    a->part_count = a->image.layer_count;
    a->pending = 1;
    a->error = (struct atoll_error){0};
    for (size_t i = 0; i < a->part_count; i++) {
        const struct atoll_unpack_request request = {
            .layer = a->parts[i].layer,
            .diff_id = a->image.config.diff_ids[i] + strlen("sha256:"),
            .offset = a->image.layers[i].offset,
            .length = a->image.layers[i].size,
        };
        struct atoll_error err;
        int fd;

        a->parts[i].archive = a;
        a->parts[i].held = false;
        if (comes_again(a, i))
            continue;
        a->pending++;
        fd = dup(a->fd);
        if (fd < 0) {
            (void)atoll_fail_errno(&err, errno, "archive of an image");
            part_ended(a, &err);
        } else {
            atoll_unpack_file(a->images->engine, &request, fd, on_unpacked, &a->parts[i]);
        }
    }
    part_ended(a, NULL);
}

/* Step 1: all of it is in the file. */
static void flush(void *arg)
{
    on_room(arg);
}

static const struct atoll_step importing[] = {
    {"writing the archive", flush, NULL},
    {"reading its images", read_image, NULL},
};

static void on_imported(void *arg, const struct atoll_error *error)
{
    struct atoll_image_archive *a = arg;
    struct atoll_template_view view = a->view;
    struct atoll_error err;
    atoll_template_fn *done = a->done;
    void *done_arg = a->arg;

    if (error) {
        err = *error;
        if (err.kind == ATOLL_ERR_DATA_LOSS) /* the client's archive, not the daemon's data */
            err.kind = ATOLL_ERR_INVALID_ARGUMENT;
    }
    archive_free(a);
    if (done)
        done(done_arg, error ? NULL : &view, error ? &err : NULL);
}

void atoll_image_archive_finish(struct atoll_image_archive *a, atoll_template_fn *done, void *arg)
{
    a->done = done;
    a->arg = arg;
    a->steps = (struct atoll_steps){
        .steps = importing, .count = ATOLL_ARRAY_LEN(importing), .arg = a, .done = on_imported};
    atoll_steps_start(&a->steps);
}

void atoll_image_archives_cancel(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->archives, node) {
        struct atoll_image_archive *a = ATOLL_CONTAINER_OF(node, struct atoll_image_archive, node);
        a->done = NULL;
        a->taken = NULL;
    }
}

void atoll_image_archives_done(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->archives, node)
        archive_free(ATOLL_CONTAINER_OF(node, struct atoll_image_archive, node));
}
