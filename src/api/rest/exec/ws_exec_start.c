/*
 * WebSocket …/execs/stream: starts a command in a sandbox, or attaches to a running one, and carries
 * its input and output. If the client disconnects, the command continues; …/output returns the rest
 * of its output.
 */
#include <errno.h>
#include "api/rest/exec/ws_exec.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

struct ws_exec_start {
    struct atoll_ws_exec x; /* first */
    struct atoll_body body;
    struct atoll_rest_input input; /* borrowed from body */
};

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct ws_exec_start *s = arg;

    if (error) {
        atoll_ws_exec_fail(&s->x, error);
    } else {
        atoll_rest_input_send(exec, &s->input);
        if (s->x.ws)
            atoll_ws_exec_bind(&s->x, exec, s->input.open);
    }
    atoll_body_done(&s->body);
    atoll_ws_exec_release(&s->x);
}

struct attach_fields {
    const char *exec_id; /* NULL: a new command */
};

static const struct atoll_field attach_fields[] = {
    {"exec_id", ATOLL_FIELD_STRING, offsetof(struct attach_fields, exec_id), 1, 32, NULL, 0},
    {0},
};

static int attach(struct ws_exec_start *s, const char *exec_id,
                  const struct atoll_rest_exec *request, struct atoll_error *err)
{
    struct atoll_ws_exec *x = &s->x;
    struct atoll_exec_view view;
    struct atoll_exec *exec;

    if (request->argv || request->env || request->user || request->cwd || request->timeout_ms)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "exec_id attaches to a running command; omit cmd, env, user, cwd and "
                          "timeoutSeconds");
    exec = atoll_rest_find_exec(x->engine, x->sandbox_id, exec_id, err);
    if (!exec)
        return -ENOENT;
    atoll_exec_get(exec, &view);
    if (view.pty && request->has_pty && request->pty.cols && request->pty.rows)
        atoll_exec_resize(exec, request->pty.cols, request->pty.rows, atoll_rest_ignore, NULL);
    x->from_end = true;
    atoll_ws_exec_bind(x, exec, json_is_true(request->stdin_json));
    return 0;
}

static void start(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n)
{
    struct ws_exec_start *s = (struct ws_exec_start *)x;
    struct atoll_rest_exec request = {0};
    struct attach_fields to = {0};
    const struct atoll_field_set sets[] = {{atoll_rest_exec_fields, &request},
                                           {attach_fields, &to}};
    struct atoll_exec_start what;
    struct atoll_error error;
    int r = atoll_body_parse(&s->body, bytes, n, &error);

    if (r == 0)
        r = atoll_fields_decode(&s->body, s->body.root, "", sets, ATOLL_ARRAY_LEN(sets), &error);
    if (r == 0)
        r = to.exec_id ? attach(s, to.exec_id, &request, &error)
                       : atoll_rest_exec_check(&request, &what, &s->input, &error);
    if (r < 0) {
        atoll_ws_exec_fail(x, &error);
    } else if (!to.exec_id) {
        atoll_ws_exec_hold(x);
        atoll_engine_exec(x->engine, x->sandbox_id, &what, started, s);
    }
}

static void free_stream(struct atoll_ws_exec *x)
{
    struct ws_exec_start *s = (struct ws_exec_start *)x;

    atoll_body_done(&s->body);
    free(s);
}

static const struct atoll_ws_exec_ops ops = {
    .max_message = ATOLL_BODY_JSON,
    .start = start,
    .ended = atoll_ws_exec_report,
    .gone = atoll_ws_exec_let_go,
    .free = free_stream,
};

void atoll_rest_ws_exec(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    struct ws_exec_start *s = atoll_api_alloc(sizeof(*s));

    atoll_ws_exec_accept(&s->x, &ops, call);
}
