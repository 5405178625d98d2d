#include "engine/template/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/template/images_internal.h"
#include "engine/template/settle.h"
#include "loop/steps.h"

#define PULL_MS (INT64_C(60) * 60 * 1000)
#define REPORT_MS 250
#define OPEN_TRIES 3
#define KEY_MAX (65 + 256 + ATOLL_IMAGE_REFERENCE_MAX)

struct atoll_pull_waiter {
    struct atoll_list node;
    struct pull *pull;
    atoll_template_fn *done;
    void (*progress)(void *arg, const char *text);
    void *arg, *progress_arg;
};

/* One layer of the image. */
struct part {
    struct pull *pull;
    const struct atoll_image_descriptor *blob;
    char layer[72];
    struct atoll_job job;
    bool ran, held, complete;
    _Atomic uint64_t here; /* bytes of the blob */
    int fd, r;             /* of the job */
    struct atoll_error error;
};

struct pull {
    struct atoll_images *images;
    struct atoll_list node; /* in images->all */
    char key[KEY_MAX];      /* in images->pulls; "": other requests cannot join it any more */
    char tenant[65];
    struct atoll_image_reference ref;
    char name[ATOLL_IMAGE_REFERENCE_MAX]; /* for texts */
    struct atoll_image_login login;
    bool allow_private;
    int cancel_fd, blobs_fd;
    struct atoll_list waiters;
    struct atoll_steps steps;
    struct atoll_timer report;
    char reported[120];
    struct atoll_job finding;
    bool found;
    int find_r;
    struct atoll_error error; /* of finding, then of the first part that failed */
    struct atoll_image image;
    struct part *parts; /* owned; bottom first, each layer once */
    size_t count, pending;
    struct atoll_buf stack;          /* names of the layers */
    char settled[72];                /* the last one, held; "": none */
    struct atoll_template_view view; /* at the end; borrowed from the engine */
};

static struct atoll_image_call call_of(struct pull *p)
{
    return (struct atoll_image_call){
        .deadline_ms = atoll_clock_ms() + PULL_MS,
        .cancel_fd = p->cancel_fd,
        .login =
            p->login.user || p->login.identity_token || p->login.registry_token ? &p->login : NULL,
        .allow_private = p->allow_private};
}

static void part_done(struct part *part)
{
    if (part->fd >= 0)
        (void)close(part->fd);
    if (part->held)
        atoll_layer_release(part->pull->images->engine, part->layer);
}

/* Requests from now on begin another pull. */
static void unlist(struct pull *p)
{
    if (*p->key)
        (void)atoll_map_remove(&p->images->pulls, p->key);
    p->key[0] = '\0';
}

static void pull_free(struct pull *p)
{
    unlist(p);
    atoll_list_remove(&p->node);
    atoll_timer_cancel(&p->report);
    ATOLL_LIST_FOREACH (&p->waiters, node)
        free(ATOLL_CONTAINER_OF(node, struct atoll_pull_waiter, node));
    for (size_t i = 0; i < p->count; i++)
        part_done(&p->parts[i]);
    free(p->parts);
    if (*p->settled)
        atoll_layer_release(p->images->engine, p->settled);
    atoll_buf_done(&p->stack);
    atoll_image_done(&p->image);
    atoll_image_login_done(&p->login);
    if (p->cancel_fd >= 0)
        (void)close(p->cancel_fd);
    if (p->blobs_fd >= 0)
        (void)close(p->blobs_fd);
    free(p);
}

/* Step 1: the manifest and the config. */

static void run_find(struct atoll_job *job)
{
    struct pull *p = ATOLL_CONTAINER_OF(job, struct pull, finding);
    const struct atoll_image_call call = call_of(p);

    p->found = true;
    p->find_r =
        atoll_image_registry_find(p->images->registry, &p->ref, NULL, &call, &p->image, &p->error);
}

