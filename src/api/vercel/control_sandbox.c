/*
 * One named sandbox: get, resume, delete.
 */
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/preview.h"
#include "api/vercel/snapshots.h"
#include "api/vercel/vercel_internal.h"
#include "base/clock.h"
#include "engine/state/state.h"
#include "engine/template/pull.h"
#include "loop/steps.h"

/* Resuming: the disk of the last run is started again. A sandbox that does not keep its files, or whose
 * current snapshot was changed, gets those of the snapshot or template first. */
struct resuming {
    struct atoll_steps steps;
    struct atoll_api_call *call;
    char id[ATOLL_ID_LEN + 1];
    int64_t number; /* of the run that ended */
    int64_t ended_unix_ms;
    char *reference; /* of the version to restore; NULL: the disk is as it should be */
    bool failed;     /* it is to be stopped first */
    bool joins;      /* another request starts it already */
    bool paused;
    bool newer; /* its disk has files that the current snapshot does not have */
};

static void make_stopped(void *arg)
{
    struct resuming *r = arg;

    if (r->failed)
        atoll_engine_stop(r->call->engine, r->id, ATOLL_VERCEL_WHO, ATOLL_STOP_WRITTEN,
                          atoll_steps_done, &r->steps);
    else
        atoll_steps_done(&r->steps, NULL);
}

static void start(void *arg)
{
    struct resuming *r = arg;

    atoll_engine_resume(r->call->engine, r->id, atoll_steps_done, &r->steps);
}

/* The size that was asked for while another run had its own. */
static void resize(void *arg)
{
    struct resuming *r = arg;
    struct atoll_limits limits = {0};
    struct atoll_vercel_box box;

    if (!r->joins && atoll_vercel_box_get(r->call->engine, r->id, &box)) {
        const struct atoll_limits *have = &box.view.options.limits;
        int64_t vcpus = atoll_fact_number(box.facts, "vcpus", 0);
        int64_t memory = atoll_fact_number(box.facts, "memory", 0);
        if (vcpus > 0 && (have->cpu_millis + 999) / 1000 != (uint64_t)vcpus)
            limits.cpu_millis = (uint32_t)vcpus * 1000;
        if (memory > 0 && have->memory_bytes >> 20 != (uint64_t)memory)
            limits.memory_bytes = (uint64_t)memory << 20;
        atoll_vercel_box_done(&box);
    }
    if (limits.cpu_millis || limits.memory_bytes)
        atoll_engine_resize(r->call->engine, r->id, &limits, atoll_steps_done, &r->steps);
    else
        atoll_steps_done(&r->steps, NULL);
}

static void restore(void *arg)
{
    struct resuming *r = arg;

    if (r->reference)
        atoll_engine_restore(r->call->engine, r->id, r->reference, ATOLL_VERCEL_WHO,
                             atoll_steps_done, &r->steps);
    else
        atoll_steps_done(&r->steps, NULL);
}

/* The new run gets its record, unless another request that resumed it was faster. */
static void add_session(void *arg)
{
    struct resuming *r = arg;
    struct atoll_vercel_box box;
    struct atoll_error error;
    int64_t timeout;
    int result = 0;

    if (!atoll_vercel_box_get(r->call->engine, r->id, &box)) {
        atoll_steps_done(&r->steps, NULL);
        return;
    }
    timeout = atoll_fact_number(box.facts, "timeout", ATOLL_VERCEL_TIMEOUT_MS);
    if (!r->joins && atoll_vercel_session_number(box.facts) == r->number) {
        (void)json_object_del(box.facts, "restore");
        atoll_vercel_session_add(box.facts, r->ended_unix_ms, timeout,
                                 r->newer ? "" : atoll_fact_text(box.facts, "currentSnapshotId"));
        if (r->reference)
            (void)json_object_set_new(
                atoll_vercel_session_record(box.facts, atoll_vercel_session_number(box.facts)),
                "restored", json_true());
        result = atoll_vercel_facts_store(r->call->engine, r->id, box.facts, &error);
        if (result == 0)
            result = atoll_engine_set_timeout(r->call->engine, r->id,
                                              (uint32_t)((timeout + 999) / 1000), &error);
    }
    atoll_vercel_box_done(&box);
    atoll_steps_done(&r->steps, result < 0 ? &error : NULL);
}

static const struct atoll_step steps[] = {
    {"ending the failed run", make_stopped, NULL}, {"changing its size", resize, NULL},
    {"starting the sandbox", start, NULL},         {"restoring its files", restore, NULL},
    {"recording the session", add_session, NULL},
};

/* A paused one continues its run, with all processes. */
static const struct atoll_step continue_steps[] = {{"continuing the sandbox", start, NULL}};

static void resumed(void *arg, const struct atoll_error *error)
{
    struct resuming *r = arg;

    if (error)
        atoll_api_fail(r->call, error);
    else
        atoll_vercel_reply_box(r->call, r->id, !r->paused);
    free(r->reference);
    free(r);
}

/* What the disk is to be replaced by: the current snapshot, if another one was chosen or the files of a
 * run are not kept; or what it was made from. A disk that is newer than the snapshot does not need it. */
static int choose_files(struct atoll_api_call *call, const struct atoll_vercel_box *box, char **ret,
                        struct atoll_error *err)
{
    const char *snapshot = atoll_fact_text(box->facts, "currentSnapshotId");
    const char *origin = atoll_fact_text(box->facts, "origin");
    bool keeps =
        atoll_fact_flag(box->facts, "persistent") && !atoll_fact_flag(box->facts, "restore");
    char *reference = NULL, name[ATOLL_IMAGE_NAME_MAX];
    int r = 0;

