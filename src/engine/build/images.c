#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "engine/build/build_internal.h"
#include "engine/json_memory.h"
#include "sandbox/stack.h"

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

void atoll_make_ask_images(struct atoll_make *make)
{
    struct atoll_template_view view;
    struct atoll_error err;

    for (size_t i = 0; i < make->image_count; i++) {
        struct atoll_make_image *image = &make->images[i];
        if (image->ready || image->asked)
            continue;
        image->asked = true;
        if (atoll_template_resolve(make->engine, make->tenant, image->reference, &view, &err) < 0 ||
            take(image, &view, &err) < 0) {
            atoll_make_fail(make, &err, 0, 0);
            return;
        }
    }
    atoll_make_advance(make);
}
