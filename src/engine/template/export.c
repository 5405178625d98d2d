#include "engine/template/export.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/template/defaults.h"
#include "engine/template/export_internal.h"
#include "sandbox/stack.h"

#define LINE_MAX_BYTES ((size_t)64 * 1024)
#define REPORT_MS 250

static void begin(void *arg);

/* Starts the next one that waits, from the loop. */
static void next_turn(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->exports, node) {
        struct atoll_export *e = ATOLL_CONTAINER_OF(node, struct atoll_export, node);

        if (images->stopping || images->engine->ending || images->exporting >= ATOLL_EXPORTS)
            return;
        if (e->running)
            continue;
        e->running = true;
        images->exporting++;
        atoll_timer_set(&e->start, images->engine->loop, 0, begin, e);
    }
}

static void layers_done(struct atoll_export *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->layers[i].fd >= 0)
            (void)close(e->layers[i].fd);
    free(e->layers);
    if (e->stack)
        atoll_layers_release(e->images->engine, e->stack);
    free(e->stack);
}

static void export_free(struct atoll_export *e)
{
    struct atoll_images *images = e->images;

    atoll_list_remove(&e->node);
    atoll_timer_cancel(&e->start);
    atoll_timer_cancel(&e->report);
    e->reader = atoll_reader_close(e->reader);
    layers_done(e);
    atoll_image_login_done(&e->login);
    atoll_buf_done(&e->line);
    if (e->cancel_fd >= 0)
        (void)close(e->cancel_fd);
    if (e->archive >= 0)
        (void)close(e->archive);
    images->exporting -= e->running;
    free(e->config);
    free(e);
    next_turn(images);
}

static const struct atoll_step steps[] = {
    {"packing the layers", atoll_export_pack, NULL},
    {"writing the image", atoll_export_write, NULL},
};

static void describe(const struct atoll_export *e, char out[120])
{
    uint64_t all = atomic_load(&e->all_bytes);
    char have[16], size[16];

    if (!atomic_load(&e->writing))
        (void)snprintf(out, 120, "packing layer %zu of %zu", ATOLL_MIN(e->at + 1, e->count),
                       e->count);
    else if (all == 0)
        (void)snprintf(out, 120, "writing the image");
    else
        (void)snprintf(out, 120, "%s of %s sent",
                       atoll_text_format_size(atomic_load(&e->sent_bytes), have),
                       atoll_text_format_size(all, size));
}

static void report(void *arg)
{
    struct atoll_export *e = arg;
    char text[120];

    atoll_timer_set(&e->report, e->images->engine->loop, REPORT_MS, report, e);
    describe(e, text);
    if (!e->done || strcmp(text, e->reported) == 0)
        return;
    memcpy(e->reported, text, sizeof(text));
    e->progress(e->arg, text);
}

static void tell(struct atoll_export *e)
{
    char reference[ATOLL_IMAGE_REFERENCE_MAX] = "";
    struct atoll_exported made = {.digest = e->digest, .reference = reference, .fd = ATOLL_NO_FD};
    struct stat st;

    if (*e->ref.host)
        (void)atoll_image_reference_text(&e->ref, reference);
    for (size_t i = 0; i < e->count; i++)
        made.size_bytes += e->layers[i].blob.size;
    if (e->archive >= 0 && fstat(e->archive, &st) == 0)
        made.archive_bytes = (uint64_t)st.st_size;
    made.fd = ATOLL_TAKE_FD(e->archive);
    e->done(e->arg, &made, NULL);
}

static void on_ended(void *arg, const struct atoll_error *error)
{
    struct atoll_export *e = arg;

    atoll_metric_add(ATOLL_METRIC_EXPORTS,
                     ATOLL_LABELS(e->push ? "push" : "save", error ? "failed" : "done"), 1);
    if (e->done && e->progress && !error)
        report(e); /* all of it */
    if (e->done && error)
        e->done(e->arg, NULL, error);
    else if (e->done)
        tell(e);
    export_free(e);
}

static void begin(void *arg)
{
    struct atoll_export *e = arg;

    if (e->progress)
        report(e);

    e->steps = (struct atoll_steps){
        .steps = steps, .count = ATOLL_ARRAY_LEN(steps), .arg = e, .done = on_ended};
    atoll_steps_start(&e->steps);
}

static void cancel(struct atoll_export *e, const char *who)
{
    e->done = NULL;
    e->cancelled = true;
    atoll_images_cancel(e->cancel_fd);
    if (e->steps.steps)
        atoll_steps_cancel(&e->steps, who);
}

void atoll_template_export_drop(struct atoll_export *e)
{
    if (!e)
        return;
    if (!e->steps.steps) {
        export_free(e);
        return;
    }
    cancel(e, "the client");
    if (e->reader)
        atoll_export_pack_end(e);
}

/* What to export. */

/* whole: another program is to run it, which has no system of the host to put below the layers. */
static int check_layers(const struct atoll_export *e, const struct atoll_template_view *view,
                        bool whole, struct atoll_error *err)
{
    uint64_t size = atoll_layers_size(e->images->engine, view->layers);
    uint64_t room = atoll_room_free(e->images->engine->state_fd);
    char need[16], left[16];

    if (view->kind == ATOLL_TEMPLATE_HOST)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "template %.150s is the host's own system, and has no layers",
                          view->name);
    if (whole && atoll_stack_is_host(view->layers))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "template %.150s is on the host's own system, which is not part of its "
                          "layers: it is no image for others. Save it to a file and import that "
                          "elsewhere, or build it FROM an image",
                          view->name);
    if (!*view->layers)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "template %.150s is kept by the provider %.64s, and has no layers here",
                          view->name, view->provider);
    if (size > room)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC,
                          "template %.150s has %s of layers, and the daemon's disk has %s left",
                          view->name, atoll_text_format_size(size, need),
                          atoll_text_format_size(room, left));
    return atoll_layers_hold(e->images->engine, view->layers, err);
}

