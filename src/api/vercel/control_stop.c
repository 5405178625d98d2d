/*
 * Ending a run. The disk of a sandbox of /v2 stays and is what the next run starts with; the snapshot is
 * a copy of it for other sandboxes. A sandbox of /v1 ends with its only run.
 */
#include "api/vercel/control_stop.h"
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/vercel/snapshots.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/state/state.h"
#include "loop/steps.h"

struct stopping {
    struct atoll_steps steps;
    struct atoll_api_call *call;
    char id[ATOLL_ID_LEN + 1];
    int64_t number, expires_unix_ms;
    bool v1;                                   /* form of the answer */
    bool destroys;                             /* it has no disk that could stay */
    bool wanted, automatic;                    /* a snapshot */
    char parent[ATOLL_VERCEL_SNAPSHOT_ID_MAX]; /* the snapshot that it had before, or "" */
    struct atoll_vercel_retention retention;
    struct atoll_vercel_snapshot snapshot;
    bool made;
    struct atoll_error failure; /* of the snapshot */
    struct atoll_buf buf;       /* destroys: the answer, written before the sandbox is gone */
    struct atoll_json_out out;
};

static int note_request(const struct stopping *s, struct atoll_error *err)
{
    struct atoll_vercel_box box;
    json_t *record;
    int r = 0;

    if (!atoll_vercel_box_get(s->call->engine, s->id, &box))
        return 0;
    record = atoll_vercel_session_record(box.facts, s->number);
    if (record) {
        (void)json_object_set_new(record, "requestedStopAt", json_integer(atoll_clock_unix_ms()));
        r = atoll_vercel_facts_store(s->call->engine, s->id, box.facts, err);
    }
    atoll_vercel_box_done(&box);
    return r;
}

/* The snapshot. */

/* The disk is there: a stop succeeds without the snapshot that comes with it. */
static void written(void *arg, const struct atoll_error *error)
{
    struct stopping *s = arg;

    if (!error && !s->automatic)
        error = &s->failure;
    atoll_steps_done(&s->steps, error);
}

/* The snapshot would have written the disk. */
static void write_disk(struct stopping *s, const struct atoll_error *error)
{
    s->failure = *error;
    if (s->automatic)
        atoll_log(ATOLL_LOG_WARN, "no snapshot at the stop", "sandbox", s->id, "error",
                  s->failure.text, NULL);
    if (s->destroys)
        written(s, NULL);
    else
        atoll_engine_stop(s->call->engine, s->id, ATOLL_VERCEL_WHO, ATOLL_STOP_WRITTEN, written, s);
}

static void snapshotted(void *arg, const struct atoll_template_view *view,
                        const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                        const struct atoll_error *error)
{
    struct stopping *s = arg;
    struct atoll_error failure;

    if (error) {
        write_disk(s, error);
        return;
    }
    atoll_vercel_snapshot_of(view, &s->snapshot);
    s->made = true;
    if (atoll_vercel_note_snapshot(s->call->engine, s->id, s->number, s->snapshot.id, &failure) < 0)
        error = &failure;
    else
        atoll_vercel_snapshots_trim(s->call->engine, s->id, &s->retention);
    atoll_steps_done(&s->steps, error);
}

static void take_snapshot(void *arg)
{
    struct stopping *s = arg;
    const struct atoll_vercel_snapshot_tag tag = {s->number, s->expires_unix_ms, s->automatic};
    char name[ATOLL_VERCEL_SNAPSHOT_NAME_MAX];

    if (!s->wanted) {
        atoll_steps_done(&s->steps, NULL);
        return;
    }
    atoll_vercel_snapshot_name(s->id, &tag, s->parent, name);
    atoll_engine_snapshot(s->call->engine, s->id, name, snapshotted, s);
}

/* The end. */

static void view_last(struct stopping *s)
{
    struct atoll_vercel_box box;

    if (!atoll_vercel_box_get(s->call->engine, s->id, &box))
        return;
    box.view.state = ATOLL_SANDBOX_STOPPED;
    box.view.paused_unix_ms = atoll_clock_unix_ms();
    atoll_json_open(&s->out, NULL, '{');
    atoll_vercel_view_session(&s->out, s->v1 ? "sandbox" : "session", &box, s->number);
    if (s->made)
        atoll_vercel_view_snapshot(&s->out, "snapshot", &s->snapshot, s->v1);
    atoll_json_close(&s->out, '}');
    atoll_vercel_box_done(&box);
}

