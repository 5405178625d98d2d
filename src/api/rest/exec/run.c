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

/* End of a run. */

static void finish(struct atoll_run *run)
{
    run->ops->finished(run, run->error.kind == ATOLL_ERR_NONE ? NULL : &run->error);
}

static void destroyed(void *arg, const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    /* The result of the command stays valid; a failed destroy is reported to the operator. */
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

/* Ends a run before the client got the sandbox's id. The sandbox is destroyed even with "keep",
 * since no client could find it. */
static void give_up(struct atoll_run *run, const struct atoll_error *error)
{
    run->error = *error;
    destroy(run, ATOLL_REST_WHO);
}

/* True if the client has disconnected meanwhile; the run then ends. */
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
        return; /* the pending callback checks `abandoned` */
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

/* Starting the command. */

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
                 struct atoll_options *ret_create, struct atoll_error *err)
{
    struct atoll_rest_sandbox sandbox = {0};
    struct atoll_rest_exec exec = {0};
    struct run_fields own = {0};
    /* "env" is in both tables: it goes to the sandbox, whose commands inherit it. */
    const struct atoll_field_set sets[] = {
        {atoll_rest_sandbox_fields, &sandbox}, {atoll_rest_exec_fields, &exec}, {run_fields, &own}};
    int r = atoll_body_parse(&run->body, bytes, n, err);

    if (r == 0)
        r = atoll_fields_decode(&run->body, run->body.root, "", sets, ATOLL_ARRAY_LEN(sets), err);
    if (r == 0)
        r = atoll_rest_sandbox_check(&sandbox, &run->body, ret_create, err);
    if (r == 0)
        r = atoll_rest_exec_check(&exec, &run->start, &run->input, err);
    if (r == 0 && !exec.argv && !ret_create->image && !ret_create->template_name)
        r = atoll_exec_refuse_empty(err);
    if (r == 0 && run->input.open && !run->ops->takes_input)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "\"stdin\":true needs the WebSocket /api/run; give the input as a string");
    if (r == 0 && sandbox.options.lifetime.connection_lease && own.keep && run->ops->takes_input)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "lifetime.leaseConnection and \"keep\" exclude each other: the sandbox ends "
                       "with this WebSocket");
    /* Only this request knows the sandbox, so it should not outlive a daemon that dies. The
     * client of a WebSocket has received the id and may reconnect. */
    if (r == 0 && !own.keep && !run->ops->takes_input)
        ret_create->lifetime.connection_lease = true;
    run->keep = own.keep;
    run->leased = sandbox.options.lifetime.connection_lease;
    run->files.files = own.files;
    /* Checked before anything is created, so that a bad request costs nothing. */
    return r < 0 ? r : atoll_file_batch_check(&run->body, own.files, err);
}

void atoll_run_begin(struct atoll_run *run, const struct atoll_run_ops *ops,
                     struct atoll_engine *engine, const char *owner, const uint8_t *bytes, size_t n)
{
    struct atoll_options create;

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