static int check_size(const struct pull *p, struct atoll_error *err)
{
    const struct atoll_image_manifest *m = &p->image.manifest;
    uint64_t total = 0, room = atoll_room_free(p->images->engine->state_fd);
    char size[16], limit[16];

    for (size_t i = 0; i < m->layer_count; i++)
        total = total + m->layers[i].size < total ? UINT64_MAX : total + m->layers[i].size;
    if (total > p->images->max_bytes)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "image %.200s has %s of layers, more than %s, the most that is pulled "
                          "(--image-max)",
                          p->name, atoll_text_format_size(total, size),
                          atoll_text_format_size(p->images->max_bytes, limit));
    if (total > room)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC,
                          "image %.200s has %s of layers, and the daemon's disk has %s left",
                          p->name, atoll_text_format_size(total, size),
                          atoll_text_format_size(room, limit));
    return 0;
}

static void find_ended(struct atoll_job *job)
{
    struct pull *p = ATOLL_CONTAINER_OF(job, struct pull, finding);
    int r = p->found
                ? p->find_r
                : atoll_fail(&p->error, ATOLL_ERR_ABORTED, ECANCELED, "the daemon is stopping");

    if (r == 0)
        r = check_size(p, &p->error);
    atoll_steps_done(&p->steps, r < 0 ? &p->error : NULL);
}

static void find(void *arg)
{
    struct pull *p = arg;
    struct atoll_error err;

    p->finding = (struct atoll_job){.run = run_find, .done = find_ended, .owner = p->tenant};
    if (atoll_workers_submit(p->images->workers, &p->finding, &err) < 0)
        atoll_steps_done(&p->steps, &err);
}

/* Step 2: the layers. */

/* One more part has ended; the first error is kept. */
static void part_ended(struct pull *p, const struct atoll_error *error)
{
    if (error && p->error.kind == ATOLL_ERR_NONE) {
        p->error = *error;
        atoll_images_cancel(p->cancel_fd); /* the other downloads */
    }
    if (--p->pending == 0)
        atoll_steps_done(&p->steps, p->error.kind == ATOLL_ERR_NONE ? NULL : &p->error);
}

static void on_unpacked(void *arg, const struct atoll_unpacked *made,
                        const struct atoll_error *error)
{
    struct part *part = arg;

    struct atoll_error err;

    part->held = made != NULL;
    part->complete = made != NULL;
    if (made)
        atoll_images_drop_blob(part->pull->blobs_fd, part->blob->digest);
    if (error) {
        err = *error;
        (void)atoll_wrap(&err, "image %.200s", part->pull->name);
    }
    part_ended(part->pull, error ? &err : NULL);
}

static void note_bytes(void *arg, const struct atoll_image_descriptor *blob, uint64_t bytes)
{
    struct part *part = arg;

    (void)blob;
    atomic_store(&part->here, bytes);
}

/* Another pull may remove the blob after it has used it: then it is got again. */
static void run_get(struct atoll_job *job)
{
    struct part *part = ATOLL_CONTAINER_OF(job, struct part, job);
    struct pull *p = part->pull;
    struct atoll_image_call call = call_of(p);
    char name[ATOLL_IMAGE_DIGEST_MAX];

    part->ran = true;
    call.progress = note_bytes;
    call.progress_arg = part;
    (void)atoll_image_blob_name(part->blob->digest, name);
    for (int i = 0; i < OPEN_TRIES && part->fd < 0; i++) {
        part->r = atoll_image_registry_get_blob(p->images->registry, &p->ref, part->blob,
                                                p->blobs_fd, &call, &part->error);
        if (part->r < 0)
            return;
        part->fd = openat(p->blobs_fd, name, O_RDONLY | O_CLOEXEC);
    }
    if (part->fd < 0)
        part->r = atoll_fail_errno(&part->error, errno, "open a blob of the image");
}

