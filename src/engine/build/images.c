#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "engine/build/build_internal.h"
#include "engine/json_memory.h"
#include "engine/template/pull.h"
#include "image/reference.h"
#include "sandbox/stack.h"

#define DEFAULT_SUITE "bookworm" /* of `atoll template debian` */

/*
 * The templates and images that the stages of a build need, each found once.
 */

struct atoll_make_image *atoll_make_image_of(const struct atoll_make *make, const char *reference)
{
    for (size_t i = 0; i < make->image_count; i++)
        if (strcmp(make->images[i].reference, reference) == 0)
            return &make->images[i];
    return NULL;
}

/* Names of contexts come before images. */
static bool is_context(const struct atoll_make *make, const char *name)
{
    for (size_t i = 0; i < make->source_count; i++)
        if (*name && strcmp(make->sources[i].name, name) == 0)
            return true;
    return false;
}

static void add(struct atoll_make *make, const char *reference)
{
    struct atoll_make_image *image = &make->images[make->image_count];

    if (atoll_make_image_of(make, reference))
        return;
    image->make = make;
    image->reference = strdup(reference);
    if (!image->reference)
        abort();
    make->image_count++;
}

int atoll_make_find_images(struct atoll_make *make, struct atoll_error *err)
{
    size_t most = 0;

    (void)err;
    for (size_t i = 0; i < make->plan->stage_count; i++)
        most += 1 + make->plan->stages[i].image_count;
    make->images = atoll_alloc(most * sizeof(*make->images));
    for (size_t i = 0; i < make->plan->stage_count; i++) {
        const struct atoll_recipe_plan_stage *stage = &make->plan->stages[i];
        if (!stage->needed)
            continue;
        if (stage->base.kind == ATOLL_RECIPE_FROM_IMAGE)
            add(make, stage->base.image);
        for (size_t k = 0; k < stage->image_count; k++)
            if (!is_context(make, stage->images[k]))
                add(make, stage->images[k]);
    }
    return 0;
}

/* Takes what the template has now; it may be replaced while the build runs. */
static int take(struct atoll_make_image *image, const struct atoll_template_view *view,
                struct atoll_error *err)
{
    const char *layers = view->kind == ATOLL_TEMPLATE_HOST ? ATOLL_STACK_HOST : view->layers;
    int r;

    if (!*layers)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "template %s has no layers of its own, so a build cannot begin with it",
                          image->reference);
    r = atoll_layers_hold(image->make->engine, layers, err);
    if (r < 0)
        return r;
    image->layers = strdup(layers);
    image->config = atoll_json_load_own(view->config_json);
    if (!image->config)
        image->config = json_object();
    if (!image->layers)
        abort();
    image->ready = true;
    return 0;
}

/* The length of SUITE in a tag SUITE or SUITE-slim; 0: another tag. */
static size_t suite_of(const char *tag)
{
    const size_t n = strspn(tag, "abcdefghijklmnopqrstuvwxyz");

    return strcmp(tag, "latest") == 0 || (tag[n] && strcmp(tag + n, "-slim") != 0) ? 0 : n;
}

/* A template of the image's name serves as well, and Debian can be had without a registry of images. */
static void advise_template(const char *reference, struct atoll_error *err)
{
    char suite[ATOLL_IMAGE_TAG_MAX], option[ATOLL_IMAGE_TAG_MAX + 16] = "";
    struct atoll_image_reference ref;
    struct atoll_error ignored;

    if (!err->another || *err->hint || atoll_image_reference_parse(reference, &ref, &ignored) < 0 ||
        *ref.digest || strcmp(ref.host, "docker.io") != 0 ||
        strcmp(ref.path, "library/debian") != 0 || suite_of(ref.tag) == 0)
        return;
    (void)snprintf(suite, sizeof(suite), "%.*s", (int)suite_of(ref.tag), ref.tag);
    if (strcmp(suite, DEFAULT_SUITE) != 0)
        (void)snprintf(option, sizeof(option), "--suite %s ", suite);
    atoll_advise(err,
                 "Without the registry, make a template of that name from Debian's packages:\n"
                 "  atoll template debian %sdebian && atoll template tag debian %s",
                 option, ref.tag);
}

static void on_pulled(void *arg, const struct atoll_template_view *view,
                      const struct atoll_error *error)
{
    struct atoll_make_image *image = arg;
    struct atoll_make *make = image->make;
    struct atoll_error err, advised;

    image->pull = NULL;
    if (!error && take(image, view, &err) < 0)
        error = &err;
    if (error) {
        advised = *error;
        advise_template(image->reference, &advised);
        atoll_make_fail(make, &advised, 0, 0);
    } else {
        atoll_make_advance(make);
    }
}

static void on_progress(void *arg, const char *text)
{
    const struct atoll_make_image *image = arg;
    char note[400];

    (void)snprintf(note, sizeof(note), "pulling %.200s: %s", image->reference, text);
    atoll_make_log_note(image->make, "note", 0, 0, note);
}

static void pull(struct atoll_make_image *image)
{
    const struct atoll_make *make = image->make;
    const char *tenant = make->tenant;
    const struct atoll_pull_request request = {
        .tenant = strcmp(tenant, ATOLL_OPERATOR_TENANT) == 0 ? NULL : tenant,
        .image = image->reference,
        .login =
            make->login && strcmp(make->login_image, image->reference) == 0 ? make->login : NULL,
        .progress = on_progress,
        .progress_arg = image,
    };
    struct atoll_pull_waiter *waiter;

    on_progress(image, "asking the registry");
    waiter = atoll_image_pull(image->make->engine, &request, on_pulled, image);
    if (waiter)
        image->pull = waiter;
}

/* A template of that name comes before an image that was pulled, and that before one of a registry. */
static int find(struct atoll_make_image *image, struct atoll_template_view *view,
                struct atoll_error *err)
{
    struct atoll_make *make = image->make;
    int r = atoll_template_resolve(make->engine, make->tenant, image->reference, view, err);

    return r < 0 ? atoll_image_find(make->engine, make->tenant, image->reference, view, err) : r;
}

void atoll_make_ask_images(struct atoll_make *make)
{
    struct atoll_template_view view;
    struct atoll_error err;

    for (size_t i = 0; i < make->image_count && make->state == ATOLL_MAKE_RUNNING; i++) {
        struct atoll_make_image *image = &make->images[i];
        if (find(image, &view, &err) < 0) {
            pull(image);
        } else if (take(image, &view, &err) < 0) {
            atoll_make_fail(make, &err, 0, 0);
            return;
        }
    }
    atoll_make_advance(make);
}
