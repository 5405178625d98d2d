/*
 * Sessions: create, list, get, delete. All data about them is in the execs of the sandbox:
 * the shell of a session has the client's id of it in its arguments, and a relay the exec id of the
 * shell.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/kit/exec_kill.h"
#include "base/map.h"

#define SESSION_ID 4 /* index in the arguments of the shell */
#define DELETED_KIND "daytona-deleted"
#define COMMANDS_MAX 4096 /* the engine keeps no more commands of a sandbox */

/* Commands end with a newline and NUL. bash would exit after a command with an open quote if it read
 * commands itself; other shells ignore NUL. A command that left the loop (break, continue) has ended. */
static const char start_shell[] =
    "command -v bash >/dev/null || exec sh; exec bash -c '"
    "while :; do while :; do"
    " [ -z \"$_atoll\" ] || printf \"0\\n\" >\"/proc/$_atoll/fd/4\"; _atoll=;"
    " IFS= read -r -d \"\" _atoll_line || exit; eval \"$_atoll_line\"; done; done'";
/* When the shell exits inside of a command, the relay of the command gets the status, and the pid of the
 * shell: the command must not be over before the session. */
static const char prepare_shell[] =
    "trap '_atoll_status=$?; [ -z \"$_atoll\" ] ||"
    " printf \"%s %s\\n\" \"$_atoll_status\" \"$$\" >\"/proc/$_atoll/fd/4\"' EXIT\n";

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

bool atoll_toolbox_is_kind(const struct atoll_exec_view *view, const char *kind)
{
    for (size_t i = 0; i <= ATOLL_RELAY_KIND; i++)
        if (!view->argv[i])
            return false;
    return strcmp(view->argv[ATOLL_RELAY_KIND], kind) == 0 && view->argv[ATOLL_RELAY_KIND + 1];
}

/* A session whose shell has exited is shown, so that clients learn why commands fail. One that was
 * deleted, or that ended with all processes of the sandbox, is not. */
static bool is_session(const struct atoll_exec_view *view)
{
    return atoll_toolbox_is_kind(view, ATOLL_TOOLBOX_SESSION_KIND) &&
           (!view->result ||
            (view->result->kind != ATOLL_END_KILLED_BY && view->result->kind != ATOLL_END_LOST));
}