static void get_ended(struct atoll_job *job)
{
    struct part *part = ATOLL_CONTAINER_OF(job, struct part, job);
    struct pull *p = part->pull;
    const struct atoll_unpack_request request = {
        .layer = part->layer,
        .diff_id = p->image.config.diff_ids[part->blob - p->image.manifest.layers] + 7};

    if (!part->ran)
        part->r = atoll_fail(&part->error, ATOLL_ERR_ABORTED, ECANCELED, "the daemon is stopping");
    if (part->r >= 0 && (p->images->stopping || p->error.kind != ATOLL_ERR_NONE))
        part->r = atoll_fail(&part->error, ATOLL_ERR_ABORTED, ECANCELED, "the pull has failed");
    if (part->r < 0) {
        part_ended(p, &part->error);
        return;
    }
    atomic_store(&part->here, part->blob->size);
    atoll_metric_add(ATOLL_METRIC_PULLED_BYTES, ATOLL_NO_LABELS, (double)part->blob->size);
    atoll_unpack_file(p->images->engine, &request, ATOLL_TAKE_FD(part->fd), on_unpacked, part);
}

/* Gets a layer, unless it is here and the tenant has it already. */
static void begin_part(struct part *part)
{
    struct pull *p = part->pull;
    struct atoll_error err;

    if (atoll_layer_find(p->images->engine, part->layer, NULL) &&
        atoll_images_has_layer(p->images, p->tenant, part->layer) &&
        atoll_layer_hold(p->images->engine, part->layer, &err) == 0) {
        part->held = part->complete = true;
        atomic_store(&part->here, part->blob->size);
        part_ended(p, NULL);
        return;
    }
    part->job = (struct atoll_job){.run = run_get, .done = get_ended, .owner = p->tenant};
    if (atoll_workers_submit(p->images->workers, &part->job, &err) < 0)
        part_ended(p, &err);
}

/* Whether the same layer comes again above: a mount cannot have a layer twice, and the upper one covers
 * everything that the lower one has. */
static bool comes_again(const struct atoll_image_manifest *m, size_t i)
{
    for (size_t k = i + 1; k < m->layer_count; k++)
        if (strcmp(m->layers[k].digest, m->layers[i].digest) == 0)
            return true;
    return false;
}

static void get_layers(void *arg)
{
    struct pull *p = arg;
    const struct atoll_image_manifest *m = &p->image.manifest;

    p->parts = calloc(ATOLL_MAX(m->layer_count, (size_t)1), sizeof(*p->parts));
    if (!p->parts)
        abort();
    for (size_t i = 0; i < m->layer_count; i++) {
        struct part *part = &p->parts[p->count];

        if (comes_again(m, i))
            continue;
        part->pull = p;
        part->fd = ATOLL_NO_FD;
        part->blob = &m->layers[i];
        (void)snprintf(part->layer, sizeof(part->layer), "%.64s", m->layers[i].digest + 7);
        p->count++;
    }
    p->pending = p->count + 1; /* it does not end before all have begun */
    for (size_t i = 0; i < p->count; i++)
        begin_part(&p->parts[i]);
    part_ended(p, NULL);
}

/* Step 3: the layer for directories that archives only imply. */

static void on_settled(void *arg, const struct atoll_unpacked *made,
                       const struct atoll_error *error)
{
    struct pull *p = arg;

    if (made)
        (void)snprintf(p->settled, sizeof(p->settled), "%s", made->layer);
    if (made && *made->layer && atoll_buf_appendf(&p->stack, " %s", made->layer) < 0)
        abort();
    atoll_steps_done(&p->steps, error);
}

static void settle(void *arg)
{
    struct pull *p = arg;

    for (size_t i = 0; i < p->count; i++)
        if (atoll_buf_appendf(&p->stack, "%s%s", i ? " " : "", p->parts[i].layer) < 0)
            abort();
    atoll_settle_stack(p->images->engine, atoll_buf_str(&p->stack), on_settled, p);
}

/* Step 4: the version. */

