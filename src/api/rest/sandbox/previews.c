#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/preview.h"
#include "api/rest/rest_internal.h"
#include "engine/provider/providers.h"

struct request {
    uint32_t port;
    bool is_public;
    const char *address;
};

static const struct atoll_field fields[] = {
    {.name = "port",
     .type = ATOLL_FIELD_U32,
     .offset = offsetof(struct request, port),
     .min = 1,
     .max = 65535},
    {.name = "public", .type = ATOLL_FIELD_BOOL, .offset = offsetof(struct request, is_public)},
    {.name = "address",
     .type = ATOLL_FIELD_STRING,
     .offset = offsetof(struct request, address),
     .min = 1,
     .max = ATOLL_PREVIEW_ADDRESS_MAX - 1},
    {0},
};

/* Writes the URL at which the provider's service serves the port directly, without this daemon. */
static void view_public_url(struct atoll_json_out *out, const struct atoll_api_call *call,
                            const struct atoll_preview_view *view)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, view->sandbox_id);
    char host[ATOLL_PUBLIC_HOST_MAX], url[ATOLL_PUBLIC_HOST_MAX + 32];
    const char *port;

    if (!sandbox || !atoll_sandbox_public_host(sandbox, host) || !(port = strstr(host, "{port}")))
        return;
    (void)snprintf(url, sizeof(url), "https://%.*s%u%s", (int)(port - host), host,
                   (unsigned)view->port, port + strlen("{port}"));
    atoll_json_text(out, "public_url", url);
}

static void view_preview(struct atoll_json_out *out, const struct atoll_api_call *call,
                         const struct atoll_preview_view *view)
{
    const struct atoll_api *api = call->api;
    char url[ATOLL_PREVIEW_URL_MAX];

    atoll_json_open(out, NULL, '{');
    atoll_json_u64(out, "port", view->port);
    atoll_json_bool(out, "public", view->is_public);
    atoll_preview_url(atoll_api_site(api), view, url);
    atoll_json_text_or_null(out, "url", url);
    atoll_preview_path_url(view, url);
    atoll_json_text(out, "path_url", url);
    view_public_url(out, call, view);
    if (*view->address)
        atoll_json_text(out, "address", view->address);
    atoll_json_text(out, "token", view->token);
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_close(out, '}');
}

static struct atoll_previews *records(const struct atoll_api_call *call, struct atoll_error *err)
{
    struct atoll_previews *previews = atoll_api_previews(call->api);

    if (!previews)
        (void)atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                         "previews are disabled in this daemon");
    return previews;
}

/* An address of the host is the operator's, and connections to it need no token. */
static int may_publish(const struct atoll_api_call *call, struct atoll_error *err)
{
    if (call->caller.scope >= ATOLL_SCOPE_ADMIN)
        return 0;
    return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                      "only an admin may publish a port at an address of the host; a preview "
                      "without `address` serves HTTP to clients that have its token");
}

static int open_preview(struct atoll_api_call *call, struct atoll_previews *previews,
                        const struct request *request, struct atoll_preview_view *view,
                        struct atoll_error *err)
{
    uint16_t port = (uint16_t)request->port;
    bool existed = atoll_previews_find(previews, call->params.id, port, view);
    int r = request->address ? may_publish(call, err) : 0;
    struct atoll_error ignored;

    if (r == 0)
        r = atoll_previews_add(previews, call->params.id, port, request->is_public, view, err);
    if (r < 0 || !request->address)
        return r;
    r = atoll_preview_publish(call->api, call->params.id, port, request->address, view, err);
    if (r < 0 && !existed)
        (void)!atoll_previews_remove(previews, call->params.id, port, &ignored);
    return r;
}

void atoll_rest_preview_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request request = {0};
    struct atoll_field_set set = {fields, &request};
    struct atoll_preview_view view;
    struct atoll_body body;
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_error error;
    struct atoll_previews *previews = records(call, &error);
    int r = atoll_body_parse(&body, bytes, n, previews ? &error : NULL);

    if (!previews)
        r = -ENOSYS;
    if (r == 0)
        r = atoll_fields_decode(&body, body.root, "", &set, 1, &error);
    if (r == 0 && request.port == 0)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "port is missing: the port of a server in the sandbox");
    if (r == 0)
        r = open_preview(call, previews, &request, &view, &error);
    atoll_body_done(&body);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    view_preview(&out, call, &view);
    atoll_api_reply(call, 201, &out);
}

void atoll_rest_preview_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_previews *previews = records(call, &error);
    struct atoll_preview_view view;
    struct atoll_list_reply *list;

    if (!previews) {
        atoll_api_fail(call, &error);
        return;
    }
    list = atoll_list_reply_new(call, "previews", ']');
    for (size_t pos = 0; atoll_previews_next(previews, call->params.id, &pos, &view);)
        view_preview(&list->out, call, &view);
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_preview_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_previews *previews = records(call, &error);
    uint16_t port = (uint16_t)strtoul(call->params.port, NULL, 10);

    if (!previews || atoll_previews_remove(previews, call->params.id, port, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_preview_unpublish(call->api, call->params.id, port);
    atoll_api_reply_empty(call, 204);
}