bool atoll_toolbox_is_buried(struct atoll_sandbox *sandbox, const char *exec_id)
{
    const struct atoll_exec *exec;
    struct atoll_exec_view view;

    for (size_t pos = 0; (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (atoll_toolbox_is_kind(&view, DELETED_KIND) &&
            strcmp(view.argv[ATOLL_RELAY_SHELL], exec_id) == 0)
            return true;
    }
    return false;
}

/* The shells of sessions that were deleted, by exec id; the keys are borrowed. */
static void gather_buried(struct atoll_sandbox *sandbox, struct atoll_map *ret)
{
    struct atoll_exec_view view;
    struct atoll_exec *exec;

    atoll_map_init(ret);
    for (size_t pos = 0; (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (atoll_toolbox_is_kind(&view, DELETED_KIND) &&
            atoll_map_put(ret, view.argv[ATOLL_RELAY_SHELL], exec) == -ENOMEM)
            abort(); /* small objects: the daemon is crash-only */
    }
}

/* Calls `each` for every session that was not deleted, in no order; several can have the same id. */
static void each_session(struct atoll_sandbox *sandbox,
                         void (*each)(void *arg, struct atoll_exec *exec,
                                      const struct atoll_exec_view *view),
                         void *arg)
{
    struct atoll_exec_view view;
    struct atoll_map buried;
    struct atoll_exec *exec;

    gather_buried(sandbox, &buried);
    for (size_t pos = 0; (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (is_session(&view) && !(view.result && atoll_map_get(&buried, view.id)))
            each(arg, exec, &view);
    }
    atoll_map_done(&buried);
}

struct sought {
    const char *id;
    struct atoll_toolbox_session *ret;
};

static void take_newest(void *arg, struct atoll_exec *exec, const struct atoll_exec_view *view)
{
    const struct sought *s = arg;

    if (strcmp(view->argv[SESSION_ID], s->id) != 0 ||
        (s->ret->shell && view->started_unix_ms < s->ret->view.started_unix_ms))
        return;
    s->ret->shell = exec;
    s->ret->view = *view;
}

static bool find(const struct atoll_api_call *call, const char *id,
                 struct atoll_toolbox_session *ret)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);

    *ret = (struct atoll_toolbox_session){0};
    if (sandbox)
        each_session(sandbox, take_newest, &(struct sought){id, ret});
    return ret->shell != NULL;
}

bool atoll_toolbox_session_find(struct atoll_api_call *call, struct atoll_toolbox_session *ret)
{
    if (find(call, call->params.template, ret))
        return true;
    atoll_daytona_refuse(call, 404, ATOLL_TOOLBOX_NO_PROCESS, "session not found");
    return false;
}

/* A client can start a command with such arguments itself, so that none of them is sure to be there. */
static bool is_command_of(const struct atoll_exec_view *view, const char *shell_id)
{
    return atoll_toolbox_is_kind(view, ATOLL_TOOLBOX_COMMAND_KIND) &&
           view->argv[ATOLL_RELAY_ECHO] && view->argv[ATOLL_RELAY_TEXT] &&
           strcmp(view->argv[ATOLL_RELAY_SHELL], shell_id) == 0;
}

struct atoll_exec *atoll_toolbox_command_find(struct atoll_api_call *call,
                                              const struct atoll_toolbox_session *session)
{
    struct atoll_exec *exec = atoll_toolbox_find_exec(call, call->params.name);
    struct atoll_exec_view view;

    if (exec) {
        atoll_exec_get(exec, &view);
        if (is_command_of(&view, session->view.id))
            return exec;
    }
    atoll_daytona_refuse(call, 404, ATOLL_TOOLBOX_NO_PROCESS, "command not found");
    return NULL;
}

static void guard_ready(void *arg)
{
    struct atoll_toolbox_guard *g = arg;
    struct atoll_sandbox *sandbox = atoll_engine_find(g->engine, g->sandbox_id);
    struct atoll_reader_item item;
    struct atoll_exec *relay;
    int r;

    while ((r = atoll_reader_next(g->end, &item)) > 0 && item.kind != ATOLL_READ_END)
        ;
    relay = r != 0 && sandbox ? atoll_sandbox_find_exec(sandbox, g->relay_id) : NULL;
    if (relay)
        atoll_exec_signal(relay, SIGKILL, true, ATOLL_TOOLBOX_WHO, ignore, NULL);
}

void atoll_toolbox_guard_open(struct atoll_toolbox_guard *guard, struct atoll_engine *engine,
                              struct atoll_exec *shell, const char *relay_id)
{
    struct atoll_exec_view view;

    atoll_exec_get(shell, &view);
    guard->engine = engine;
    (void)snprintf(guard->sandbox_id, sizeof(guard->sandbox_id), "%s", view.sandbox_id);
    (void)snprintf(guard->relay_id, sizeof(guard->relay_id), "%s", relay_id);
    if (atoll_reader_open(shell, ATOLL_READ_FROM_END, ATOLL_READ_FROM_END, guard_ready, guard,
                          &guard->end, NULL) == 0)
        guard_ready(guard);
}

void atoll_toolbox_guard_close(struct atoll_toolbox_guard *guard)
{
    guard->end = atoll_reader_close(guard->end);
}

/* Views. */

static const char *text_of(const struct atoll_exec_view *view)
{
    const char *const *argv = view->argv;

    return argv[ATOLL_RELAY_SHELL] && argv[ATOLL_RELAY_ECHO] && argv[ATOLL_RELAY_TEXT]
               ? argv[ATOLL_RELAY_TEXT]
               : "";
}

int atoll_toolbox_command_code(const struct atoll_exec_result *result,
                               const struct atoll_exec_result *shell)
{
    bool is_cut = result->kind == ATOLL_END_KILLED_BY && shell &&
                  strcmp(result->reason, ATOLL_TOOLBOX_WHO) == 0;

    return atoll_exit_code(is_cut ? shell : result);
}

/* The command of a session that has ended has ended, too, even if its relay still waits. */
static void write_command(struct atoll_json_out *out, const struct atoll_exec_view *view,
                          const struct atoll_exec_result *shell)
{
    const char *text = text_of(view);

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", view->id);
    atoll_json_bytes(out, "command", text, strlen(text));
    if (view->result)
        atoll_json_i64(out, "exitCode", atoll_toolbox_command_code(view->result, shell));
    else if (shell)
        atoll_json_i64(out, "exitCode", atoll_exit_code(shell));
    atoll_json_close(out, '}');
}

static int by_start(const void *a, const void *b)
{
    const struct atoll_exec_view *x = a, *y = b;

    if (x->started_unix_ms != y->started_unix_ms)
        return x->started_unix_ms < y->started_unix_ms ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The commands of a session in the order of their start; returns how many. */
static size_t commands_of(struct atoll_sandbox *sandbox, const char *shell_id,
                          struct atoll_exec_view *ret)
{
    const struct atoll_exec *exec;
    size_t count = 0;

    for (size_t pos = 0; (exec = atoll_sandbox_next_exec(sandbox, &pos)) && count < COMMANDS_MAX;) {
        atoll_exec_get(exec, &ret[count]);
        count += is_command_of(&ret[count], shell_id);
    }
    qsort(ret, count, sizeof(*ret), by_start);
    return count;
}

static void write_session(struct atoll_json_out *out, struct atoll_sandbox *sandbox,
                          const struct atoll_exec_view *shell)
{
    struct atoll_exec_view *views = atoll_api_alloc((COMMANDS_MAX + 1) * sizeof(*views));
    size_t count = commands_of(sandbox, shell->id, views);

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "sessionId", shell->argv[SESSION_ID]);
    atoll_json_open(out, "commands", '[');
    for (size_t i = 0; i < count; i++)
        write_command(out, &views[i], shell->result);
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
    free(views);
}

/* Keeps the newest session of each id. */
static void keep_newest(void *arg, struct atoll_exec *exec, const struct atoll_exec_view *view)
{
    struct atoll_map *newest = arg;
    struct atoll_exec *other = atoll_map_get(newest, view->argv[SESSION_ID]);
    struct atoll_exec_view older;

    if (other) {
        atoll_exec_get(other, &older);
        if (view->started_unix_ms < older.started_unix_ms)
            return;
        (void)atoll_map_remove(newest, view->argv[SESSION_ID]);
    }
    if (atoll_map_put(newest, view->argv[SESSION_ID], exec) < 0)
        abort(); /* small objects: the daemon is crash-only */
}

void atoll_daytona_session_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const struct atoll_exec *exec;
    struct atoll_exec_view view;
    struct atoll_map newest;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_map_init(&newest);
    if (sandbox)
        each_session(sandbox, keep_newest, &newest);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    for (size_t pos = 0; (exec = atoll_map_next(&newest, &pos));) {
        atoll_exec_get(exec, &view);
        write_session(&out, sandbox, &view);
    }
    atoll_map_done(&newest);
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_session_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_toolbox_session session;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_toolbox_session_find(call, &session))
        return;
    atoll_api_reply_init(&buf, &out);
    write_session(&out, atoll_engine_find(call->engine, call->params.id), &session.view);
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_command_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_toolbox_session session;
    struct atoll_exec_view view;
    struct atoll_exec *relay;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_toolbox_session_find(call, &session))
        return;
    relay = atoll_toolbox_command_find(call, &session);
    if (!relay)
        return;
    atoll_exec_get(relay, &view);
    atoll_api_reply_init(&buf, &out);
    write_command(&out, &view, session.view.result);
    atoll_api_reply(call, 200, &out);
}

