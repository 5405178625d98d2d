/*
 * The disk that a sandbox keeps between its runs, and the snapshots that copy it. A stop by a client copies
 * it; a run that ended in another way, as by its timeout, left files that no snapshot has.
 */
#include <stdio.h>
#include "api/api_internal.h"
#include "api/vercel/snapshots.h"
#include "base/clock.h"
#include "engine/state/state.h"

/* Clients may write milliseconds as 1e6. */
static int64_t milliseconds(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(object, name);
    double ms = json_number_value(value);

    return !json_is_number(value) ? otherwise : ms >= (double)INT64_MAX ? INT64_MAX : (int64_t)ms;
}

int64_t atoll_vercel_retention_read(const json_t *facts, struct atoll_vercel_retention *ret)
{
    const json_t *last = json_object_get(facts, "keepLastSnapshots");

    ret->count = (size_t)ATOLL_MAX(atoll_fact_number(last, "count", 1), INT64_C(1));
    ret->evicted_stay = json_is_false(json_object_get(last, "deleteEvicted"));
    ret->evicted_ms = milliseconds(facts, "snapshotExpiration", 0);
    return milliseconds(last, "expiration", ret->evicted_ms);
}

/* Whether a run ended after the snapshot of its end, or without one. */
static bool outran(const json_t *record, int64_t ended_unix_ms)
{
    int64_t snapshotted = atoll_fact_number(record, "snapshottedAt", 0);

    return record && (snapshotted == 0 || ended_unix_ms > snapshotted);
}

/* Whether the current run has ended, or has been interrupted. */
static bool rests(const struct atoll_sandbox_view *v)
{
    return v->state == ATOLL_SANDBOX_STOPPED || v->state == ATOLL_SANDBOX_STOPPING ||
           v->state == ATOLL_SANDBOX_PAUSED || v->state == ATOLL_SANDBOX_FAILED;
}

bool atoll_vercel_disk_is_newer(const struct atoll_vercel_box *box)
{
    int64_t number = atoll_vercel_session_number(box->facts);
    const json_t *record = atoll_vercel_session_record(box->facts, number);

    if (!atoll_fact_flag(box->facts, "persistent") || atoll_fact_flag(box->facts, "restore"))
        return false;
    if (rests(&box->view))
        return outran(record, box->view.paused_unix_ms);
    if (atoll_fact_flag(record, "restored"))
        return false;
    record = atoll_vercel_session_record(box->facts, number - 1);
    return outran(record, atoll_fact_number(record, "stoppedAt", 0));
}

int atoll_vercel_note_snapshot(struct atoll_engine *engine, const char *id, int64_t number,
                               const char *snapshot, struct atoll_error *err)
{
    struct atoll_vercel_box box;
    json_t *record;
    int r = 0;

    if (!atoll_vercel_box_get(engine, id, &box))
        return 0;
    record = atoll_vercel_session_record(box.facts, number);
    if (record) {
        (void)json_object_set_new(record, "snapshottedAt", json_integer(atoll_clock_unix_ms()));
        (void)json_object_set_new(box.facts, "currentSnapshotId", json_string(snapshot));
        r = atoll_vercel_facts_store(engine, id, box.facts, err);
    }
    atoll_vercel_box_done(&box);
    return r;
}

/* Copying the disk. */

#define LOOK_MS 50
#define LOOKS_MAX 1200 /* a minute */

struct copying {
    struct atoll_engine *engine;
    struct atoll_loop *loop;
    char id[ATOLL_ID_LEN + 1];
    int64_t number;
    struct atoll_timer timer;
    unsigned looks; /* while a snapshot, or a stop, was in progress */
    atoll_done_fn *done;
    void *arg;
};

static void end(struct copying *c, const struct atoll_error *error)
{
    c->done(c->arg, error);
    free(c);
}