static void store(void *arg)
{
    struct pull *p = arg;
    const struct atoll_images_version version = {
        .tenant = p->tenant,
        .ref = &p->ref,
        .digest = *p->image.index_digest ? p->image.index_digest : p->image.digest,
        .config = p->image.config.config,
    };
    struct atoll_error err;
    int r;

    r = atoll_fault("images.store") != 0
            ? atoll_fail(&err, ATOLL_ERR_INTERNAL, EIO, "the image could not be stored")
            : atoll_images_store(p->images, &version, &p->stack, &p->view, &err);
    atoll_steps_done(&p->steps, r < 0 ? &err : NULL);
}

static const struct atoll_step pulling[] = {
    {"looking for the image", find, NULL},
    {"getting its layers", get_layers, NULL},
    {"settling its directories", settle, NULL},
    {"storing it", store, NULL},
};

/* Waiters. */

static void on_pulled(void *arg, const struct atoll_error *error)
{
    struct pull *p = arg;
    struct atoll_error err;

    if (error) {
        err = *error;
        (void)snprintf(err.text, sizeof(err.text), "image %.380s", error->text);
        /* It is the registry that has lost data, or lies: the client is to know. */
        if (err.kind == ATOLL_ERR_DATA_LOSS)
            err.kind = ATOLL_ERR_FAILED_PRECONDITION;
    }
    atoll_metric_add(ATOLL_METRIC_PULLS, ATOLL_LABELS(error ? "failed" : "done"), 1);
    unlist(p);
    while (!atoll_list_empty(&p->waiters)) {
        struct atoll_pull_waiter *w =
            ATOLL_CONTAINER_OF(p->waiters.next, struct atoll_pull_waiter, node);

        atoll_list_remove(&w->node);
        w->done(w->arg, error ? NULL : &p->view, error ? &err : NULL);
        free(w);
    }
    pull_free(p);
}

static void describe(const struct pull *p, char out[120])
{
    uint64_t here = 0, total = 0;
    size_t done = 0;
    char have[16], all[16];

    for (size_t i = 0; i < p->count; i++) {
        here += atomic_load(&p->parts[i].here);
        total += p->parts[i].blob->size;
        done += p->parts[i].complete;
    }
    out[0] = '\0';
    if (p->count > 0)
        (void)snprintf(out, 120, "%zu of %zu layers, %s of %s", done, p->count,
                       atoll_text_format_size(ATOLL_MIN(here, total), have),
                       atoll_text_format_size(total, all));
}

static void report(void *arg)
{
    struct pull *p = arg;
    char text[120];

    atoll_timer_set(&p->report, p->images->engine->loop, REPORT_MS, report, p);
    describe(p, text);
    if (!*text || strcmp(text, p->reported) == 0)
        return;
    memcpy(p->reported, text, sizeof(text));
    ATOLL_LIST_FOREACH (&p->waiters, node) {
        struct atoll_pull_waiter *w = ATOLL_CONTAINER_OF(node, struct atoll_pull_waiter, node);

        if (w->progress)
            w->progress(w->progress_arg, text);
    }
}

static struct atoll_pull_waiter *wait_for(struct pull *p, const struct atoll_pull_request *request,
                                          atoll_template_fn *done, void *arg)
{
    struct atoll_pull_waiter *w = atoll_alloc(sizeof(*w));

    *w = (struct atoll_pull_waiter){.pull = p,
                                    .done = done,
                                    .arg = arg,
                                    .progress = request->progress,
                                    .progress_arg = request->progress_arg};
    atoll_list_push_back(&p->waiters, &w->node);
    return w;
}

void atoll_image_pull_leave(struct atoll_pull_waiter *w)
{
    struct pull *p = w ? w->pull : NULL;

    if (!w)
        return;
    atoll_list_remove(&w->node);
    free(w);
    if (!atoll_list_empty(&p->waiters))
        return;
    unlist(p);
    atoll_images_cancel(p->cancel_fd);
    if (p->steps.steps)
        atoll_steps_cancel(&p->steps, "the client");
    else
        pull_free(p);
}

