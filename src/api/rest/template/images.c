/*
 * Images of registries, which are templates with the name of the image.
 *
 * POST /api/images/pull reports its progress (kit/progress.h); the last line has the image.
 */
#include <errno.h>
#include <string.h>
#include "api/kit/body_pump.h"
#include "api/kit/list_reply.h"
#include "api/kit/progress.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "engine/template/archive.h"
#include "engine/template/pull.h"

static void write_image(struct atoll_json_out *out, const char *key,
                        const struct atoll_template_view *v, const char *reference,
                        const char *tags)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "name", v->name);
    if (tags) {
        atoll_json_open(out, "tags", '[');
        for (const char *at = tags; *at;) {
            size_t n = strcspn(at, " ");
            char tag[ATOLL_TEMPLATE_TAG_MAX + 1];

            (void)snprintf(tag, sizeof(tag), "%.*s", (int)n, at);
            atoll_json_text(out, NULL, tag);
            at += n + strspn(at + n, " ");
        }
        atoll_json_close(out, ']');
    }
    atoll_json_text(out, "digest", v->digest);
    atoll_json_text(out, "reference", reference);
    atoll_json_text(out, "tenant", v->owner);
    atoll_json_u64(out, "size_bytes", v->size_bytes);
    atoll_json_time(out, "created_at", v->created_unix_ms);
    atoll_json_raw(out, "config", *v->config_json ? v->config_json : "{}");
    atoll_json_close(out, '}');
}

/* The list. */

static void write_version(void *arg, const struct atoll_template_view *version, const char *tags)
{
    struct atoll_list_reply *list = arg;

    if (strcmp(version->source, "image") == 0)
        write_image(&list->out, NULL, version, version->definition, tags);
}

void atoll_rest_image_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_list_reply *list = atoll_list_reply_new(call, "images", ']');
    struct atoll_template_view view;
    size_t pos = 0;

    while (atoll_templates_next(call->engine, &pos, &view))
        if (strcmp(view.source, "image") == 0 && atoll_api_sees(call, view.owner))
            atoll_template_each_version(call->engine, view.owner, view.name, write_version, list);
    atoll_list_reply_done(list, NULL);
}

/* Archives: passed on at the speed at which they are written. */

static void archive_imported(void *arg, const struct atoll_template_view *view,
                             const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    write_image(&out, NULL, view, view->definition, NULL);
    atoll_api_reply(call, 201, &out);
}

static void write_archive(void *target, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                          void *done_arg)
{
    atoll_image_archive_write(target, bytes, n, done, done_arg);
}

static void drop_archive(void *target)
{
    atoll_image_archive_drop(target);
}

static void finish_archive(void *target, struct atoll_api_call *call)
{
    atoll_image_archive_finish(target, archive_imported, call);
}

void atoll_rest_image_load(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    static const struct atoll_body_sink sink = {write_archive, drop_archive, finish_archive};
    const char *name = atoll_http_query(call->req, "name");
    struct atoll_image_archive *archive = NULL;
    struct atoll_error error;
    int r = atoll_image_archive_open(call->engine, call->caller.tenant, name, &archive, &error);

    atoll_body_pump_into(call, &sink, archive, r < 0 ? &error : NULL);
}

/* Pulls. */

struct image_pull {
    struct atoll_progress progress;
    struct atoll_pull_waiter *waiter;
    char reference[ATOLL_IMAGE_NAME_MAX]; /* what is pulled */
};

struct pull_body {
    const char *image;
    struct atoll_rest_login registry;
    bool has_registry;
};

#define AT(member) offsetof(struct pull_body, member)
static const struct atoll_field pull_fields[] = {
    {"image", ATOLL_FIELD_STRING, AT(image), 1, 512, NULL, 0},
    {"registry", ATOLL_FIELD_OBJECT, AT(registry), 0, 0, atoll_rest_login_fields, AT(has_registry)},
    {0},
};
#undef AT

static void client_gone(struct atoll_api_call *call)
{
    struct image_pull *p = call->state;

    atoll_image_pull_leave(p->waiter);
    atoll_progress_drop(&p->progress);
    free(p);
    atoll_api_drop(call);
}

static void on_progress(void *arg, const char *text)
{
    struct image_pull *p = arg;

    atoll_progress_say(&p->progress, text);
}

static void on_pulled(void *arg, const struct atoll_template_view *view,
                      const struct atoll_error *error)
{
    struct image_pull *p = arg;
    struct atoll_json_out out = atoll_progress_line(&p->progress);

    p->waiter = NULL;
    if (!error)
        write_image(&out, "image", view, p->reference, NULL);
    atoll_progress_end(&p->progress, &out, error);
    free(p);
}

static int read_pull(struct atoll_body *body, const uint8_t *bytes, size_t n,
                     struct atoll_pull_request *ret, struct atoll_error *err)
{
    struct pull_body fields = {0};
    const struct atoll_field_set set = {pull_fields, &fields};
    int r = atoll_body_parse(body, bytes, n, err);

    if (r == 0)
        r = atoll_fields_decode(body, body->root, "", &set, 1, err);
    if (r == 0 && !fields.image)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "image is missing: the name of an image, such as debian:12");
    if (r == 0 && fields.has_registry)
        r = atoll_rest_login_check(&fields.registry, body, &ret->login, err);
    ret->image = fields.image;
    return r;
}

void atoll_rest_image_pull(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_pull_request request = {.tenant = call->caller.tenant, .progress = on_progress};
    struct atoll_pull_waiter *waiter;
    struct atoll_body body = {0};
    struct atoll_error error;
    struct image_pull *p;

    if (read_pull(&body, bytes, n, &request, &error) < 0) {
        atoll_body_done(&body);
        atoll_api_fail(call, &error);
        return;
    }
    p = atoll_api_alloc(sizeof(*p));
    atoll_progress_init(&p->progress, call);
    call->state = p;
    call->on_gone = client_gone;
    request.progress_arg = p;
    if (atoll_image_template(request.image, p->reference, &error) < 0)
        p->reference[0] = '\0'; /* the pull says why */
    waiter = atoll_image_pull(call->engine, &request, on_pulled, p);
    if (waiter) /* else it has ended already */
        p->waiter = waiter;
    atoll_body_done(&body);
}
