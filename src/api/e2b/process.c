/*
 * Processes: lookup, list, signals and terminal sizes.
 */
#include "api/e2b/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "api/kit/exec_kill.h"
#include "api/kit/list_reply.h"
#include "base/clock.h"
#include "engine/json_memory.h"
#include "interpreter/contexts.h"

/* How long a process that has ended can still be selected. */
#define ENDED_MS 30000

struct selector {
    uint32_t pid;
    const char *tag; /* NULL: by pid */
};

static int take_selector(const json_t *message, struct selector *ret, struct atoll_error *err)
{
    const json_t *process = atoll_connect_get(message, "process");
    int r;

    *ret = (struct selector){0};
    if (!json_is_object(process))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "process is missing");
    r = atoll_connect_u32(process, "pid", &ret->pid, err);
    if (r == 0)
        r = atoll_connect_text(process, "tag", &ret->tag, err);
    return r;
}

static bool matches(struct atoll_e2b_plane *plane, const struct selector *selector,
                    const struct atoll_exec_view *view)
{
    const struct atoll_process_note *note;

    if (!selector->tag)
        return view->pid == selector->pid;
    note = atoll_process_noted(plane, view->id);
    return note && note->tag && strcmp(note->tag, selector->tag) == 0;
}

bool atoll_process_is_over(const struct atoll_exec_view *view)
{
    return view->result &&
           view->started_unix_ms + view->result->duration_ms + ENDED_MS <= atoll_clock_unix_ms();
}

struct atoll_exec *atoll_process_find(struct atoll_api_call *call, const json_t *message,
                                      bool also_ended, struct atoll_error *err)
{
    struct atoll_e2b_plane *plane = atoll_e2b_plane_of(call->api);
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_exec *exec, *best = NULL;
    int64_t best_started = INT64_MIN;
    struct atoll_exec_view view;
    struct selector selector;

    if (take_selector(message, &selector, err) < 0)
        return NULL;
    for (size_t pos = 0; sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (!matches(plane, &selector, &view))
            continue;
        if (!view.result)
            return exec;
        /* The kernel reuses pids: the latest process with the pid is meant. */
        if (also_ended && !atoll_process_is_over(&view) && view.started_unix_ms > best_started) {
            best = exec;
            best_started = view.started_unix_ms;
        }
    }
    if (!best && selector.tag)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ESRCH, "process with tag %.200s not found",
                         selector.tag);
    else if (!best)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ESRCH, "process with pid %u not found",
                         selector.pid);
    return best;
}

/* List. */

static void write_envs(struct atoll_json_out *out, const struct atoll_process_note *note)
{
    char *text = note && note->envs ? atoll_json_dump(note->envs, JSON_COMPACT) : NULL;

    if (text)
        atoll_json_raw(out, "envs", text);
    free(text);
}

static void write_process(struct atoll_json_out *out, const struct atoll_exec_view *view,
                          const struct atoll_process_note *note)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_open(out, "config", '{');
    atoll_json_text(out, "cmd", view->argv[0]);
    atoll_json_open(out, "args", '[');
    for (size_t i = 1; view->argv[i]; i++)
        atoll_json_text(out, NULL, view->argv[i]);
    atoll_json_close(out, ']');
    write_envs(out, note);
    if (*view->cwd)
        atoll_json_text(out, "cwd", view->cwd);
    atoll_json_close(out, '}');
    atoll_json_u64(out, "pid", view->pid);
    if (note && note->tag)
        atoll_json_text(out, "tag", note->tag);
    atoll_json_close(out, '}');
}

/* Interpreters are not listed: a client that kills every listed process must not lose the state
 * of its contexts. */
static bool is_interpreter(const struct atoll_api_call *call, const char *exec_id)
{
    struct atoll_contexts *contexts = call->api->config.contexts;
    struct atoll_context_view view;
    size_t pos = 0;

    while (contexts && atoll_contexts_next(contexts, call->params.id, &pos, &view))
        if (strcmp(view.exec_id, exec_id) == 0)
            return true;
    return false;
}

void atoll_envd_process_list(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_e2b_plane *plane = atoll_e2b_plane_of(call->api);
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const struct atoll_exec *exec;
    struct atoll_exec_view view;
    struct atoll_list_reply *list;
    json_t *message;

    if (!atoll_connect_unary(call, body, n, &message))
        return;
    json_decref(message);
    list = atoll_list_reply_new(call, "processes", ']');
    for (size_t pos = 0; sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (!view.result && !is_interpreter(call, view.id))
            write_process(&list->out, &view, atoll_process_noted(plane, view.id));
    }
    atoll_list_reply_done(list, NULL);
}

/* Signals. The response to SIGKILL waits for the end of the process: clients expect it to be gone
 * then. */

static void on_signaled(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error gone;

    if (!error) {
        atoll_connect_reply_empty(call);
        return;
    }
    gone = *error;
    if (error->kind == ATOLL_ERR_FAILED_PRECONDITION) /* it has just ended */
        gone.kind = ATOLL_ERR_NOT_FOUND;
    atoll_api_fail(call, &gone);
}

static int take_signal(const json_t *message, int *ret_signal, struct atoll_error *err)
{
    const json_t *value = atoll_connect_get(message, "signal");
    const char *name = json_string_value(value);

    if (json_integer_value(value) == SIGTERM || (name && strcmp(name, "SIGNAL_SIGTERM") == 0))
        *ret_signal = SIGTERM;
    else if (json_integer_value(value) == SIGKILL || (name && strcmp(name, "SIGNAL_SIGKILL") == 0))
        *ret_signal = SIGKILL;
    else
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EINVAL, "invalid signal: %.64s",
                          name ? name : "none");
    return 0;
}

void atoll_envd_process_signal(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_exec *exec;
    struct atoll_error error;
    json_t *message;
    int signo = 0;

    if (!atoll_connect_unary(call, body, n, &message))
        return;
    exec = atoll_process_find(call, message, false, &error);
    if (!exec || take_signal(message, &signo, &error) < 0)
        atoll_api_fail(call, &error);
    else if (signo == SIGKILL)
        atoll_exec_kill(call, exec, false, ATOLL_E2B_WHO, on_signaled);
    else
        atoll_exec_signal(exec, signo, false, ATOLL_E2B_WHO, on_signaled, call);
    json_decref(message);
}

/* Terminals. */

static void on_resized(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error shown;

    if (!error) {
        atoll_connect_reply_empty(call);
    } else if (error->kind == ATOLL_ERR_FAILED_PRECONDITION) {
        (void)atoll_fail(&shown, ATOLL_ERR_INTERNAL, ENOTTY, "error resizing tty: %.300s",
                         error->text);
        atoll_connect_fail(call, &shown);
    } else {
        atoll_api_fail(call, error);
    }
}

void atoll_envd_process_update(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    const json_t *size;
    struct atoll_exec *exec;
    struct atoll_error error;
    json_t *message;
    uint32_t cols = 0, rows = 0;
    int r = 0;

    if (!atoll_connect_unary(call, body, n, &message))
        return;
    size = atoll_connect_get(atoll_connect_get(message, "pty"), "size");
    exec = atoll_process_find(call, message, false, &error);
    if (exec && size)
        r = atoll_connect_u32(size, "cols", &cols, &error);
    if (exec && size && r == 0)
        r = atoll_connect_u32(size, "rows", &rows, &error);
    if (!exec || r < 0)
        atoll_api_fail(call, &error);
    else if (!size)
        atoll_connect_reply_empty(call);
    else
        atoll_exec_resize(exec, cols, rows, on_resized, call);
    json_decref(message);
}