    if (atoll_vercel_disk_is_newer(box))
        return 0;
    if (*snapshot)
        r = atoll_vercel_snapshot_reference(call, snapshot, &reference, err);
    if (r == 0 && !*snapshot && *origin) {
        const bool is_image = strcmp(origin, atoll_fact_text(box->facts, "image")) == 0;
        if (is_image)
            r = atoll_image_template(origin, name, err);
        reference = r == 0 ? strdup(is_image ? name : origin) : NULL;
        if (r == 0 && !reference)
            r = atoll_fields_no_memory(err);
    }
    if (r == 0 && !keeps)
        *ret = ATOLL_TAKE_PTR(reference);
    free(reference);
    return r;
}

static void resume(struct atoll_api_call *call, const struct atoll_vercel_box *box)
{
    struct resuming *r = atoll_api_alloc(sizeof(*r));
    struct atoll_error error;

    r->call = call;
    (void)snprintf(r->id, sizeof(r->id), "%s", box->view.id);
    r->number = atoll_vercel_session_number(box->facts);
    r->ended_unix_ms = box->view.paused_unix_ms ? box->view.paused_unix_ms : atoll_clock_unix_ms();
    r->failed = box->view.state == ATOLL_SANDBOX_FAILED;
    r->joins = box->view.state == ATOLL_SANDBOX_CREATING;
    r->paused = box->view.state == ATOLL_SANDBOX_PAUSED;
    r->newer = atoll_vercel_disk_is_newer(box);
    if (!r->joins && !r->paused && choose_files(call, box, &r->reference, &error) < 0) {
        free(r);
        atoll_api_fail(call, &error);
        return;
    }
    r->steps = (struct atoll_steps){.steps = r->paused ? continue_steps : steps,
                                    .count = r->paused ? ATOLL_ARRAY_LEN(continue_steps)
                                                       : ATOLL_ARRAY_LEN(steps),
                                    .arg = r,
                                    .done = resumed};
    atoll_steps_start(&r->steps);
}

static bool stands(const struct atoll_sandbox_view *v)
{
    return v->options.lifetime.persistent &&
           (v->state == ATOLL_SANDBOX_STOPPED || v->state == ATOLL_SANDBOX_FAILED ||
            v->state == ATOLL_SANDBOX_PAUSED || v->state == ATOLL_SANDBOX_CREATING);
}

void atoll_vercel_sandbox_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_vercel_box box;
    struct atoll_error error;
    bool wanted;

    if (call->ended || !atoll_vercel_box_get(call->engine, call->params.id, &box)) {
        atoll_vercel_refuse_missing(call, "Sandbox", call->params.template);
        return;
    }
    if (atoll_api_query_flag(call, "resume", &wanted, &error) < 0)
        atoll_api_fail(call, &error);
    else if (wanted && stands(&box.view) && call->caller.scope < ATOLL_SCOPE_WRITE)
        atoll_vercel_refuse(call, 403, NULL, "A key of scope read cannot resume a sandbox");
    else if (wanted && stands(&box.view))
        resume(call, &box);
    else if (wanted && box.view.state == ATOLL_SANDBOX_STOPPING)
        atoll_vercel_refuse(call, 422, "sandbox_stopping", "Sandbox is being stopped");
    else
        atoll_vercel_reply_box(call, box.view.id, false);
    atoll_vercel_box_done(&box);
}

/* Deleting. */

struct deleting {
    struct atoll_api_call *call;
    char id[ATOLL_ID_LEN + 1];
    bool orphans; /* all of its snapshots go, too */
    struct atoll_buf buf;
    struct atoll_json_out out;
};

static void deleted(void *arg, const struct atoll_error *error)
{
    struct deleting *d = arg;

    if (error) {
        atoll_buf_done(&d->buf);
        atoll_api_fail(d->call, error);
    } else {
        atoll_vercel_snapshots_drop(d->call->engine, d->id, d->orphans);
        /* What it was made from may have waited for it. */
        atoll_vercel_snapshots_expire(d->call->engine);
        atoll_api_reply(d->call, 200, &d->out);
    }
    free(d);
}

void atoll_vercel_sandbox_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    struct deleting *d;
    struct atoll_vercel_box box;
    struct atoll_error error;

    if (call->ended || !atoll_vercel_box_get(call->engine, call->params.id, &box)) {
        atoll_vercel_refuse_missing(call, "Sandbox", call->params.template);
        return;
    }
    d = atoll_api_alloc(sizeof(*d));
    d->call = call;
    (void)snprintf(d->id, sizeof(d->id), "%s", box.view.id);
    if (atoll_api_query_flag(call, "deleteOrphanSnapshots", &d->orphans, &error) < 0)
        d->orphans = false;
    box.view.state = ATOLL_SANDBOX_STOPPED;
    atoll_api_reply_init(&d->buf, &d->out);
    atoll_json_open(&d->out, NULL, '{');
    atoll_vercel_view_sandbox(&d->out, "sandbox", &box);
    atoll_json_close(&d->out, '}');
    atoll_vercel_box_done(&box);
    atoll_engine_destroy(call->engine, call->params.id, ATOLL_VERCEL_WHO, deleted, d);
}