static int take_layers(struct atoll_export *e, const struct atoll_template_view *view, bool whole,
                       struct atoll_error *err)
{
    const char *pos = view->layers;
    char name[ATOLL_LAYER_NAME_MAX + 1];
    int r = check_layers(e, view, whole, err);

    e->on_host = atoll_stack_is_host(view->layers);
    if (e->on_host)
        pos = atoll_stack_above_host(view->layers);

    if (r < 0)
        return r;
    e->stack = strdup(view->layers);
    e->config = strdup(view->config_json);
    e->layers = calloc(atoll_stack_count(view->layers), sizeof(*e->layers));
    if (!e->stack || !e->config || !e->layers)
        abort();
    while (atoll_stack_next(&pos, name)) {
        (void)snprintf(e->layers[e->count].name, sizeof(e->layers[e->count].name), "%s", name);
        e->layers[e->count++].fd = ATOLL_NO_FD;
    }
    e->created_unix_ms = view->created_unix_ms;
    return 0;
}

/* The name in an archive: NAME and the tag that was asked for, else the first one. Templates may have
 * names that images cannot have: then it has none. */
static void name_archive(struct atoll_export *e, const char *template,
                         const struct atoll_template_view *view)
{
    struct atoll_template_reference asked;
    char text[ATOLL_TEMPLATE_NAME_MAX + ATOLL_TEMPLATE_TAG_MAX + 2];
    struct atoll_error err;
    const char *tag = view->tags;
    int n = (int)strcspn(tag, " ");

    if (atoll_template_reference_parse(template, &asked, &err) == 0 && *asked.tag) {
        tag = asked.tag;
        n = (int)strlen(tag);
    } else if (atoll_words_have(view->tags, "latest")) {
        tag = "latest";
        n = (int)strlen(tag);
    }
    (void)snprintf(text, sizeof(text), "%s:%.*s", view->name, n, tag);
    if (n == 0 || atoll_image_reference_parse(text, &e->ref, &err) < 0)
        e->ref = (struct atoll_image_reference){0};
}

static int take_target(struct atoll_export *e, const struct atoll_export_request *request,
                       struct atoll_error *err)
{
    int r = atoll_image_reference_parse(request->image, &e->ref, err);

    if (r == 0 && *e->ref.digest)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "an image is pushed to a name with a tag, not to a digest");
    if (r == 0 && request->login)
        atoll_image_login_set(&e->login, request->login->username, request->login->password);
    else if (r == 0 && e->allow_private && e->images->logins) /* to write in its name is for it */
        r = atoll_image_login_load(e->images->logins, e->ref.host, &e->login, err);
    return r;
}

static int fill(struct atoll_export *e, const struct atoll_export_request *request,
                struct atoll_error *err)
{
    struct atoll_engine *engine = e->images->engine;
    struct atoll_template_view view;
    int r = atoll_room_admit(engine, err);

    if (r == 0 && request->image)
        r = take_target(e, request, err);
    if (r == 0 && request->template)
        r = atoll_template_resolve(engine, e->tenant, request->template, &view, err);
    else if (r == 0)
        r = atoll_version_find(engine, request->version_id, &view, err);
    if (r == 0 && !request->template)
        view.config_json = "{}";
    if (r == 0)
        r = take_layers(e, &view, request->image || !request->template, err);
    e->built_in_user = r == 0 && request->template && !atoll_defaults_user(view.source);
    if (r == 0 && !request->template)
        r = atoll_image_reference_parse(request->name, &e->ref, err);
    else if (r == 0 && !request->image)
        name_archive(e, request->template, &view);
    if (r == 0 && (e->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        r = atoll_fail_errno(err, errno, "export");
    return r;
}

struct atoll_export *atoll_template_export(struct atoll_engine *engine,
                                           const struct atoll_export_request *request,
                                           atoll_export_fn *done, void *arg)
{
    const char *tenant = request->tenant ? request->tenant : ATOLL_OPERATOR_TENANT;
    struct atoll_images *images = engine->images;
    struct atoll_export *e;
    struct atoll_error err;

    if (!images || images->stopping) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
        done(arg, NULL, &err);
        return NULL;
    }
    e = atoll_alloc(sizeof(*e));
    e->images = images;
    e->cancel_fd = e->archive = ATOLL_NO_FD;
    e->push = request->image != NULL;
    e->done = done;
    e->progress = request->progress;
    e->arg = arg;
    e->allow_private = strcmp(tenant, ATOLL_OPERATOR_TENANT) == 0;
    (void)snprintf(e->tenant, sizeof(e->tenant), "%s", tenant);
    atoll_buf_init(&e->line, LINE_MAX_BYTES);
    atoll_list_init(&e->node);
    if (fill(e, request, &err) < 0) {
        export_free(e);
        done(arg, NULL, &err);
        return NULL;
    }
    atoll_list_push_back(&images->exports, &e->node);
    next_turn(images);
    return e;
}

void atoll_exports_cancel(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->exports, node)
        cancel(ATOLL_CONTAINER_OF(node, struct atoll_export, node), "the daemon");
}

void atoll_exports_done(struct atoll_images *images)
{
    ATOLL_LIST_FOREACH (&images->exports, node)
        export_free(ATOLL_CONTAINER_OF(node, struct atoll_export, node));
}
