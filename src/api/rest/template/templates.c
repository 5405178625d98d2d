#include <errno.h>
#include <stdio.h>
#include "api/kit/body_pump.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

static bool sees(const struct atoll_api_call *call, const struct atoll_template_view *view)
{
    return atoll_api_sees(call, view->owner) || atoll_template_may_use(view, call->caller.tenant);
}

void atoll_rest_template_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_template_view view;
    struct atoll_list_reply *list = atoll_list_reply_new(call, "templates", ']');
    size_t pos = 0;

    while (atoll_templates_next(call->engine, &pos, &view))
        if (sees(call, &view))
            atoll_view_template(&list->out, NULL, &view);
    atoll_list_reply_done(list, NULL);
}

/* Import: the archive is passed on at the speed at which it is unpacked. */

void atoll_rest_template_made(void *arg, const struct atoll_template_view *view,
                              const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    atoll_view_template(&out, NULL, view);
    atoll_api_reply(call, 201, &out);
}

static void write_archive(void *target, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                          void *done_arg)
{
    atoll_import_write(target, bytes, n, done, done_arg);
}

static void drop_archive(void *target)
{
    atoll_import_drop(target);
}

static void finish_archive(void *target, struct atoll_api_call *call)
{
    atoll_import_finish(target, atoll_rest_template_made, call);
}

static void import_ready(void *arg, struct atoll_import *import, const struct atoll_error *error)
{
    static const struct atoll_body_sink sink = {write_archive, drop_archive, finish_archive};

    atoll_body_pump_into(arg, &sink, import, error);
}

void atoll_rest_template_import(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    atoll_templates_import(call->engine, call->params.template, import_ready, call);
}