/* From the loop, so that a waiter exists before it can be told. */
static void begin(void *arg)
{
    struct pull *p = arg;

    atoll_timer_set(&p->report, p->images->engine->loop, 0, report, p);
    p->steps = (struct atoll_steps){
        .steps = pulling, .count = ATOLL_ARRAY_LEN(pulling), .arg = p, .done = on_pulled};
    atoll_steps_start(&p->steps);
}

/* Everything that may make the result differ is in the key: the tenant, the login and the name. */
static void make_key(const struct pull *p, char out[KEY_MAX])
{
    char reference[ATOLL_IMAGE_REFERENCE_MAX];

    (void)snprintf(out, KEY_MAX, "%s %.255s %s", p->tenant, p->login.user ? p->login.user : "",
                   atoll_image_reference_text(&p->ref, reference));
}

static struct pull *pull_new(struct atoll_images *images, const struct atoll_pull_request *request,
                             struct atoll_error *err)
{
    const char *tenant = request->tenant ? request->tenant : ATOLL_OPERATOR_TENANT;
    struct pull *p = atoll_alloc(sizeof(*p));
    int r = 0;

    p->images = images;
    atoll_list_push_back(&images->all, &p->node);
    p->cancel_fd = p->blobs_fd = ATOLL_NO_FD;
    p->allow_private = strcmp(tenant, ATOLL_OPERATOR_TENANT) == 0;
    atoll_list_init(&p->waiters);
    atoll_buf_init(&p->stack, (size_t)ATOLL_IMAGE_LAYERS_MAX * 72);
    if (atoll_text_copy(p->tenant, sizeof(p->tenant), tenant) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                       "the tenant's name is too long");
    if (r == 0)
        r = atoll_image_reference_parse(request->image, &p->ref, err);
    if (r == 0 && request->login)
        atoll_image_login_set(&p->login, request->login->username, request->login->password);
    else if (r == 0 && images->logins)
        r = atoll_image_login_load(images->logins, p->ref.host, &p->login, err);
    if (r == 0 && (p->blobs_fd = atoll_images_open_blobs(images, tenant)) < 0)
        r = atoll_fail_errno(err, -p->blobs_fd, "open the blobs of the tenant");
    if (r == 0 && (p->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        r = atoll_fail_errno(err, errno, "pull");
    if (r < 0) {
        pull_free(p);
        return NULL;
    }
    (void)atoll_image_reference_short(&p->ref, p->name);
    make_key(p, p->key);
    return p;
}

struct atoll_pull_waiter *atoll_image_pull(struct atoll_engine *engine,
                                           const struct atoll_pull_request *request,
                                           atoll_template_fn *done, void *arg)
{
    struct atoll_images *images = engine->images;
    struct atoll_error err = {0};
    struct pull *p = NULL, *other;

    if (!images || images->stopping)
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
    else if (atoll_room_admit(engine, &err) == 0)
        p = pull_new(images, request, &err);
    if (!p) {
        done(arg, NULL, &err);
        return NULL;
    }
    other = atoll_map_get(&images->pulls, p->key);
    if (other) {
        p->key[0] = '\0'; /* it is the other's */
        pull_free(p);
        return wait_for(other, request, done, arg);
    }
    if (atoll_map_put(&images->pulls, p->key, p) < 0)
        abort();
    atoll_timer_set(&p->report, engine->loop, 0, begin, p);
    return wait_for(p, request, done, arg);
}

void atoll_pulls_cancel(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->all, node) {
        struct pull *p = ATOLL_CONTAINER_OF(node, struct pull, node);

        ATOLL_LIST_FOREACH (&p->waiters, waiting)
            free(ATOLL_CONTAINER_OF(waiting, struct atoll_pull_waiter, node));
        atoll_list_init(&p->waiters);
        unlist(p);
        atoll_images_cancel(p->cancel_fd);
        if (p->steps.steps)
            atoll_steps_cancel(&p->steps, "the daemon");
    }
}

void atoll_pulls_done(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->all, node)
        pull_free(ATOLL_CONTAINER_OF(node, struct pull, node));
}
