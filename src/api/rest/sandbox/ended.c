#include "api/rest/sandbox/ended.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/paging.h"
#include "api/rest/views.h"
#include "engine/provider/providers.h"

/* How it ended; call it inside an open object. */
static void view_end(struct atoll_json_out *out, const struct atoll_store_ended *row)
{
    atoll_json_text(out, "state", ATOLL_REST_STATE_ENDED);
    if (*row->cause)
        atoll_json_text(out, "cause", row->cause);
    atoll_json_text(out, "end", row->end);
    atoll_json_text(out, "ended_by", row->ended_by);
    atoll_json_time(out, "created_at", row->created_unix_ms);
    atoll_json_time(out, "ended_at", row->ended_unix_ms);
    atoll_json_bool(out, "persistent", row->persistent);
    atoll_json_raw(out, "metadata",
                   row->metadata_json && *row->metadata_json ? row->metadata_json : "{}");
}

void atoll_rest_ended_view(struct atoll_json_out *out, const char *key,
                           const struct atoll_store_ended *row)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", row->id);
    if (row->name)
        atoll_json_text(out, "name", row->name);
    view_end(out, row);
    atoll_json_text(out, "provider", row->provider);
    if (*row->image)
        atoll_json_text(out, "image", row->image);
    atoll_json_text(out, "template", row->template_name);
    if (*row->session_id) {
        atoll_json_text(out, "session_id", row->session_id);
        atoll_json_text(out, "environment", row->environment);
    }
    atoll_view_limits(out, "limits", &row->limits, true);
    atoll_view_waived(out, row->waived);
    atoll_json_text(out, "networkMode", atoll_network_name(row->network));
    atoll_json_double(out, "boot_ms", (double)row->boot_us / 1000, 6);
    atoll_json_text(out, "tenant", row->owner);
    atoll_json_close(out, '}');
}

static void view_session(struct atoll_json_out *out, const struct atoll_store_ended *row)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "session_id", row->session_id);
    atoll_json_text(out, "sandbox_id", row->id);
    atoll_json_text(out, "environment", row->environment);
    atoll_json_text(out, "provider", row->provider);
    view_end(out, row);
    if (row->agent_config)
        atoll_json_raw(out, "agent_config", row->agent_config);
    atoll_rest_ended_view(out, "sandbox", row);
    atoll_json_close(out, '}');
}

/* A reply that is being written. */
struct reply {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out;
    bool as_session;
    struct atoll_page page; /* of the list of commands */
    uint64_t shown;
    bool more;
    int64_t last_unix_ms;
    char last_id[33];
};

static void begin(struct reply *reply, struct atoll_api_call *call)
{
    reply->call = call;
    atoll_api_reply_init(&reply->buf, &reply->out);
}

static void finish(struct reply *reply, const struct atoll_error *error)
{
    if (error) {
        atoll_buf_done(&reply->buf);
        atoll_api_fail(reply->call, error);
    } else {
        atoll_api_reply(reply->call, 200, &reply->out);
    }
}

static int show_record(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    struct reply *reply = arg;

    (void)err;
    if (reply->as_session)
        view_session(&reply->out, row);
    else
        atoll_rest_ended_view(&reply->out, NULL, row);
    return 0;
}

static void reply_record(struct atoll_api_call *call, bool as_session)
{
    struct reply reply = {.as_session = as_session};
    struct atoll_error error;
    int r;

    begin(&reply, call);
    r = atoll_ended_find(call->engine, call->params.id, show_record, &reply, &error);
    if (r == 0)
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s does not exist",
                       call->params.id);
    finish(&reply, r < 0 ? &error : NULL);
}

void atoll_rest_ended_get(struct atoll_api_call *call)
{
    reply_record(call, false);
}

void atoll_rest_ended_session(struct atoll_api_call *call)
{
    reply_record(call, true);
}

/* Commands. */

static void show_exec(void *arg, const struct atoll_exec_view *view)
{
    struct reply *reply = arg;

    if (!atoll_page_has(&reply->page, view->started_unix_ms, view->id))
        return;
    reply->more = reply->page.limit && reply->shown == reply->page.limit;
    if (reply->more)
        return;
    atoll_view_exec_of(&reply->out, NULL, view);
    reply->shown++;
    reply->last_unix_ms = view->started_unix_ms;
    (void)snprintf(reply->last_id, sizeof(reply->last_id), "%s", view->id);
}

void atoll_rest_ended_execs(struct atoll_api_call *call)
{
    struct reply reply = {0};
    struct atoll_error error;

    if (atoll_page_take(call, &reply.page, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    begin(&reply, call);
    atoll_json_open(&reply.out, NULL, '{');
    atoll_json_open(&reply.out, "execs", '[');
    if (atoll_ended_execs(call->engine, call->params.id, show_exec, &reply, &error) < 0) {
        finish(&reply, &error);
        return;
    }
    atoll_json_close(&reply.out, ']');
    if (reply.more)
        atoll_page_write(&reply.out, reply.last_unix_ms, reply.last_id);
    atoll_json_close(&reply.out, '}');
    finish(&reply, NULL);
}

static void show_if_asked(void *arg, const struct atoll_exec_view *view)
{
    struct reply *reply = arg;

    if (strcmp(view->id, reply->call->params.exec) != 0)
        return;
    atoll_view_exec_of(&reply->out, NULL, view);
    reply->shown++;
}

void atoll_rest_ended_exec(struct atoll_api_call *call)
{
    struct reply reply = {0};
    struct atoll_error error;
    int r;

    begin(&reply, call);
    r = atoll_ended_execs(call->engine, call->params.id, show_if_asked, &reply, &error);
    if (r == 0 && reply.shown == 0)
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "no command %s of sandbox %s is kept",
                       call->params.exec, call->params.id);
    finish(&reply, r < 0 ? &error : NULL);
}
