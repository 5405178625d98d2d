/*
 * What a new sandbox is made from: a runtime, an image of Vercel's, an image of a registry, or a snapshot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/vercel/control_create.h"
#include "api/vercel/snapshots.h"
#include "base/text.h"

#define HOST_TEMPLATE "host"
#define REGISTRY "vcr.vercel.com/" /* may precede the name of an image of Vercel's */
#define MANAGED "vercel/sandbox/"
#define LATEST ":latest"
#define RUNTIME_NAMES "node22, node24, node26 and python3.13"
#define MANAGED_NAMES "universal, node:22, node:24 and node:26"

/* Runtimes, with the template that the environment of the registry is built as; the host's programs serve
 * where that is not built. The first one is the default. */
static const struct {
    const char *name, *template;
} runtimes[] = {
    {ATOLL_VERCEL_RUNTIME, "env-vercel-node24"},
    {"node22", "env-vercel-node22"},
    {"node26", "env-vercel-node26"},
    {"python3.13", "env-vercel-python3.13"},
};

/* Images of Vercel's, which its registry does not give out: with such a template, or with what to request
 * instead. */
static const struct {
    const char *name, *template, *instead;
} managed[] = {
    {"universal", "env-vercel-node24", NULL},
    {"node:22", "env-vercel-node22", NULL},
    {"node:24", "env-vercel-node24", NULL},
    {"node:26", "env-vercel-node26", NULL},
    {"python:3.14", NULL, "runtime: \"python3.13\" or image: \"docker.io/library/python:3.14\""},
    {"ubuntu", NULL, "image: \"docker.io/library/ubuntu\""},
    {"arch", NULL, "image: \"docker.io/library/archlinux\""},
};

static void use_template(const struct atoll_api_call *call, const char *template,
                         struct atoll_options *o)
{
    struct atoll_template_view t;

    o->user = ATOLL_VERCEL_USER;
    o->template_name = atoll_templates_find(call->engine, call->caller.tenant, template, &t)
                           ? template
                           : HOST_TEMPLATE;
}

static int choose_runtime(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                          struct atoll_options *o, struct atoll_error *err)
{
    const char *name = q->runtime && *q->runtime ? q->runtime : runtimes[0].name;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(runtimes); i++)
        if (strcmp(runtimes[i].name, name) == 0) {
            q->runtime = runtimes[i].name;
            use_template(call, runtimes[i].template, o);
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "Invalid runtime \"%.64s\": " RUNTIME_NAMES " exist", name);
}

/* Images. */

/* What follows the prefix; NULL: another text. */
static const char *behind(const char *text, const char *prefix)
{
    const size_t n = strlen(prefix);

    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

static const char *managed_name(const char *image)
{
    const char *own = behind(image, REGISTRY);

    return behind(own ? own : image, MANAGED);
}

/* A name without a tag may have that of the newest one. */
static bool is_named(const char *text, const char *name)
{
    const char *rest = behind(text, name);

    return rest && (!*rest || (!strchr(name, ':') && strcmp(rest, LATEST) == 0));
}

static int choose_managed(const struct atoll_api_call *call, const char *name,
                          struct atoll_options *o, struct atoll_error *err)
{
    const char *instead = NULL;
    int r;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(managed); i++) {
        if (!is_named(name, managed[i].name))
            continue;
        if (managed[i].template) {
            use_template(call, managed[i].template, o);
            return 0;
        }
        instead = managed[i].instead;
    }
    r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                   "Invalid image \"" MANAGED "%.64s\": of Vercel's images, " MANAGED_NAMES
                   " exist here",
                   name);
    if (instead)
        atoll_advise(err, "Similar: %s", instead);
    return r;
}

static int choose_image(const struct atoll_api_call *call, const struct atoll_vercel_create *q,
                        struct atoll_options *o, struct atoll_error *err)
{
    const char *name = managed_name(q->image);

    if (q->runtime && *q->runtime)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "either runtime or image, not both");
    if (name)
        return choose_managed(call, name, o, err);
    o->image = q->image;
    return 0;
}

/* Snapshots. */

/* What is in a snapshot, as long as the sandbox that it is of exists. */
static int inherit(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                   struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_template_view t;
    struct atoll_vercel_box box;
    char *runtime, *image;

    q->runtime = NULL;
    if (!atoll_vercel_snapshot_find(call, q->snapshot, &t) ||
        !atoll_vercel_box_get(call->engine, t.sandbox_id, &box))
        return 0;
    runtime = strdup(atoll_fact_text(box.facts, "runtime"));
    image = strdup(atoll_fact_text(box.facts, "image"));
    atoll_vercel_box_done(&box);
    if (!runtime || !image) {
        free(runtime);
        free(image);
        return atoll_fields_no_memory(err);
    }
    atoll_body_take(body, runtime);
    atoll_body_take(body, image);
    q->runtime = *runtime ? runtime : NULL;
    q->image = *image ? image : NULL;
    return 0;
}

static int choose_snapshot(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                           struct atoll_body *body, struct atoll_options *o,
                           struct atoll_error *err)
{
    char *reference;
    int r;

    q->snapshot = json_string_value(json_object_get(q->source, "snapshotId"));
    if (!q->snapshot)
        return atoll_fields_refuse(err, "source", "snapshotId", NULL, "a string");
    if (!q->forks && q->image && *q->image)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "either a source of type snapshot or image, not both");
    r = atoll_vercel_snapshot_reference(call, q->snapshot, &reference, err);
    if (r < 0)
        return r;
    atoll_body_take(body, reference);
    o->template_name = reference;
    return q->forks ? 0 : inherit(call, q, body, err);
}

int atoll_vercel_choose_root(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                             struct atoll_body *body, struct atoll_options *o,
                             struct atoll_error *err)
{
    const char *type = json_string_value(json_object_get(q->source, "type"));

    if (q->source && !json_is_null(q->source) && !type)
        return atoll_fields_refuse(err, "", "source", q->source, "an object with a string `type`");
    if (type && strcmp(type, "snapshot") == 0)
        return choose_snapshot(call, q, body, o, err);
    if (type && strcmp(type, "git") != 0 && strcmp(type, "tarball") != 0)
        return atoll_fields_refuse(err, "source", "type", NULL, "git, tarball or snapshot");
    if (type && !json_is_string(json_object_get(q->source, "url")))
        return atoll_fields_refuse(err, "source", "url", json_object_get(q->source, "url"),
                                   "a string");
    if (q->image && *q->image)
        return choose_image(call, q, o, err);
    return choose_runtime(call, q, o, err);
}
