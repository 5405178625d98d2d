/*
 * Commands of a session: run, get, kill, and input.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/exit_code.h"
#include "api/repeats.h"
#include "api/vercel/session_internal.h"
#include "api/vercel/vercel_internal.h"
#include "base/base64.h"
#include "engine/sandbox/ended.h"

#define ARGS_MAX 4096
#define TEXT_MAX ((double)ATOLL_BODY_FILES)
#define TIMEOUT_MAX_MS (31.0 * 24 * 3600 * 1000)

/* Lookup and view. */

struct atoll_exec *atoll_vercel_command_find(struct atoll_api_call *call, bool *ret_ended)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, call->params.exec) : NULL;
    struct atoll_error error;

    *ret_ended = false;
    if (exec)
        return exec;
    if (call->ended && atoll_ended_exec_open(call->engine, call->params.id, call->params.exec,
                                             &exec, &error) == 0) {
        *ret_ended = true;
        return exec;
    }
    atoll_vercel_refuse(call, 404, NULL, "Command not found: " ATOLL_VERCEL_COMMAND_PREFIX "%s",
                        call->params.exec);
    return NULL;
}

void atoll_vercel_command_head(struct atoll_json_out *out, const struct atoll_api_call *call,
                               const struct atoll_exec_view *view)
{
    char id[sizeof(ATOLL_VERCEL_COMMAND_PREFIX) + 32];

    (void)snprintf(id, sizeof(id), ATOLL_VERCEL_COMMAND_PREFIX "%s", view->id);
    atoll_json_open(out, NULL, '{');
    atoll_json_open(out, "command", '{');
    atoll_json_text(out, "id", id);
    atoll_json_text(out, "name", view->argv && view->argv[0] ? view->argv[0] : "");
    atoll_json_open(out, "args", '[');
    for (size_t i = 1; view->argv && view->argv[0] && view->argv[i]; i++)
        atoll_json_text(out, NULL, view->argv[i]);
    atoll_json_close(out, ']');
    atoll_json_text(out, "cwd", *view->cwd ? view->cwd : ATOLL_VERCEL_CWD);
    atoll_json_text(out, atoll_vercel_is_v1(call) ? "sandboxId" : "sessionId", call->params.name);
    atoll_json_i64(out, "startedAt", view->started_unix_ms);
}

void atoll_vercel_command_tail(struct atoll_json_out *out, const struct atoll_exec_result *result)
{
    if (result && result->kind != ATOLL_END_LOST) {
        atoll_json_i64(out, "exitCode", atoll_exit_code(result));
        atoll_json_i64(out, "durationMs", result->duration_ms);
    } else {
        atoll_json_null(out, "exitCode");
    }
    atoll_json_close(out, '}');
    atoll_json_close(out, '}');
}

static void reply_command(struct atoll_api_call *call, const struct atoll_exec *exec)
{
    struct atoll_exec_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_exec_get(exec, &view);
    atoll_api_reply_init(&buf, &out);
    atoll_vercel_command_head(&out, call, &view);
    atoll_vercel_command_tail(&out, view.result);
    atoll_api_reply(call, 200, &out);
}

