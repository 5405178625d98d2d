/*
 * Commands of sessions. The relay is started first; then the shell of the session is told to run the
 * command with the relay's input and output, and to give its status to the relay, which exits with it.
 *
 * A command with a directory, variables or a time limit of its own runs in a second shell that the
 * session's shell starts, so that they hold for this command only. That shell has the relay's mark
 * (ATOLL_EXEC): when the time is up, the agent kills it with the relay. What the session's shell then has to say
 * about the killed one goes to its own stderr: only the second shell has the relay's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "api/daytona/toolbox_internal.h"
#include "base/metrics.h"

#define TEXT_MAX ((double)ATOLL_BODY_FILES)
#define TEXT_KEPT 3000 /* bytes of the command in the arguments of the relay */
#define ARGUMENT_MAX ((size_t)100 * 1024)
#define LINE_MAX_BYTES (5 * ATOLL_BODY_FILES)
/* Commands that a shell has not taken yet, because it is busy and the pipe to it is full. */
#define UNTOLD_MAX 64 /* of one sandbox */

/* Waits for a status on a pipe of its own, descriptor 4; 3 is the command's input. A here-document is a
 * pipe in all but old versions of bash; those need a FIFO. */
static const char relay[] =
    "exec 3<&0 4<<E\n\nE\n"
    "[ -p /proc/self/fd/4 ] || { d=$(mktemp -d) && mkfifo \"$d/f\" && exec 4<>\"$d/f\"; rm -r \"$d\"; }\n"
    "exec <>/proc/self/fd/4 5<&0\n"
    "while read -r status shell; do [ -n \"$status\" ] || continue;"
    " while [ -n \"$shell\" ] && [ -d \"/proc/$shell\" ]; do :; done; exit \"$status\"; done\n";

struct command {
    struct atoll_api_call *call;
    struct atoll_body body; /* the strings below point into it */
    const char *text, *cwd;
    const char *const *env, *const *envs;
    const json_t *timeout;
    bool run_async, is_async, suppress_echo;
    char shell_id[17], relay_id[17];
    struct atoll_buf line;
    struct atoll_toolbox_output output;
    struct atoll_toolbox_guard guard;
    struct atoll_daytona *daytona;
    struct atoll_list untold; /* in it, until the shell has taken the command */
    size_t untold_bytes;
    char tenant[65], sandbox_id[ATOLL_ID_LEN + 1];
};

#define AT(member) offsetof(struct command, member)
static const struct atoll_field fields[] = {
    {"command", ATOLL_FIELD_STRING, AT(text), 0, TEXT_MAX, NULL, 0},
    {"runAsync", ATOLL_FIELD_BOOL, AT(run_async), 0, 0, NULL, 0},
    {"async", ATOLL_FIELD_BOOL, AT(is_async), 0, 0, NULL, 0},
    {"suppressInputEcho", ATOLL_FIELD_BOOL, AT(suppress_echo), 0, 0, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_TOOLBOX_PATH_MAX, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"envs", ATOLL_FIELD_ENV, AT(envs), 0, 0, NULL, 0},
    {"timeout", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

/* Bounds. */

static bool may_wait(struct command *c)
{
    struct atoll_daytona *daytona = atoll_daytona_of(c->call->api);
    size_t count = 0;

    ATOLL_LIST_FOREACH (&daytona->untold, node)
        count += strcmp(ATOLL_CONTAINER_OF(node, struct command, untold)->sandbox_id,
                        c->call->params.id) == 0;
    if (count < UNTOLD_MAX &&
        atoll_shares_fits(&daytona->untold_bytes, c->call->caller.tenant, strlen(c->text)))
        return true;
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("session_commands"), 1);
    atoll_daytona_refuse(c->call, 429, NULL,
                         "too many commands wait for shells that are busy: ask again when some of "
                         "them have ended, or use another session");
    return false;
}

static void note_untold(struct command *c)
{
    c->daytona = atoll_daytona_of(c->call->api);
    (void)snprintf(c->tenant, sizeof(c->tenant), "%s", c->call->caller.tenant);
    (void)snprintf(c->sandbox_id, sizeof(c->sandbox_id), "%.*s", ATOLL_ID_LEN, c->call->params.id);
    c->untold_bytes = strlen(c->text);
    atoll_list_push_back(&c->daytona->untold, &c->untold);
    atoll_shares_add(&c->daytona->untold_bytes, c->tenant, c->untold_bytes);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("session_commands"), 1);
}

static void note_told(struct command *c)
{
    if (!c->untold.next)
        return;
    atoll_list_remove(&c->untold);
    atoll_shares_drop(&c->daytona->untold_bytes, c->tenant, c->untold_bytes);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("session_commands"), -1);
}

