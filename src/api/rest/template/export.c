/*
 * Templates out of Atoll, as OCI images: pushed to a registry, or as an archive.
 */
#include "engine/template/export.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/progress.h"
#include "api/rest/file/files.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"

struct export
{
    struct atoll_api_call *call;
    struct atoll_export *export;
    bool reports; /* a push, by `progress` */
    struct atoll_progress progress;
};

struct push_body {
    const char *image;
    struct atoll_rest_login registry;
    bool has_registry, progress;
};

#define AT(member) offsetof(struct push_body, member)
static const struct atoll_field push_fields[] = {
    {"image", ATOLL_FIELD_STRING, AT(image), 1, 512, NULL, 0},
    {"registry", ATOLL_FIELD_OBJECT, AT(registry), 0, 0, atoll_rest_login_fields, AT(has_registry)},
    {"progress", ATOLL_FIELD_BOOL, AT(progress), 0, 0, NULL, 0},
    {0},
};
#undef AT

static void client_gone(struct atoll_api_call *call)
{
    struct export *x = call->state;

    atoll_template_export_drop(x->export);
    atoll_progress_drop(&x->progress);
    free(x);
    atoll_api_drop(call);
}

/* The call; NULL if it was answered with the error. */
static struct atoll_api_call *ended(struct export *x, const struct atoll_error *error)
{
    struct atoll_api_call *call = x->call;

    call->on_gone = NULL;
    atoll_progress_drop(&x->progress);
    free(x);
    if (!error)
        return call;
    atoll_api_fail(call, error);
    return NULL;
}

static void start(struct atoll_api_call *call, struct atoll_export_request *request,
                  atoll_export_fn *done)
{
    struct export *x = atoll_api_alloc(sizeof(*x));
    char reference[ATOLL_REST_TEMPLATE_MAX];
    struct atoll_export *export;

    atoll_rest_template_reference(call, reference);
    request->template = reference;
    request->tenant = call->caller.tenant;
    x->call = call;
    x->reports = request->progress != NULL;
    atoll_progress_init(&x->progress, call);
    call->state = x;
    call->on_gone = client_gone;
    export = atoll_template_export(call->engine, request, done, x);
    if (export) /* else it has ended already */
        x->export = export;
}

/* A registry. */

static void write_pushed(struct atoll_json_out *out, const struct atoll_exported *made)
{
    atoll_json_text(out, "reference", made->reference);
    atoll_json_text(out, "digest", made->digest);
    atoll_json_u64(out, "size_bytes", made->size_bytes);
}

static void on_progress(void *arg, const char *text)
{
    struct export *x = arg;

    atoll_progress_say(&x->progress, text);
}

static void end_lines(struct export *x, const struct atoll_exported *made,
                      const struct atoll_error *error)
{
    struct atoll_json_out out = atoll_progress_line(&x->progress);

    if (!error)
        write_pushed(&out, made);
    atoll_progress_end(&x->progress, &out, error);
    free(x);
}

static void pushed(void *arg, const struct atoll_exported *made, const struct atoll_error *error)
{
    struct export *x = arg;
    struct atoll_api_call *call;
    struct atoll_json_out out;
    struct atoll_buf buf;

    if (x->reports) {
        end_lines(x, made, error);
        return;
    }
    call = ended(x, error);
    if (!call)
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    write_pushed(&out, made);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static int read_push(struct atoll_body *body, const uint8_t *bytes, size_t n,
                     struct atoll_export_request *ret, struct atoll_error *err)
{
    struct push_body fields = {0};
    int r = atoll_body_decode(body, bytes, n, push_fields, &fields, err);

    if (r == 0 && !fields.image)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "image is missing: the name to push to, such as ghcr.io/me/app:1");
    if (r == 0 && fields.has_registry)
        r = atoll_rest_login_check(&fields.registry, body, &ret->login, err);
    ret->image = fields.image;
    ret->progress = fields.progress ? on_progress : NULL;
    return r;
}

void atoll_rest_template_push(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_export_request request = {0};
    struct atoll_body body = {0};
    struct atoll_error error;

    if (read_push(&body, bytes, n, &request, &error) < 0)
        atoll_api_fail(call, &error);
    else
        start(call, &request, pushed);
    atoll_body_done(&body);
}

/* An archive. */

static void saved(void *arg, const struct atoll_exported *made, const struct atoll_error *error)
{
    struct atoll_api_call *call = ended(arg, error);

    if (call)
        atoll_rest_file_send_fd(call, made->fd, made->archive_bytes, "image.tar");
}

void atoll_rest_template_archive(struct atoll_api_call *call, const uint8_t *bytes ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    start(call, &(struct atoll_export_request){0}, saved);
}
