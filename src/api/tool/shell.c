#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/collect.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"

/*
 * Commands. The text for the model has at most SHOWN_MAX bytes of each stream: its beginning and its end.
 */
#define SHOWN_MAX ((size_t)30000)
#define TIMEOUT_MS 120000

struct shell {
    struct atoll_tool_call *call;
    struct atoll_collect collect;
    char exec_id[33];
    char **env;             /* owned */
    struct atoll_buf input; /* for its standard input */
    bool has_input;
};

static void shell_free(struct shell *s)
{
    atoll_collect_done(&s->collect);
    atoll_tool_variables_free(s->env);
    atoll_buf_done(&s->input);
    free(s);
}

static struct atoll_exec *exec_of(const struct atoll_tool_call *call, const char *exec_id)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->sandbox_id);

    return sandbox ? atoll_sandbox_find_exec(sandbox, exec_id) : NULL;
}

/* Results. */

static int show_stream(struct atoll_buf *text, const struct atoll_buf *stream)
{
    const uint8_t *p = atoll_buf_head(stream);
    size_t n = atoll_buf_size(stream), half = SHOWN_MAX / 2;
    int r;

    if (n <= SHOWN_MAX)
        return atoll_buf_append(text, p, n);
    r = atoll_buf_append(text, p, half);
    if (r == 0)
        r = atoll_buf_appendf(text, "\n[%zu bytes are left out here]\n", n - 2 * half);
    return r < 0 ? r : atoll_buf_append(text, p + n - half, half);
}

static void end_line(struct atoll_buf *text)
{
    size_t n = atoll_buf_size(text);

    if (n > 0 && atoll_buf_head(text)[n - 1] != '\n')
        (void)!atoll_buf_appends(text, "\n");
}

/* How it ended, in words; nothing for exit status 0. */
static void show_end(struct atoll_buf *text, const struct atoll_exec_result *result)
{
    end_line(text);
    switch (result->kind) {
    case ATOLL_END_EXITED:
        if (result->code != 0)
            (void)!atoll_buf_appendf(text, "exit code %d\n", result->code);
        break;
    case ATOLL_END_TIMED_OUT:
        (void)!atoll_buf_appendf(text, "killed: it ran longer than its timeout\n");
        break;
    default:
        (void)!atoll_buf_appendf(text, "%s%s%s\n", atoll_end_kind_name(result->kind),
                                 *result->reason ? ": " : "", result->reason);
    }
}

static json_t *data_of(const struct shell *s, const struct atoll_exec_result *result)
{
    const struct atoll_buf *out = &s->collect.streams[ATOLL_STREAM_STDOUT];
    const struct atoll_buf *err = &s->collect.streams[ATOLL_STREAM_STDERR];
    json_t *data = json_pack(
        "{s:s, s:o, s:o, s:b, s:s}", "command_id", s->exec_id, "stdout",
        atoll_tool_json_bytes(atoll_buf_head(out), atoll_buf_size(out)), "stderr",
        atoll_tool_json_bytes(atoll_buf_head(err), atoll_buf_size(err)), "truncated",
        s->collect.truncated[ATOLL_STREAM_STDOUT] || s->collect.truncated[ATOLL_STREAM_STDERR],
        "state", result ? atoll_end_kind_name(result->kind) : "running");

    if (result && result->kind == ATOLL_END_EXITED)
        (void)json_object_set_new(data, "exit_code", json_integer(result->code));
    return data;
}

static void collected(void *arg, const struct atoll_exec_result *result,
                      const struct atoll_error *error)
{
    struct shell *s = arg;
    struct atoll_tool_call *call = s->call;
    struct atoll_buf text;
    json_t *data;

    call->stop = NULL;
    if (error) {
        shell_free(s);
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, 4 * SHOWN_MAX);
    (void)!show_stream(&text, &s->collect.streams[ATOLL_STREAM_STDOUT]);
    if (atoll_buf_size(&s->collect.streams[ATOLL_STREAM_STDERR]) > 0)
        end_line(&text);
    (void)!show_stream(&text, &s->collect.streams[ATOLL_STREAM_STDERR]);
    if (result)
        show_end(&text, result);
    else
        (void)!atoll_buf_appends(&text, "[it still runs]\n");
    data = data_of(s, result);
    shell_free(s);
    atoll_tool_finish(call, &text, data,
                      result && (result->kind != ATOLL_END_EXITED || result->code != 0));
}

/* Starting. */

static void killed(void *arg, const struct atoll_error *error)
{
    (void)arg;
    (void)error;
}