static void command_free(struct command *c)
{
    note_told(c);
    atoll_toolbox_guard_close(&c->guard);
    atoll_toolbox_output_done(&c->output);
    atoll_buf_done(&c->line);
    atoll_body_done(&c->body);
    free(c);
}

static void client_gone(struct atoll_api_call *call)
{
    command_free(call->state);
    atoll_api_drop(call);
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void drop_relay(const struct command *c)
{
    struct atoll_exec *exec = atoll_toolbox_find_exec(c->call, c->relay_id);

    if (exec)
        atoll_exec_signal(exec, SIGKILL, true, ATOLL_TOOLBOX_WHO, ignore, NULL);
}

static void refuse_ended(struct atoll_api_call *call)
{
    atoll_daytona_refuse(call, 410, ATOLL_TOOLBOX_SESSION_ENDED, "session process has exited");
}

/* The response. */

static void reply_accepted(struct command *c)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "cmdId", c->relay_id);
    atoll_json_null(&out, "output");
    atoll_json_null(&out, "stdout");
    atoll_json_null(&out, "stderr");
    atoll_json_null(&out, "exitCode");
    atoll_json_close(&out, '}');
    atoll_api_reply(c->call, 202, &out);
    command_free(c);
}

static void reply_result(struct command *c, const struct atoll_exec_result *result)
{
    bool is_late = result->kind == ATOLL_END_TIMED_OUT;
    struct atoll_exec *shell = atoll_toolbox_find_exec(c->call, c->shell_id);
    struct atoll_exec_view view = {0};
    int status = is_late ? 408 : 200;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (shell)
        atoll_exec_get(shell, &view);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (is_late)
        atoll_daytona_error_members(&out, c->call, status, ATOLL_TOOLBOX_TIMEOUT,
                                    "command execution timeout");
    atoll_json_text(&out, "cmdId", c->relay_id);
    atoll_toolbox_output_lines(&c->output, &out);
    atoll_json_i64(&out, "exitCode", atoll_toolbox_command_code(result, view.result));
    atoll_json_close(&out, '}');
    atoll_api_reply(c->call, status, &out);
}

static void ended(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error)
{
    struct command *c = arg;

    c->call->on_gone = NULL;
    if (error)
        atoll_api_fail(c->call, error);
    else if (result->kind == ATOLL_END_LOST)
        atoll_daytona_refuse(c->call, 502, NULL, "the result of the command is unknown: %s",
                             result->reason);
    else
        reply_result(c, result);
    command_free(c);
}

static void wait_for_end(struct command *c, struct atoll_exec *shell, struct atoll_exec *relay_exec)
{
    c->call->state = c;
    c->call->on_gone = client_gone;
    atoll_toolbox_guard_open(&c->guard, c->call->engine, shell, c->relay_id);
    atoll_toolbox_output_start(&c->output, atoll_http_loop(c->call->req), relay_exec, true, ended,
                               c);
}

static void told(void *arg, const struct atoll_error *error)
{
    struct command *c = arg;
    struct atoll_api_call *call = c->call;
    struct atoll_exec *shell = atoll_toolbox_find_exec(call, c->shell_id);
    struct atoll_exec *exec = atoll_toolbox_find_exec(call, c->relay_id);

    note_told(c);
    if (error || !shell || !exec) {
        drop_relay(c);
        if (!error || error->kind == ATOLL_ERR_FAILED_PRECONDITION)
            refuse_ended(call);
        else
            atoll_api_fail(call, error);
        command_free(c);
    } else if (!call->req) {
        atoll_api_drop(call);
        command_free(c);
    } else if (c->is_async) {
        reply_accepted(c);
    } else {
        wait_for_end(c, shell, exec);
    }
}

/* What the shell is told. */

static int add_text(struct command *c, const char *text)
{
    return atoll_toolbox_quote(&c->line, text, strlen(text));
}

static int add_own_shell(struct command *c, uint32_t pid)
{
    const char *const *lists[] = {c->env, c->envs};
    int r = atoll_buf_appendf(&c->line,
                              "(export ATOLL_EXEC=$(tr '\\0' '\\n' </proc/%u/environ |"
                              " sed -n s/^ATOLL_EXEC=//p)",
                              pid);

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++)
        for (size_t k = 0; r == 0 && lists[i] && lists[i][k]; k++) {
            r = atoll_buf_appends(&c->line, " && export ");
            if (r == 0)
                r = add_text(c, lists[i][k]);
        }
    if (r == 0 && c->cwd) {
        r = atoll_buf_appends(&c->line, " && cd ");
        if (r == 0)
            r = add_text(c, c->cwd);
    }
    if (r == 0)
        r = atoll_buf_appends(&c->line, strlen(c->text) <= ARGUMENT_MAX
                                            ? " && exec \"${BASH:-sh}\" -c "
                                            : " && eval ");
    if (r == 0)
        r = add_text(c, c->text);
    return r < 0 ? r : atoll_buf_appends(&c->line, ")");
}

