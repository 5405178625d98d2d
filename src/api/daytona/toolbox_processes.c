/*
 * Processes: create, list, get, input, size, delete.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define KIND "daytona-process"
#define ARGS_MAX 1000
#define TEXT_MAX ((double)ATOLL_BODY_JSON)
#define SIZE_MAX_CELLS 1000

/* Arguments of the exec: those of the process follow. */
enum { NAME = 4, FORM, FIRST };

static const char run_program[] = "shift 2; exec \"$@\"";
static const char run_command[] =
    "shift 2; command -v bash >/dev/null && exec bash -c \"$1\"; exec sh -c \"$1\"";
static const char run_shell[] = "for s in \"$SHELL\" bash sh; do"
                                " command -v \"$s\" >/dev/null 2>&1 && exec \"$s\" -il; done";

/* Lookup and view. */

static bool is_process(const struct atoll_exec_view *view)
{
    return atoll_toolbox_is_kind(view, KIND) && view->argv[FORM];
}

struct atoll_exec *atoll_toolbox_process_find(struct atoll_api_call *call,
                                              struct atoll_exec_view *ret)
{
    struct atoll_exec *exec = atoll_toolbox_find_exec(call, call->params.name);

    if (exec) {
        atoll_exec_get(exec, ret);
        if (is_process(ret) &&
            !(ret->result &&
              atoll_toolbox_is_buried(atoll_engine_find(call->engine, call->params.id), ret->id)))
            return exec;
    }
    atoll_daytona_refuse(call, 404, ATOLL_TOOLBOX_NO_PROCESS, "process not found");
    return NULL;
}

static const char *reason_of(const struct atoll_exec_result *result)
{
    switch (result->kind) {
    case ATOLL_END_EXITED:
        return "exited";
    case ATOLL_END_TIMED_OUT:
        return "timed_out";
    case ATOLL_END_LOST:
        return "failed";
    case ATOLL_END_KILLED_BY:
        return strcmp(result->reason, ATOLL_TOOLBOX_WHO) == 0 ? "signaled" : "sandbox_stopped";
    default:
        return "signaled";
    }
}

void atoll_toolbox_process_result(struct atoll_json_out *out,
                                  const struct atoll_exec_result *result)
{
    const char *signal = result->kind == ATOLL_END_EXITED || result->signal == 0
                             ? NULL
                             : sigabbrev_np(result->signal);
    char name[24];

    if (result->kind != ATOLL_END_LOST)
        atoll_json_i64(out, "exitCode", atoll_exit_code(result));
    atoll_json_text(out, "reason", reason_of(result));
    if (!signal)
        return;
    (void)snprintf(name, sizeof(name), "SIG%s", signal);
    atoll_json_text(out, "signal", name);
}

static void write_command(struct atoll_json_out *out, const struct atoll_exec_view *view)
{
    bool is_shell = strcmp(view->argv[FORM], "shell") == 0;

    if (is_shell && view->argv[FIRST])
        atoll_json_text(out, "shellCommand", view->argv[FIRST]);
    if (is_shell)
        return;
    atoll_json_open(out, "argv", '[');
    for (size_t i = FIRST; view->argv[i]; i++)
        atoll_json_text(out, NULL, view->argv[i]);
    atoll_json_close(out, ']');
}

void atoll_toolbox_process_members(struct atoll_json_out *out, const struct atoll_exec_view *view)
{
    atoll_json_text(out, "id", view->id);
    atoll_json_text(out, "kind", view->pty ? "pty" : "exec");
    atoll_json_text(out, "state", view->result ? "terminal" : "running");
    if (*view->argv[NAME])
        atoll_json_text(out, "name", view->argv[NAME]);
    write_command(out, view);
    if (*view->cwd)
        atoll_json_text(out, "cwd", view->cwd);
    if (*view->user)
        atoll_json_text(out, "user", view->user);
    atoll_json_u64(out, "pid", view->pid);
    atoll_json_time(out, "createdAt", view->started_unix_ms);
    atoll_json_time(out, "startedAt", view->started_unix_ms);
    atoll_json_text(out, "firstAvailableCursor", "start");
    if (!view->result)
        return;
    atoll_json_time(out, "exitedAt", view->started_unix_ms + view->result->duration_ms);
    atoll_toolbox_process_result(out, view->result);
}