static void stop(struct atoll_tool_call *call)
{
    const struct shell *s = call->state;
    struct atoll_exec *exec = exec_of(call, s->exec_id);

    if (exec)
        atoll_exec_signal(exec, SIGKILL, true, ATOLL_TOOL_WHO, killed, NULL);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct shell *s = arg;
    struct atoll_tool_call *call = s->call;
    struct atoll_exec_view view;
    struct atoll_buf text;
    json_t *data;

    if (error) {
        shell_free(s);
        atoll_tool_fail(call, error);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)snprintf(s->exec_id, sizeof(s->exec_id), "%s", view.id);
    if (atoll_tool_flag(call, "run_in_background")) {
        atoll_buf_init(&text, 200);
        (void)!atoll_buf_appendf(&text, "The command runs in the background with the id %s.",
                                 view.id);
        data = json_pack("{s:s, s:s}", "command_id", view.id, "state", "running");
        shell_free(s);
        atoll_tool_finish(call, &text, data, false);
        return;
    }
    if (s->has_input)
        atoll_exec_feed(exec, atoll_buf_head(&s->input), atoll_buf_size(&s->input));
    call->stop = stop;
    if (call->cancelled)
        stop(call);
    atoll_collect_start(&s->collect, call->loop, exec, collected, s);
}

void atoll_tool_run_command(struct atoll_tool_call *call, const struct atoll_tool_command *command)
{
    const char *cwd = command->cwd ? command->cwd : call->outside;
    struct shell *s = atoll_alloc(sizeof(*s));
    char path[ATOLL_TOOL_PATH_MAX];
    struct atoll_error error;
    int r = cwd ? atoll_tool_path(call, cwd, path, &error) : 0;

    s->call = call;
    s->env = command->env;
    s->has_input = command->input != NULL;
    atoll_buf_init(&s->input, command->input_len + 1);
    if (r == 0 && s->has_input &&
        atoll_buf_append(&s->input, command->input, command->input_len) < 0)
        r = atoll_fail_errno(&error, ENOMEM, "the input of a command");
    if (r < 0) {
        shell_free(s);
        atoll_tool_fail(call, &error);
        return;
    }
    call->state = s;
    atoll_engine_exec(call->engine, call->sandbox_id,
                      &(struct atoll_exec_start){
                          .argv = command->argv,
                          .is_command = true,
                          .env = (const char *const *)s->env,
                          .cwd = cwd ? path : NULL,
                          .timeout_ms = command->timeout_ms,
                          .stdin_open = s->has_input,
                      },
                      started, s);
}

void atoll_tool_run_bash(struct atoll_tool_call *call)
{
    /* A shell that the image has; the command is an argument, not a part of the script. */
    const char *const argv[] = {"/bin/sh",
                                "-c",
                                "if [ -x /bin/bash ]; then exec /bin/bash -c \"$1\"; fi; "
                                "exec /bin/sh -c \"$1\"",
                                "sh",
                                atoll_tool_text(call, "command"),
                                NULL};
    bool forever =
        atoll_tool_flag(call, "run_in_background") && !json_object_get(call->args, "timeout");

    atoll_tool_run_command(
        call,
        &(struct atoll_tool_command){
            .argv = argv,
            .env = atoll_tool_variables(json_object_get(call->args, "env")),
            .cwd = atoll_tool_text(call, "cwd"),
            .timeout_ms = forever ? 0 : (uint32_t)atoll_tool_whole(call, "timeout", TIMEOUT_MS),
        });
}

/* Background commands. */

static struct atoll_exec *find_or_fail(struct atoll_tool_call *call, const char *exec_id)
{
    struct atoll_exec *exec = exec_of(call, exec_id);

    if (!exec)
        atoll_tool_refuse(call, ATOLL_ERR_NOT_FOUND, "there is no command with the id %.40s",
                          exec_id);
    return exec;
}

void atoll_tool_run_bash_output(struct atoll_tool_call *call)
{
    const char *id = atoll_tool_text(call, "bash_id");
    struct atoll_exec *exec = find_or_fail(call, id);
    struct shell *s;

    if (!exec)
        return;
    s = atoll_alloc(sizeof(*s));
    s->call = call;
    atoll_buf_init(&s->input, 0);
    (void)snprintf(s->exec_id, sizeof(s->exec_id), "%s", id);
    call->state = s;
    atoll_collect_so_far(&s->collect, call->loop, exec, collected, s);
}

static void on_killed(void *arg, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;
    struct atoll_buf text;

    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, 200);
    (void)!atoll_buf_appends(&text, "The command was killed.");
    atoll_tool_finish(call, &text, json_object(), false);
}

void atoll_tool_run_kill_shell(struct atoll_tool_call *call)
{
    struct atoll_exec *exec = find_or_fail(call, atoll_tool_text(call, "shell_id"));

    if (exec)
        atoll_exec_signal(exec, SIGKILL, true, "a tool call", on_killed, call);
}