/* While a sandbox runs, the snapshot counts as that of the run before. */
static int64_t number_of_end(const struct atoll_vercel_box *box)
{
    int64_t number = atoll_vercel_session_number(box->facts);

    return rests(&box->view) ? number : number - 1;
}

static void copy(void *arg);

/* False: for too long. */
static bool look_again(struct copying *c)
{
    if (c->looks++ >= LOOKS_MAX)
        return false;
    atoll_timer_set(&c->timer, c->loop, LOOK_MS, copy, c);
    return true;
}

static void copied(void *arg, const struct atoll_template_view *view,
                   const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    struct copying *c = arg;
    struct atoll_vercel_retention retention;
    struct atoll_vercel_snapshot snapshot;
    struct atoll_vercel_box box;
    struct atoll_error failure;

    /* The daemon before this one has begun to stop it. */
    if (error && error->kind == ATOLL_ERR_UNAVAILABLE && error->errnum == EAGAIN && look_again(c))
        return;
    if (!error) {
        atoll_vercel_snapshot_of(view, &snapshot);
        if (atoll_vercel_note_snapshot(c->engine, c->id, c->number, snapshot.id, &failure) < 0)
            error = &failure;
    }
    if (!error && atoll_vercel_box_get(c->engine, c->id, &box)) {
        (void)atoll_vercel_retention_read(box.facts, &retention);
        atoll_vercel_box_done(&box);
        atoll_vercel_snapshots_trim(c->engine, c->id, &retention);
    }
    end(c, error);
}

static void take(struct copying *c, const struct atoll_vercel_box *box)
{
    char name[ATOLL_VERCEL_SNAPSHOT_NAME_MAX];
    struct atoll_vercel_retention retention;
    const int64_t keep_ms = atoll_vercel_retention_read(box->facts, &retention);
    struct atoll_vercel_snapshot_tag tag = {
        .expires_unix_ms = atoll_vercel_snapshot_expiry((double)keep_ms), .automatic = true};

    tag.number = c->number = number_of_end(box);
    atoll_vercel_snapshot_name(c->id, &tag, atoll_fact_text(box->facts, "currentSnapshotId"), name);
    atoll_engine_snapshot(c->engine, c->id, name, copied, c);
}

/* What another request does meanwhile, a stop or a fork, may be the copy that is needed. */
static void copy(void *arg)
{
    struct copying *c = arg;
    struct atoll_vercel_box box;
    struct atoll_error error;

    if (!atoll_vercel_box_get(c->engine, c->id, &box)) {
        (void)atoll_engine_no_sandbox(c->id, &error);
        end(c, &error);
        return;
    }
    if (!atoll_vercel_disk_is_newer(&box)) {
        end(c, NULL);
    } else if (!box.view.snapshotting) {
        take(c, &box);
    } else if (!look_again(c)) {
        (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, ATOLL_VERCEL_E_SNAPSHOTTING,
                         "A snapshot of the sandbox is being made; try again");
        end(c, &error);
    }
    atoll_vercel_box_done(&box);
}

static void stopped(void *arg, const struct atoll_error *error)
{
    struct copying *c = arg;

    if (error)
        end(c, error);
    else
        copy(c);
}

void atoll_vercel_disk_copy(const struct atoll_api_call *call, const struct atoll_vercel_box *box,
                            atoll_done_fn *done, void *arg)
{
    struct atoll_engine *engine = call->engine;
    struct copying *c = atoll_api_alloc(sizeof(*c));

    *c = (struct copying){
        .engine = engine, .loop = call->api->config.loop, .done = done, .arg = arg};
    (void)snprintf(c->id, sizeof(c->id), "%s", box->view.id);
    /* A stop in progress is waited for; a failed run leaves its disk when it is stopped. */
    if (box->view.state == ATOLL_SANDBOX_STOPPING || box->view.state == ATOLL_SANDBOX_FAILED)
        atoll_engine_stop(engine, c->id, ATOLL_VERCEL_WHO, ATOLL_STOP_WRITTEN, stopped, c);
    else
        copy(c);
}