static void reply_process(struct atoll_api_call *call, int status,
                          const struct atoll_exec_view *view)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_toolbox_process_members(&out, view);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

void atoll_daytona_process_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;

    if (atoll_toolbox_process_find(call, &view))
        reply_process(call, 200, &view);
}

/* A filter that is not given fits. */
static bool fits(const struct atoll_api_call *call, const char *name, const char *value)
{
    const char *wanted = atoll_http_query(call->req, name);

    return !wanted || !*wanted || strcmp(wanted, value) == 0;
}

void atoll_daytona_process_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const struct atoll_exec *exec;
    struct atoll_exec_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    char pid[16];

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    for (size_t pos = 0; sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        (void)snprintf(pid, sizeof(pid), "%u", view.pid);
        if (!is_process(&view) || !fits(call, "state", view.result ? "terminal" : "running") ||
            !fits(call, "kind", view.pty ? "pty" : "exec") ||
            !fits(call, "name", view.argv[NAME]) || !fits(call, "pid", pid) ||
            (view.result && atoll_toolbox_is_buried(sandbox, view.id)))
            continue;
        atoll_json_open(&out, NULL, '{');
        atoll_toolbox_process_members(&out, &view);
        atoll_json_close(&out, '}');
    }
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

/* Create. */

struct size {
    uint32_t cols, rows;
};

struct request {
    const char *const *argv, *const *env;
    const char *command, *name, *cwd, *user, *input, *kind;
    uint64_t timeout_ms;
    struct size size;
    bool has_size;
};

static const struct atoll_field size_fields[] = {
    {"cols", ATOLL_FIELD_U32, offsetof(struct size, cols), 0, SIZE_MAX_CELLS, NULL, 0},
    {"rows", ATOLL_FIELD_U32, offsetof(struct size, rows), 0, SIZE_MAX_CELLS, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"argv", ATOLL_FIELD_STRINGS, AT(argv), 0, ARGS_MAX, NULL, 0},
    {"shellCommand", ATOLL_FIELD_STRING, AT(command), 0, TEXT_MAX, NULL, 0},
    {"name", ATOLL_FIELD_STRING, AT(name), 0, ATOLL_TOOLBOX_KEY_MAX, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_TOOLBOX_PATH_MAX, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"user", ATOLL_FIELD_STRING, AT(user), 0, 64, NULL, 0},
    {"stdin", ATOLL_FIELD_STRING, AT(input), 0, 16, NULL, 0},
    {"kind", ATOLL_FIELD_STRING, AT(kind), 0, 16, NULL, 0},
    {"timeoutMs", ATOLL_FIELD_U64, AT(timeout_ms), 0, 31.0 * 24 * 3600 * 1000, NULL, 0},
    {"terminal", ATOLL_FIELD_OBJECT, AT(size), 0, 0, size_fields, AT(has_size)},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static void created(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_exec_view view;

    if (error) {
        atoll_api_fail(arg, error);
        return;
    }
    atoll_exec_get(exec, &view);
    reply_process(arg, 201, &view);
}

static bool is_pty(const struct request *q)
{
    return q->kind && strcmp(q->kind, "pty") == 0;
}

static bool is_sound(struct atoll_api_call *call, const struct request *q)
{
    bool has_argv = q->argv && q->argv[0], has_command = q->command && *q->command;

    if (q->kind && !is_pty(q) && strcmp(q->kind, "exec") != 0)
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY, "kind must be exec or pty");
    else if ((has_argv && has_command) || (!has_argv && !has_command && !is_pty(q)))
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "either argv or shellCommand must be given");
    else
        return true;
    return false;
}