void atoll_vercel_command_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_exec *exec;
    bool wait = false, ended;

    if (atoll_api_query_flag(call, "wait", &wait, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    exec = atoll_vercel_command_find(call, &ended);
    if (!exec)
        return;
    if (wait)
        atoll_vercel_stream_start(call, exec, ATOLL_VERCEL_WAIT);
    else
        reply_command(call, exec);
    if (ended)
        atoll_ended_exec_close(exec);
}

/* Run. */

struct request {
    const char *command, *cwd;
    const char *const *args, *const *env;
    uint64_t timeout_ms;
    bool sudo, wait, logs, input;
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"command", ATOLL_FIELD_STRING, AT(command), 1, TEXT_MAX, NULL, 0},
    {"args", ATOLL_FIELD_STRINGS, AT(args), 0, ARGS_MAX, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_VERCEL_PATH_MAX, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"timeout", ATOLL_FIELD_U64, AT(timeout_ms), 0, TIMEOUT_MAX_MS, NULL, 0},
    {"sudo", ATOLL_FIELD_BOOL, AT(sudo), 0, 0, NULL, 0},
    {"wait", ATOLL_FIELD_BOOL, AT(wait), 0, 0, NULL, 0},
    {"logs", ATOLL_FIELD_BOOL, AT(logs), 0, 0, NULL, 0},
    {"stdin", ATOLL_FIELD_BOOL, AT(input), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

/* A command that cannot be started is a user's error, also if its program or directory does not exist. */
static void fail_start(struct atoll_api_call *call, const struct atoll_error *error)
{
    bool exists = atoll_engine_find(call->engine, call->params.id) != NULL;

    if (exists &&
        (error->kind == ATOLL_ERR_NOT_FOUND || error->kind == ATOLL_ERR_PERMISSION_DENIED))
        atoll_vercel_refuse_error(call, 400, NULL, error);
    else
        atoll_api_fail(call, error);
}

#define DETACHED (-1) /* the answer is the command; else of enum atoll_vercel_stream */

static void started(struct atoll_api_call *call, struct atoll_exec *exec,
                    const struct atoll_error *error, int kind)
{
    struct atoll_exec_view view;

    if (error) {
        fail_start(call, error);
    } else if (atoll_api_client_is_gone(call)) {
        /* The command continues: a repeated request is about this one. */
        atoll_exec_get(exec, &view);
        atoll_repeat_leave(call, view.id);
        atoll_api_drop(call);
    } else if (kind == DETACHED) {
        reply_command(call, exec);
    } else {
        atoll_vercel_stream_start(call, exec, (enum atoll_vercel_stream)kind);
    }
}

static int kind_of(const struct request *q)
{
    if (!q->wait)
        return DETACHED;
    return q->logs ? ATOLL_VERCEL_RUN : ATOLL_VERCEL_RUN_ONLY;
}

static void started_detached(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    started(arg, exec, error, DETACHED);
}

static void started_quiet(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    started(arg, exec, error, ATOLL_VERCEL_RUN_ONLY);
}

static void started_with_logs(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    started(arg, exec, error, ATOLL_VERCEL_RUN);
}

/* The variables of the request after those that sudo sets. Freed with free(); the strings are borrowed. */
static const char **with_sudo(const char *const *env)
{
    static const char *const own[] = {"USER=root", "LOGNAME=root", "HOME=/root",
                                      ("SUDO_USER=" ATOLL_VERCEL_USER)};
    size_t count = 0;
    const char **all;

    while (env && env[count])
        count++;
    all = atoll_api_alloc((count + ATOLL_ARRAY_LEN(own) + 1) * sizeof(*all));
    memcpy(all, own, sizeof(own));
    for (size_t i = 0; i < count; i++)
        all[ATOLL_ARRAY_LEN(own) + i] = env[i];
    return all;
}

/* The request is repeated: its command was started already. */
static bool started_before(struct atoll_api_call *call, const struct request *q, const char *id)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_exec *exec = sandbox && id ? atoll_sandbox_find_exec(sandbox, id) : NULL;

    if (exec)
        started(call, exec, NULL, kind_of(q));
    return exec != NULL;
}

static void run(struct atoll_api_call *call, const struct request *q)
{
    const char *argv[1 + ARGS_MAX + 1] = {q->command};
    const char **env = q->sudo ? with_sudo(q->env) : NULL;
    char cwd[ATOLL_VERCEL_PATH_MAX + 1] = ATOLL_VERCEL_CWD;
    bool has_cwd = q->cwd && *q->cwd;
    const struct atoll_exec_start start = {
        .argv = argv,
        .is_command = true,
        .env = q->sudo ? (const char *const *)env : q->env,
        .user = q->sudo ? "root" : NULL,
        .cwd = has_cwd || q->sudo ? cwd : NULL, /* root's own directory is another one */
        .timeout_ms = (uint32_t)q->timeout_ms,
        .stdin_open = q->input,
    };

    for (size_t i = 0; q->args && q->args[i]; i++)
        argv[1 + i] = q->args[i];
    if (!has_cwd || atoll_vercel_path(call, q->cwd, NULL, cwd))
        atoll_engine_exec(call->engine, call->params.id, &start,
                          !q->wait  ? started_detached
                          : q->logs ? started_with_logs
                                    : started_quiet,
                          call);
    free(env);
}

void atoll_vercel_command_run(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    ATOLL_AUTOFREE char *before = NULL;
    struct request q = {0};
    struct atoll_body body;

    if (atoll_repeat_check(call, bytes, n, &before))
        return;
    if (!atoll_vercel_decode(call, &body, bytes, n, fields, &q))
        return;
    if (!q.command)
        atoll_vercel_refuse(call, 400, NULL, "command must be given");
    else if (!started_before(call, &q, before))
        run(call, &q);
    atoll_body_done(&body);
}

/* Kill. */

struct killing {
    const json_t *signal;
};

/* A number, or a name such as "SIGTERM"; 0: there is no such signal. */
static int signal_of(const json_t *value)
{
    const char *name = json_string_value(value), *abbreviation;

    if (!value)
        return SIGTERM;
    if (json_is_integer(value))
        return json_integer_value(value) > 0 && json_integer_value(value) < NSIG
                   ? (int)json_integer_value(value)
                   : 0;
    if (name && strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; name && i < NSIG; i++) {
        abbreviation = sigabbrev_np(i);
        if (abbreviation && strcmp(abbreviation, name) == 0)
            return i;
    }
    return 0;
}

static void signaled(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_exec *exec;
    bool ended;

    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION) { /* else it has just ended */
        atoll_api_fail(call, error);
        return;
    }
    exec = atoll_vercel_command_find(call, &ended);
    if (exec)
        reply_command(call, exec);
}