static void end_run(void *arg)
{
    struct stopping *s = arg;
    struct atoll_error error;

    if (note_request(s, &error) < 0) {
        atoll_steps_done(&s->steps, &error);
    } else if (s->destroys) {
        view_last(s);
        atoll_engine_destroy(s->call->engine, s->id, ATOLL_VERCEL_WHO, atoll_steps_done, &s->steps);
    } else {
        /* The snapshot writes the disk. If there is none, the next run does not use what it has. */
        atoll_engine_stop(s->call->engine, s->id, ATOLL_VERCEL_WHO, ATOLL_STOP_UNWRITTEN,
                          atoll_steps_done, &s->steps);
    }
}

static const struct atoll_step stop_steps[] = {
    {"stopping the sandbox", end_run, NULL},
    {"taking the snapshot", take_snapshot, NULL},
};
static const struct atoll_step destroy_steps[] = {
    {"taking the snapshot", take_snapshot, NULL},
    {"stopping the sandbox", end_run, NULL},
};

static void reply(struct stopping *s)
{
    struct atoll_vercel_box box;

    if (!atoll_vercel_box_get(s->call->engine, s->id, &box)) {
        atoll_buf_done(&s->buf);
        atoll_vercel_refuse_missing(s->call, "Sandbox", s->id);
        return;
    }
    atoll_json_open(&s->out, NULL, '{');
    atoll_vercel_view_session(&s->out, s->v1 ? "sandbox" : "session", &box, s->number);
    if (!s->v1)
        atoll_vercel_view_sandbox(&s->out, "sandbox", &box);
    if (s->made)
        atoll_vercel_view_snapshot(&s->out, "snapshot", &s->snapshot, s->v1);
    atoll_json_close(&s->out, '}');
    atoll_vercel_box_done(&box);
    atoll_api_reply(s->call, 200, &s->out);
}

static void done(void *arg, const struct atoll_error *error)
{
    struct stopping *s = arg;

    if (error) {
        atoll_buf_done(&s->buf);
        atoll_api_fail(s->call, error);
    } else if (s->destroys) {
        atoll_api_reply(s->call, 200, &s->out);
    } else {
        reply(s);
    }
    free(s);
}

static void start(struct atoll_api_call *call, int64_t number, bool asked, int64_t expires_unix_ms)
{
    struct stopping *s = atoll_api_alloc(sizeof(*s));
    struct atoll_vercel_box box;
    bool destroys = false, persistent = false;
    int64_t keep = 0;

    s->retention.count = 1;
    if (atoll_vercel_box_get(call->engine, call->params.id, &box)) {
        keep = atoll_vercel_retention_read(box.facts, &s->retention);
        (void)snprintf(s->parent, sizeof(s->parent), "%.63s",
                       atoll_fact_text(box.facts, "currentSnapshotId"));
        destroys = !box.view.options.lifetime.persistent;
        persistent = atoll_fact_flag(box.facts, "persistent");
        atoll_vercel_box_done(&box);
    }
    s->call = call;
    s->number = number;
    s->v1 = atoll_vercel_is_v1(call);
    s->destroys = destroys;
    s->wanted = asked || persistent;
    s->automatic = !asked;
    s->expires_unix_ms = asked ? expires_unix_ms : atoll_vercel_snapshot_expiry((double)keep);
    (void)snprintf(s->id, sizeof(s->id), "%.26s", call->params.id);
    atoll_api_reply_init(&s->buf, &s->out);
    s->steps = (struct atoll_steps){.steps = destroys ? destroy_steps : stop_steps,
                                    .count = ATOLL_ARRAY_LEN(stop_steps),
                                    .arg = s,
                                    .done = done};
    atoll_steps_start(&s->steps);
}

void atoll_vercel_stop(struct atoll_api_call *call, int64_t number)
{
    start(call, number, false, 0);
}

void atoll_vercel_stop_with_snapshot(struct atoll_api_call *call, int64_t number,
                                     int64_t expires_unix_ms)
{
    start(call, number, true, expires_unix_ms);
}