static void start(struct atoll_api_call *call, const struct request *q)
{
    const char *argv[FIRST + ARGS_MAX + 1] = {"sh", "-c", NULL, KIND, q->name ? q->name : ""};
    const struct atoll_exec_start what = {
        .argv = argv,
        .env = q->env,
        .user = q->user && *q->user ? q->user : NULL,
        .cwd = q->cwd && *q->cwd ? q->cwd : NULL,
        .timeout_ms = (uint32_t)q->timeout_ms,
        .stdin_open = is_pty(q) || (q->input && strcmp(q->input, "pipe") == 0),
        .pty = is_pty(q),
        .cols = q->size.cols,
        .rows = q->size.rows,
        .is_command = !is_pty(q),
        .shown_from = FIRST,
    };
    size_t count = FIRST;

    argv[2] = q->command ? run_command : q->argv ? run_program : run_shell;
    argv[FORM] = q->argv ? "argv" : "shell";
    if (q->command)
        argv[count++] = q->command;
    for (size_t i = 0; q->argv && q->argv[i]; i++)
        argv[count++] = q->argv[i];
    atoll_engine_exec(call->engine, call->params.id, &what, created, call);
}

void atoll_daytona_process_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_body body;

    if (!atoll_toolbox_decode(call, &body, bytes, n, fields, &q))
        return;
    if (q.argv && !q.argv[0])
        q.argv = NULL;
    if (is_sound(call, &q))
        start(call, &q);
    atoll_body_done(&body);
}

/* Input, size, terminal, delete. */

static void done(void *arg, const struct atoll_error *error)
{
    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        atoll_daytona_refuse(arg, 409, NULL, "%s", error->text);
    else if (error)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 204);
}

struct input {
    const char *data;
    bool eof;
};

void atoll_daytona_process_stdin(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct input q = {0};
    static const struct atoll_field input_fields[] = {
        {"data", ATOLL_FIELD_STRING, offsetof(struct input, data), 0, (double)ATOLL_BODY_FILES,
         NULL, 0},
        {"eof", ATOLL_FIELD_BOOL, offsetof(struct input, eof), 0, 0, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    struct atoll_exec_view view;
    struct atoll_body body;
    struct atoll_exec *exec;

    if (!atoll_toolbox_decode(call, &body, bytes, n, input_fields, &q))
        return;
    exec = atoll_toolbox_process_find(call, &view);
    if (exec && !q.data && !q.eof)
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY, "data or eof must be given");
    else if (exec)
        atoll_exec_write(exec, (const uint8_t *)q.data, q.data ? strlen(q.data) : 0, q.eof, done,
                         call);
    atoll_body_done(&body);
}

static void resized(void *arg, const struct atoll_error *error)
{
    struct atoll_exec_view view;

    if (error)
        done(arg, error);
    else if (atoll_toolbox_process_find(arg, &view))
        reply_process(arg, 200, &view);
}

void atoll_daytona_process_resize(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_exec_view view;
    struct size size = {0};
    struct atoll_body body;
    struct atoll_exec *exec;

    if (!atoll_toolbox_decode(call, &body, bytes, n, size_fields, &size))
        return;
    atoll_body_done(&body);
    exec = atoll_toolbox_process_find(call, &view);
    if (exec && (size.cols == 0 || size.rows == 0))
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY, "cols and rows must be given");
    else if (exec)
        atoll_exec_resize(exec, size.cols, size.rows, resized, call);
}

void atoll_daytona_process_attach(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;
    struct atoll_exec *exec = atoll_toolbox_process_find(call, &view);

    if (exec && !view.pty)
        atoll_daytona_refuse(call, 400, "UNSUPPORTED_OPERATION",
                             "attach is only supported for kind=pty processes");
    else if (exec)
        atoll_toolbox_pty_attach(call, exec, 0);
}

void atoll_daytona_process_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;

    if (!atoll_toolbox_process_find(call, &view))
        return;
    if (view.result)
        atoll_toolbox_bury(call, view.id);
    else
        atoll_daytona_refuse(call, 409, NULL, "the process runs");
}
