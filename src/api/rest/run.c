#include "api/rest/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/rest_internal.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/log.h"

#define FILES_MAX 256

struct run_fields {
    bool keep;
    const json_t *files;
};

static const struct atoll_field run_fields[] = {
    {"keep", ATOLL_FIELD_BOOL, offsetof(struct run_fields, keep), 0, 0, NULL, 0},
    {"files", ATOLL_FIELD_JSON, offsetof(struct run_fields, files), 0, 0, NULL, 0},
    {0},
};

struct file_fields {
    const char *path, *mode, *data;
};

static const struct atoll_field file_fields[] = {
    {"path", ATOLL_FIELD_STRING, offsetof(struct file_fields, path), 1, 4095, NULL, 0},
    {"mode", ATOLL_FIELD_STRING, offsetof(struct file_fields, mode), 3, 5, NULL, 0},
    {"data_base64", ATOLL_FIELD_STRING, offsetof(struct file_fields, data), 0, ATOLL_BODY_FILES,
     NULL, 0},
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
    atoll_buf_done(&run->data);
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

/* Its files, one after the other. */

static int decode_file(struct atoll_run *run, size_t i, struct file_fields *ret, uint32_t *ret_mode,
                       struct atoll_error *err)
{
    struct atoll_field_set set = {file_fields, ret};
    char where[32];
    int r;

    *ret = (struct file_fields){0};
    *ret_mode = 0;
    (void)snprintf(where, sizeof(where), "files[%zu]", i);
    if (!json_is_object(json_array_get(run->files, i)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be an object", where);
    r = atoll_fields_decode(&run->body, json_array_get(run->files, i), where, &set, 1, err);
    if (r < 0)
        return r;
    if (!ret->path || !ret->data)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s needs path and data_base64",
                          where);
    if (ret->mode && atoll_api_parse_mode(ret->mode, ret_mode) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s.mode must be permission bits in octal, such as \"0644\"", where);
    atoll_buf_clear(&run->data);
    if (atoll_base64_decode(&run->data, ret->data, strlen(ret->data)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s.data_base64 is no valid base64", where);
    return 0;
}

static void next_step(struct atoll_run *run);

static void file_finished(void *arg, const struct atoll_am_entry *entry,
                          const struct atoll_error *error)
{
    struct atoll_run *run = arg;

    (void)entry;
    if (error)
        give_up(run, error);
    else if (!is_abandoned(run))
        next_step(run);
}

static void file_opened(void *arg, struct atoll_upload *upload, int fd,
                        const struct atoll_error *error)
{
    struct atoll_run *run = arg;
    struct atoll_error failed;
    int r = 0;

    if (error) {
        give_up(run, error);
        return;
    }
    r = atoll_fd_write_all(fd, atoll_buf_head(&run->data), atoll_buf_size(&run->data));
    if (r == 0) {
        atoll_upload_finish(upload, file_finished, run);
        return;
    }
    atoll_upload_drop(upload);
    (void)atoll_fail(&failed, atoll_error_kind_of_path_errno(-r), -r, "files[%zu]: %s",
                     run->next_file - 1, strerror(-r));
    give_up(run, &failed);
}

/* The next file, or the command when all are there. */
static void next_step(struct atoll_run *run)
{
    struct file_fields file;
    struct atoll_error error;
    uint32_t mode;

    if (run->next_file == json_array_size(run->files)) {
        atoll_buf_done(&run->data);
        atoll_engine_exec(run->engine, run->sandbox_id, &run->start, exec_started, run);
    } else if (decode_file(run, run->next_file++, &file, &mode, &error) < 0) {
        give_up(run, &error);
    } else {
        atoll_files_create(run->engine, run->sandbox_id, run->start.user, file.path, mode,
                           file_opened, run);
    }
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
        next_step(run);
}

/* Files are checked before anything is created: a typo should cost nothing. */
static int check_files(struct atoll_run *run, struct atoll_error *err)
{
    if (run->files && (!json_is_array(run->files) || json_array_size(run->files) > FILES_MAX))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "files must be an array of at most %d objects", FILES_MAX);
    for (size_t i = 0; i < json_array_size(run->files); i++) {
        struct file_fields file;
        uint32_t mode;
        int r = decode_file(run, i, &file, &mode, err);
        if (r < 0)
            return r;
    }
    return 0;
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
    run->keep = own.keep;
    run->files = own.files;
    return r < 0 ? r : check_files(run, err);
}

void atoll_run_begin(struct atoll_run *run, const struct atoll_run_ops *ops,
                     struct atoll_engine *engine, const uint8_t *bytes, size_t n)
{
    struct atoll_create create;

    *run = (struct atoll_run){.ops = ops, .engine = engine};
    atoll_buf_init(&run->data, ATOLL_BODY_FILES);
    if (parse(run, bytes, n, &create, &run->error) < 0)
        finish(run);
    else
        atoll_engine_create(engine, &create, created, run);
}
