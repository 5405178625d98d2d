/*
 * One session: get, stop, extend.
 */
#include <stdio.h>
#include <string.h>
#include "api/repeats.h"
#include "api/vercel/control_stop.h"
#include "base/clock.h"
#include "engine/json_memory.h"
#include "engine/sandbox/ended.h"

static int64_t number_of(const struct atoll_api_call *call)
{
    char id[ATOLL_ID_LEN + 1];
    int64_t number = 1;

    (void)atoll_vercel_sid_read(call->params.name, id, &number);
    return number;
}

/* A session of a sandbox that was destroyed. */

struct ended {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out;
};

static int view_ended(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    struct ended *e = arg;
    json_t *facts = atoll_json_load_own(row->facade_json);
    const char *runtime = atoll_fact_text(facts, "runtime");

    (void)err;
    atoll_json_open(&e->out, NULL, '{');
    atoll_json_open(&e->out, atoll_vercel_is_v1(e->call) ? "sandbox" : "session", '{');
    atoll_json_text(&e->out, "id", e->call->params.name);
    atoll_json_text(&e->out, "status",
                    strcmp(row->end, ATOLL_ENDED_FAILED) == 0 ? "failed" : "stopped");
    atoll_json_u64(&e->out, "memory", row->limits.memory_bytes >> 20);
    atoll_json_u64(&e->out, "vcpus", (row->limits.cpu_millis + 999) / 1000);
    atoll_json_text(&e->out, "region", ATOLL_VERCEL_REGION);
    /* Clients before 3.0 need one. */
    atoll_json_text(&e->out, "runtime", *runtime ? runtime : ATOLL_VERCEL_RUNTIME);
    atoll_json_u64(&e->out, "timeout", (uint64_t)row->limits.timeout_s * 1000);
    atoll_json_i64(&e->out, "requestedAt", row->created_unix_ms);
    atoll_json_i64(&e->out, "createdAt", row->created_unix_ms);
    atoll_json_i64(&e->out, "startedAt", row->created_unix_ms);
    atoll_json_i64(&e->out, "updatedAt", row->ended_unix_ms);
    atoll_json_i64(&e->out, "stoppedAt", row->ended_unix_ms);
    atoll_json_i64(&e->out, "duration", row->ended_unix_ms - row->created_unix_ms);
    atoll_json_text(&e->out, "cwd", ATOLL_VERCEL_CWD);
    atoll_json_close(&e->out, '}');
    atoll_vercel_view_routes(&e->out, e->call->api, row->id, json_object_get(facts, "ports"));
    atoll_json_close(&e->out, '}');
    json_decref(facts);
    return 0;
}

static void reply_ended(struct atoll_api_call *call)
{
    struct ended e = {.call = call};
    struct atoll_error error;
    int r;

    atoll_api_reply_init(&e.buf, &e.out);
    r = atoll_ended_find(call->engine, call->params.id, view_ended, &e, &error);
    if (r == 1) {
        atoll_api_reply(call, 200, &e.out);
        return;
    }
    atoll_buf_done(&e.buf);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_vercel_refuse_missing(call, "Session", call->params.name);
}

/* Whether the sandbox had that run. */
static bool exists(const struct atoll_api_call *call, int64_t number)
{
    struct atoll_vercel_box box;
    bool found;

    if (!atoll_vercel_box_get(call->engine, call->params.id, &box))
        return false;
    found = number <= atoll_vercel_session_number(box.facts);
    atoll_vercel_box_done(&box);
    return found;
}

void atoll_vercel_session_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    int64_t number = number_of(call);

    if (call->ended)
        reply_ended(call);
    else if (!exists(call, number))
        atoll_vercel_refuse_missing(call, "Session", call->params.name);
    else
        atoll_vercel_reply_session(call, call->params.id, number);
}

void atoll_vercel_session_stop(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    int64_t number = number_of(call);
    struct atoll_vercel_box box;
    bool over;

    if (call->ended || !atoll_vercel_box_get(call->engine, call->params.id, &box)) {
        reply_ended(call);
        return;
    }
    over = number < atoll_vercel_session_number(box.facts) ||
           box.view.state == ATOLL_SANDBOX_STOPPED || box.view.state == ATOLL_SANDBOX_STOPPING;
    atoll_vercel_box_done(&box);
    if (!exists(call, number))
        atoll_vercel_refuse_missing(call, "Session", call->params.name);
    else if (over)
        atoll_vercel_reply_session(call, call->params.id, number); /* repeated, or too late */
    else
        atoll_vercel_stop(call, number);
}

/* Extending. */

struct request {
    const json_t *duration;
};
static const struct atoll_field fields[] = {
    {"duration", ATOLL_FIELD_JSON, offsetof(struct request, duration), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

int atoll_vercel_extend(struct atoll_engine *engine, const char *id, int64_t more_ms,
                        struct atoll_error *err)
{
    struct atoll_vercel_box box;
    int64_t now = atoll_clock_unix_ms(), left, timeout;
    json_t *record;
    int r;

    if (!atoll_vercel_box_get(engine, id, &box))
        return atoll_vercel_missing("Sandbox", id, err);
    record = atoll_vercel_session_record(box.facts, atoll_vercel_session_number(box.facts));
    timeout = atoll_fact_number(record, "timeout", ATOLL_VERCEL_TIMEOUT_MS) + more_ms;
    left = (box.view.expires_unix_ms ? box.view.expires_unix_ms - now : 0) + more_ms;
    if (timeout > ATOLL_VERCEL_TIMEOUT_MAX_MS || left < 1) {
        atoll_vercel_box_done(&box);
        return atoll_fail(err, ATOLL_ERR_OUT_OF_RANGE, ERANGE,
                          "The timeout of the session would be longer than 24 hours");
    }
    if (record)
        (void)json_object_set_new(record, "timeout", json_integer(timeout));
    r = atoll_vercel_facts_store(engine, id, box.facts, err);
    if (r == 0)
        r = atoll_engine_set_timeout(engine, id, (uint32_t)((left + 999) / 1000), err);
    atoll_vercel_box_done(&box);
    return r;
}

void atoll_vercel_session_extend(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int64_t more = 0;
    int r;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    r = atoll_body_decode(&body, bytes, n, fields, &q, &error);
    if (r == 0 && !json_is_number(q.duration))
        r = atoll_fields_refuse(&error, "", "duration", q.duration, "a number of milliseconds");
    if (r == 0 && atoll_vercel_timeout_check(q.duration, "duration", &more, &error) < 0)
        error.kind = ATOLL_ERR_OUT_OF_RANGE, r = -1;
    if (r == 0)
        r = atoll_vercel_extend(call->engine, call->params.id, more, &error);
    atoll_body_done(&body);
    if (r < 0 && error.kind == ATOLL_ERR_OUT_OF_RANGE)
        atoll_vercel_refuse(call, 400, "sandbox_timeout_invalid", "%s", error.text);
    else if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_vercel_reply_session(call, call->params.id, number_of(call));
}
