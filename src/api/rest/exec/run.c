#include "api/rest/exec/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/rest_internal.h"
#include "base/log.h"

struct run_fields {
    bool keep;
    const json_t *files;
};

static const struct atoll_field run_fields[] = {
    {"keep", ATOLL_FIELD_BOOL, offsetof(struct run_fields, keep), 0, 0, NULL, 0},
    {"files", ATOLL_FIELD_JSON, offsetof(struct run_fields, files), 0, 0, NULL, 0},
    {0},
};

/* Over. */

static void finish(struct atoll_run *run)
{
    run->ops->finished(run, run->error.kind == ATOLL_ERR_NONE ? NULL : &run->error);
}

static void destroyed(void *arg, const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    /* How the command ended is true all the same; that the sandbox did not is for the operator. */
    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_log(ATOLL_LOG_ERROR, "sandbox of a run not destroyed", "sandbox", run->sandbox_id,
                  "error", error->text, NULL);
    finish(run);
}

static void destroy(struct atoll_run *run, const char *who)
{
    run->phase = ATOLL_RUN_ENDING;
    atoll_engine_destroy(run->engine, run->sandbox_id, who, destroyed, run);
}

/* Before the id was told: not even "keep" keeps what nobody knows of. */
static void give_up(struct atoll_run *run, const struct atoll_error *error)
{
    run->error = *error;
    destroy(run, ATOLL_REST_WHO);
}

/* True when the client went away meanwhile; the run ends then. */
static bool is_abandoned(struct atoll_run *run)
{
    struct atoll_error error;

    if (!run->abandoned)
        return false;
    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the client went away");
    give_up(run, &error);
    return true;
}

void atoll_run_end(struct atoll_run *run)
{
    if (run->phase != ATOLL_RUN_RUNNING)
        return;
    if (!run->keep) {
        destroy(run, ATOLL_REST_WHO);
        return;
    }
    run->phase = ATOLL_RUN_ENDING;
    finish(run);
}

void atoll_run_abandon(struct atoll_run *run)
{
    run->abandoned = true;
    if (run->phase != ATOLL_RUN_RUNNING)
        return; /* what is under way sees it when it comes back */
    if (!run->keep) {
        destroy(run, ATOLL_REST_WHO_GONE);
        return;
    }
    run->phase = ATOLL_RUN_ENDING;
    finish(run);
}

void atoll_run_done(struct atoll_run *run)
{
    atoll_body_done(&run->body);
}

/* The command. */

static void exec_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    struct atoll_exec_view view;

    if (error) {
        give_up(run, error);
        return;
    }
    if (is_abandoned(run))
        return;
    atoll_exec_get(exec, &view);
    (void)snprintf(run->exec_id, sizeof(run->exec_id), "%s", view.id);
    atoll_rest_input_send(exec, &run->input);
    run->phase = ATOLL_RUN_RUNNING;
    run->ops->started(run, exec);
}

static void files_written(void *arg, const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    if (error)
        give_up(run, error);
    else if (!is_abandoned(run))
        atoll_engine_exec(run->engine, run->sandbox_id, &run->start, exec_started, run);
}

static void write_files(struct atoll_run *run)
{
    run->files.engine = run->engine;
    run->files.body = &run->body;
    run->files.user = run->start.user;
    run->files.done = files_written;
    run->files.arg = run;
    memcpy(run->files.sandbox_id, run->sandbox_id, sizeof(run->files.sandbox_id));
    atoll_file_batch_write(&run->files);
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    struct atoll_sandbox_view view;

    if (error) {
        run->error = *error;
        finish(run);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    (void)snprintf(run->sandbox_id, sizeof(run->sandbox_id), "%s", view.id);
    if (!is_abandoned(run))
        write_files(run);
}

static void progress(void *arg, const char *text)
{
    struct atoll_run *run = arg;

    if (run->ops->progress && !run->abandoned)
        run->ops->progress(run, text);
}

static int parse(struct atoll_run *run, const uint8_t *bytes, size_t n,
                 struct atoll_create *ret_create, struct atoll_error *err)
{
    struct atoll_rest_sandbox sandbox = {0};
    struct atoll_rest_exec exec = {0};
    struct run_fields own = {0};
    /* "env" is in both: it becomes the sandbox's, and so that of the command. */
    const struct atoll_field_set sets[] = {
        {atoll_rest_sandbox_fields, &sandbox}, {atoll_rest_exec_fields, &exec}, {run_fields, &own}};
    int r = atoll_body_parse(&run->body, bytes, n, err);

    if (r == 0)
        r = atoll_fields_decode(&run->body, run->body.root, "", sets, ATOLL_ARRAY_LEN(sets), err);
    if (r == 0)
        r = atoll_rest_sandbox_check(&sandbox, &run->body, ret_create, err);
    if (r == 0)
        r = atoll_rest_exec_check(&exec, &run->start, &run->input, err);
    if (r == 0 && run->input.open && !run->ops->takes_input)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "\"stdin\":true needs the WebSocket /api/run; give the input as a string");
    if (r == 0 && sandbox.lifetime.lease_connection && own.keep && run->ops->takes_input)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "with lifetime.leaseConnection the sandbox ends with this WebSocket, so "
                       "\"keep\" cannot be");
    /* Nobody else knows of it: it should not outlive a daemon that dies. A WebSocket's client was
     * told its id and may come back. */
    if (r == 0 && !own.keep && !run->ops->takes_input)
        ret_create->lifetime.connection_lease = true;
    run->keep = own.keep;
    run->leased = sandbox.lifetime.lease_connection;
    run->files.files = own.files;
    /* Before anything is created: a typo should cost nothing. */
    return r < 0 ? r : atoll_file_batch_check(&run->body, own.files, err);
}

void atoll_run_begin(struct atoll_run *run, const struct atoll_run_ops *ops,
                     struct atoll_engine *engine, const char *owner, const uint8_t *bytes, size_t n)
{
    struct atoll_create create;

    *run = (struct atoll_run){.ops = ops, .engine = engine};
    (void)snprintf(run->owner, sizeof(run->owner), "%s", owner);
    if (parse(run, bytes, n, &create, &run->error) < 0) {
        finish(run);
        return;
    }
    create.owner = run->owner;
    create.progress = progress;
    create.progress_arg = run;
    atoll_engine_create(engine, &create, created, run);
}
