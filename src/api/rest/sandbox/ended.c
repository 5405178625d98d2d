#include "api/rest/sandbox/ended.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
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

void atoll_rest_ended_session_view(struct atoll_json_out *out, const struct atoll_store_ended *row)
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
    struct atoll_page_out page; /* of the list of commands */
    bool found;
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
        atoll_rest_ended_session_view(&reply->out, row);
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
        r = atoll_engine_no_sandbox(call->params.id, &error);
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

/* Lists. The position of a cursor is the number of the record. */

#define LIST_STEP 500 /* records examined per page, so that a page may be short */

static int list_one(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    struct atoll_rest_ended_list *l = arg;

    (void)err;
    l->page.shown++;
    l->page.last_unix_ms = row->number;
    (void)snprintf(l->page.last_id, sizeof(l->page.last_id), "%s", row->id);
    l->show(l->arg, row);
    return 0;
}

int atoll_rest_ended_list(struct atoll_api_call *call, struct atoll_rest_ended_list *l,
                          struct atoll_error *err)
{
    const struct atoll_page *page = &l->page.page;
    const uint64_t most = page->limit ? ATOLL_MIN(page->limit, (uint64_t)LIST_STEP) : LIST_STEP;
    int r =
        atoll_ended_each(call->engine, atoll_api_list_tenant(call),
                         page->has_cursor ? page->after_ms : 0, (uint32_t)most, list_one, l, err);

    l->page.more = l->page.shown == most;
    return r;
}

int atoll_rest_state_take(const struct atoll_api_call *call, const char **ret,
                          struct atoll_error *err)
{
    const char *state = atoll_http_query(call->req, "state");
    bool known = !state || strcmp(state, ATOLL_REST_STATE_ENDED) == 0;

    for (int i = ATOLL_SANDBOX_CREATING; i < ATOLL_SANDBOX_STATES; i++)
        known = known || strcmp(state, atoll_sandbox_state_name((enum atoll_sandbox_state)i)) == 0;
    *ret = state;
    return known ? 0
                 : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "?state= must be creating, running, stopping, failed, paused, "
                              "stopped, unreachable or ended (got \"%.48s\")",
                              state);
}

/* Commands. */

static void show_exec(void *arg, const struct atoll_exec_view *view)
{
    struct reply *reply = arg;

    if (atoll_page_admit(&reply->page, view->started_unix_ms, view->id))
        atoll_view_exec_of(&reply->out, NULL, view);
}

void atoll_rest_ended_execs(struct atoll_api_call *call)
{
    struct reply reply = {0};
    struct atoll_error error;

    if (atoll_page_take(call, &reply.page.page, &error) < 0) {
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
    atoll_page_end(&reply.page, &reply.out);
    atoll_json_close(&reply.out, '}');
    finish(&reply, NULL);
}

static void show_if_asked(void *arg, const struct atoll_exec_view *view)
{
    struct reply *reply = arg;

    if (strcmp(view->id, reply->call->params.exec) != 0)
        return;
    atoll_view_exec_of(&reply->out, NULL, view);
    reply->found = true;
}

void atoll_rest_ended_exec(struct atoll_api_call *call)
{
    struct reply reply = {0};
    struct atoll_error error;
    int r;

    begin(&reply, call);
    r = atoll_ended_execs(call->engine, call->params.id, show_if_asked, &reply, &error);
    if (r == 0 && !reply.found)
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "no command %s of sandbox %s is kept",
                       call->params.exec, call->params.id);
    finish(&reply, r < 0 ? &error : NULL);
}
