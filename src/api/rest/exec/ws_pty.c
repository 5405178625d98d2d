/*
 * WebSocket …/pty: a terminal in a sandbox. Binary messages are raw terminal input and output;
 * texts carry {"resize":…} and {"signal":…}. ?exec= reconnects to a running terminal: output
 * produced while no client is connected is kept in the journal.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/exec/ws_exec.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"

#define COMMAND_MAX 4096
#define MESSAGE_MAX ((size_t)1024 * 1024)

/* Runs the first shell that exists. */
static const char find_shell[] = "for s in \"$SHELL\" bash sh; do"
                                 " command -v \"$s\" >/dev/null 2>&1 && exec \"$s\" -l; done";

struct ws_pty {
    struct atoll_ws_exec x; /* first */
    uint64_t cols, rows;
    char user[65], cwd[COMMAND_MAX], command[COMMAND_MAX];
    char exec_id[33]; /* the terminal to reconnect to; "" for a new one */
};

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct ws_pty *p = arg;

    if (error)
        atoll_ws_exec_fail(&p->x, error);
    else if (p->x.ws)
        atoll_ws_exec_bind(&p->x, exec, true);
    atoll_ws_exec_release(&p->x);
}

static void come_back(struct ws_pty *p)
{
    struct atoll_exec_view view;
    struct atoll_error error;
    struct atoll_exec *exec =
        atoll_rest_find_exec(p->x.engine, p->x.sandbox_id, p->exec_id, &error);

    if (exec)
        atoll_exec_get(exec, &view);
    if (exec && !view.pty) {
        (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, ENOTTY,
                         "exec %s has no terminal; its output is at …/execs/%s/output", p->exec_id,
                         p->exec_id);
        exec = NULL;
    }
    if (exec)
        atoll_ws_exec_bind(&p->x, exec, true);
    else
        atoll_ws_exec_fail(&p->x, &error);
}

static void start(struct atoll_ws_exec *x, const uint8_t *bytes ATOLL_UNUSED, size_t n ATOLL_UNUSED)
{
    struct ws_pty *p = (struct ws_pty *)x;
    const char *const argv[] = {"sh", "-c", p->command[0] ? p->command : find_shell, NULL};
    struct atoll_exec_start what = {
        .argv = argv,
        .user = p->user[0] ? p->user : NULL,
        .cwd = p->cwd[0] ? p->cwd : NULL,
        .stdin_open = true,
        .pty = true,
        .is_command = true,
        .cols = (uint32_t)p->cols,
        .rows = (uint32_t)p->rows,
    };

    if (p->exec_id[0]) {
        come_back(p);
        return;
    }
    atoll_ws_exec_hold(x);
    atoll_engine_exec(x->engine, x->sandbox_id, &what, started, p);
}

static void free_pty(struct atoll_ws_exec *x)
{
    free(x);
}

static const struct atoll_ws_exec_ops ops = {
    .max_message = MESSAGE_MAX,
    .raw = true,
    .start = start,
    .ended = atoll_ws_exec_report,
    .gone = atoll_ws_exec_let_go,
    .free = free_pty,
};

static int take_text(const struct atoll_api_call *call, const char *name, char *out, size_t cap,
                     struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, name);

    if (!text || atoll_text_copy(out, cap, text) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                      "?%s= must be shorter than %zu bytes", name, cap);
}

static int take_query(const struct atoll_api_call *call, struct ws_pty *p, struct atoll_error *err)
{
    int r = atoll_api_query_u64(call, "cols", 1, 65535, &p->cols, err);

    if (r == 0)
        r = atoll_api_query_u64(call, "rows", 1, 65535, &p->rows, err);
    if (r == 0)
        r = atoll_api_query_u64(call, "from", 0, INT64_MAX, &p->x.from, err);
    if (r == 0)
        r = take_text(call, "user", p->user, sizeof(p->user), err);
    if (r == 0)
        r = take_text(call, "cwd", p->cwd, sizeof(p->cwd), err);
    if (r == 0)
        r = take_text(call, "command", p->command, sizeof(p->command), err);
    if (r == 0)
        r = take_text(call, "exec", p->exec_id, sizeof(p->exec_id), err);
    return r;
}

void atoll_rest_ws_pty(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct ws_pty *p = atoll_api_alloc(sizeof(*p));
    struct atoll_error error;

    p->cols = 80;
    p->rows = 24;
    if (take_query(call, p, &error) < 0) {
        free(p);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_ws_exec_accept(&p->x, &ops, call);
}