/* The sandbox's own command has no output here: it is not an exec. */
void atoll_daytona_entrypoint_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    static const char text[] =
        "{\"sessionId\":\"" ATOLL_TOOLBOX_ENTRYPOINT "\",\"commands\":["
        "{\"id\":\"entrypoint_command\",\"command\":\"'sleep' 'infinity'\"}]}";

    atoll_api_reply_text(call, 200, "application/json", text, sizeof(text) - 1);
}

/* Create. */

static void created(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_exec_set_resting(exec, true);
    atoll_exec_write(exec, (const uint8_t *)prepare_shell, sizeof(prepare_shell), false, ignore,
                     NULL);
    atoll_api_reply_empty(call, 201);
}

static bool is_new(struct atoll_api_call *call, const char *id)
{
    struct atoll_toolbox_session old;

    if (!id || !*id)
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY,
                             "invalid request body: sessionId must be given");
    else if (strcmp(id, ATOLL_TOOLBOX_ENTRYPOINT) == 0)
        atoll_daytona_refuse(call, 400, NULL, "the session id \"%s\" is reserved", id);
    else if (find(call, id, &old))
        atoll_daytona_refuse(call, 409, NULL, "session already exists");
    else
        return true;
    return false;
}

void atoll_daytona_session_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    static const struct atoll_field fields[] = {
        {"sessionId", ATOLL_FIELD_STRING, 0, 0, ATOLL_TOOLBOX_KEY_MAX, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    struct {
        const char *id;
    } request = {0};
    const char *argv[] = {"sh", "-c", start_shell, ATOLL_TOOLBOX_SESSION_KIND, NULL, NULL};
    const struct atoll_exec_start start = {.argv = argv, .stdin_open = true};
    struct atoll_body body;

    if (!atoll_toolbox_decode(call, &body, bytes, n, fields, &request))
        return;
    if (is_new(call, request.id)) {
        argv[SESSION_ID] = request.id;
        atoll_engine_exec(call->engine, call->params.id, &start, created, call);
    }
    atoll_body_done(&body);
}

/* Delete: ends the shell and all processes that its commands started. */

void atoll_toolbox_drop_commands(struct atoll_sandbox *sandbox, const char *shell_id)
{
    struct atoll_exec_view view;
    struct atoll_exec *exec;

    for (size_t pos = 0; (exec = atoll_sandbox_next_exec(sandbox, &pos));) {
        atoll_exec_get(exec, &view);
        if (!view.result && is_command_of(&view, shell_id))
            atoll_exec_signal(exec, SIGKILL, true, ATOLL_TOOLBOX_WHO, ignore, NULL);
    }
}

static void deleted(void *arg, const struct atoll_error *error)
{
    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 204);
}

static void buried(void *arg, struct atoll_exec *exec ATOLL_UNUSED, const struct atoll_error *error)
{
    deleted(arg, error);
}

/* The end of a process that has ended cannot be changed: an exec that does nothing records that it was
 * deleted. */
void atoll_toolbox_bury(struct atoll_api_call *call, const char *exec_id)
{
    const char *const argv[] = {"sh", "-c", ":", DELETED_KIND, exec_id, NULL};
    const struct atoll_exec_start start = {.argv = argv};

    atoll_engine_exec(call->engine, call->params.id, &start, buried, call);
}

void atoll_daytona_session_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    struct atoll_toolbox_session session;

    if (!atoll_toolbox_session_find(call, &session))
        return;
    atoll_toolbox_drop_commands(atoll_engine_find(call->engine, call->params.id), session.view.id);
    if (session.view.result)
        atoll_toolbox_bury(call, session.view.id);
    else
        atoll_exec_kill(call, session.shell, true, ATOLL_TOOLBOX_WHO_DELETED, deleted);
}