void atoll_vercel_command_kill(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    static const struct atoll_field kill_fields[] = {
        {"signal", ATOLL_FIELD_JSON, offsetof(struct killing, signal), 0, 0, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    struct killing q = {0};
    struct atoll_body body;
    struct atoll_exec *exec;
    bool ended;
    int signo;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    if (!atoll_vercel_decode(call, &body, bytes, n, kill_fields, &q))
        return;
    signo = signal_of(q.signal);
    atoll_body_done(&body);
    exec = atoll_vercel_command_find(call, &ended);
    if (exec && signo == 0)
        atoll_vercel_refuse(call, 400, NULL, "signal must be the number or name of a signal");
    else if (exec)
        atoll_exec_signal(exec, signo, true, ATOLL_VERCEL_WHO, signaled, call);
}

/* Input. */

struct input {
    const char *data, *encoding;
    bool eof;
};

static void written(void *arg, const struct atoll_error *error)
{
    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        atoll_vercel_refuse_error(arg, 409, NULL, error);
    else
        signaled(arg, error);
}

static void write_input(struct atoll_api_call *call, struct atoll_exec *exec, const struct input *q)
{
    size_t n = q->data ? strlen(q->data) : 0;
    struct atoll_buf bytes;

    if (!q->encoding || strcmp(q->encoding, "base64") != 0) {
        atoll_exec_write(exec, (const uint8_t *)q->data, n, q->eof, written, call);
        return;
    }
    atoll_buf_init(&bytes, ATOLL_BODY_FILES);
    if (n > 0 && atoll_base64_decode(&bytes, q->data, n) < 0)
        atoll_vercel_refuse(call, 400, NULL, "data must be base64");
    else
        atoll_exec_write(exec, atoll_buf_head(&bytes), atoll_buf_size(&bytes), q->eof, written,
                         call);
    atoll_buf_done(&bytes);
}

void atoll_vercel_command_stdin(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
#define AT(member) offsetof(struct input, member)
    static const struct atoll_field input_fields[] = {
        {"data", ATOLL_FIELD_STRING, AT(data), 0, TEXT_MAX, NULL, 0},
        {"encoding", ATOLL_FIELD_STRING, AT(encoding), 0, 16, NULL, 0},
        {"eof", ATOLL_FIELD_BOOL, AT(eof), 0, 0, NULL, 0},
        {0},
    };
#undef AT
    struct input q = {0};
    struct atoll_body body;
    struct atoll_exec *exec;
    bool ended;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    if (!atoll_vercel_decode(call, &body, bytes, n, input_fields, &q))
        return;
    exec = atoll_vercel_command_find(call, &ended);
    if (exec && !q.data && !q.eof)
        atoll_vercel_refuse(call, 400, NULL, "data or eof must be given");
    else if (exec)
        write_input(call, exec, &q);
    atoll_body_done(&body);
}