static int add_eval(struct command *c)
{
    int r = atoll_buf_appends(&c->line, "{ eval ");

    if (r == 0)
        r = add_text(c, c->text);
    return r < 0 ? r : atoll_buf_appends(&c->line, "\n}");
}

/* The relay is ready when it has descriptor 5. */
static int write_line(struct command *c, uint32_t pid)
{
    bool is_own = c->cwd || c->env || c->envs || c->timeout;
    int r = atoll_buf_appendf(&c->line,
                              "while [ -d /proc/%u ] && ! [ -e /proc/%u/fd/5 ]; do :; done;"
                              " _atoll=%u; ",
                              pid, pid, pid);

    if (r == 0)
        r = is_own ? add_own_shell(c, pid) : add_eval(c);
    if (r == 0)
        r = atoll_buf_appendf(&c->line,
                              " </proc/%u/fd/3 >/proc/%u/fd/1 2>/proc/%u/fd/2;"
                              " printf '%%s\\n' \"$?\" >/proc/%u/fd/4; _atoll=\n",
                              pid, pid, pid, pid);
    return r < 0 ? r : atoll_buf_append(&c->line, "", 1);
}

static void relay_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct command *c = arg;
    struct atoll_exec *shell = atoll_toolbox_find_exec(c->call, c->shell_id);
    struct atoll_exec_view view;
    struct atoll_error failure;
    struct atoll_buf line;
    int r;

    if (error) {
        atoll_api_fail(c->call, error);
        command_free(c);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)snprintf(c->relay_id, sizeof(c->relay_id), "%s", view.id);
    r = write_line(c, view.pid);
    if (r < 0 || !shell) {
        (void)atoll_fail_errno(&failure, r < 0 ? -r : ESRCH, "writing to the shell of a session");
        told(c, r < 0 ? &failure : NULL);
        return;
    }
    /* The engine has a copy. */
    line = c->line;
    atoll_buf_init(&c->line, 0);
    atoll_body_done(&c->body);
    c->body = (struct atoll_body){0};
    atoll_exec_write_patiently(shell, atoll_buf_head(&line), atoll_buf_size(&line), told, c);
    atoll_buf_done(&line);
}

static void start_relay(struct command *c, uint32_t timeout_ms)
{
    char kept[TEXT_KEPT + 1];
    enum { KEPT = 6 };
    const char *const argv[] = {"sh",          "-c",
                                relay,         ATOLL_TOOLBOX_COMMAND_KIND,
                                c->shell_id,   c->suppress_echo ? "quiet" : "echo",
                                [KEPT] = kept, NULL};
    const struct atoll_exec_start start = {.argv = argv,
                                           .stdin_open = c->is_async,
                                           .timeout_ms = timeout_ms,
                                           .is_command = true,
                                           .shown_from = KEPT};
    size_t n = strlen(c->text);

    n = ATOLL_MIN(n, (size_t)TEXT_KEPT);
    n -= n == TEXT_KEPT ? atoll_json_utf8_open_tail((const uint8_t *)c->text, n) : 0;
    memcpy(kept, c->text, n);
    kept[n] = '\0';
    atoll_engine_exec(c->call->engine, c->call->params.id, &start, relay_started, c);
}

static bool take(struct command *c, uint32_t *ret_timeout_ms)
{
    struct atoll_error error;

    c->is_async |= c->run_async;
    if (c->cwd && !*c->cwd)
        c->cwd = NULL;
    if (!c->text || !*c->text)
        atoll_daytona_refuse(c->call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: command must be given");
    else if (atoll_fields_timeout(c->timeout, "timeout", ret_timeout_ms, &error) < 0)
        atoll_daytona_refuse(c->call, 400, ATOLL_TOOLBOX_BAD_BODY, "invalid request body: %s",
                             error.text);
    else
        return true;
    return false;
}

void atoll_daytona_session_exec(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_toolbox_session session;
    uint32_t timeout_ms = 0;
    struct command *c;

    if (!atoll_toolbox_session_find(call, &session))
        return;
    if (session.view.result) {
        atoll_toolbox_drop_commands(atoll_engine_find(call->engine, call->params.id),
                                    session.view.id);
        refuse_ended(call);
        return;
    }
    c = atoll_api_alloc(sizeof(*c));
    c->call = call;
    atoll_buf_init(&c->line, LINE_MAX_BYTES);
    (void)snprintf(c->shell_id, sizeof(c->shell_id), "%s", session.view.id);
    if (!atoll_toolbox_decode(call, &c->body, bytes, n, fields, c)) {
        atoll_buf_done(&c->line);
        free(c);
    } else if (take(c, &timeout_ms) && may_wait(c)) {
        note_untold(c);
        start_relay(c, timeout_ms);
    } else {
        command_free(c);
    }
}
