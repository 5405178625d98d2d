/*
 * Terminals of a session, as `sandbox sh` uses them: a request gives the client a URL and a token, with
 * which it opens a WebSocket. Text messages of the client are {"type":"start"} and {"type":"resize"}; binary
 * messages are bytes of the terminal, in both directions; the last message is {"type":"exit"}. A
 * terminal ends with its client, since no request could find it again.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/exit_code.h"
#include "api/kit/origin.h"
#include "api/kit/terminal.h"
#include "api/kit/token.h"
#include "api/vercel/session_internal.h"
#include "api/vercel/vercel_internal.h"

#define PURPOSE "atoll vercel interactive 1"
#define MESSAGE_MAX ((size_t)1024 * 1024)
#define ARGS_MAX 1000
#define ENV_MAX 1000
#define SIZE_MAX_CELLS 1000
#define NOT_STARTED 127 /* exit status of a command that cannot be started, as of a shell */

/* Opening. */

void atoll_vercel_interactive_open(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                   size_t n ATOLL_UNUSED)
{
    char origin[ATOLL_ORIGIN_MAX], url[ATOLL_ORIGIN_MAX + 128], token[ATOLL_TOKEN_LEN + 1];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_origin(call->api, call->req, origin);
    /* "http" becomes "ws", "https" becomes "wss". */
    (void)snprintf(url, sizeof(url), "ws%s" ATOLL_VERCEL_INTERACTIVE "/%s", origin + 4,
                   call->params.name);
    atoll_token_make(call->api, PURPOSE, call->params.name, token);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "url", url);
    atoll_json_text(&out, "token", token);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* The token is in the query, in place of a key. */
static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    char id[ATOLL_ID_LEN + 1], token[ATOLL_TOKEN_LEN + 1];
    int64_t number;

    if (!call->route)
        return 0;
    atoll_token_make(call->api, PURPOSE, call->params.name, token);
    if (!atoll_token_fits(atoll_http_query(call->req, "token"), token) ||
        !atoll_vercel_sid_read(call->params.name, id, &number))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, 0, "?token= is not the token of this session");
    (void)snprintf(call->params.id, sizeof(call->params.id), "%s", id);
    if (!atoll_engine_find(call->engine, id))
        return atoll_vercel_missing("Session", call->params.name, err);
    atoll_api_act_for_owner(call, ATOLL_SCOPE_WRITE, "token of the session");
    return 0;
}

static const struct atoll_protocol protocol = {.fail = atoll_vercel_fail, .admit = admit};

static const struct atoll_route rows[] = {
    {ATOLL_GET, ATOLL_VERCEL_INTERACTIVE "/{sid}", ATOLL_SCOPE_PUBLIC, ATOLL_BODY_NONE,
     atoll_vercel_interactive_connect, NULL},
};
const struct atoll_routes atoll_vercel_interactive_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &protocol, atoll_vercel_params, ATOLL_VERCEL_PARAM_COUNT};

/* The connection. */

struct link {
    struct atoll_terminal t; /* the first member */
    bool started;
};

/* No request could find the command again. */
static void hang_up(struct atoll_terminal *t, struct atoll_exec *exec)
{
    atoll_terminal_hold(t);
    atoll_exec_signal(exec, SIGHUP, true, ATOLL_VERCEL_WHO, atoll_terminal_settled, t);
}

/* Ends the connection with the exit status. */
static void send_exit(struct atoll_terminal *t, int code)
{
    struct atoll_json_out out;

    t->exec_id[0] = '\0';
    atoll_buf_clear(&t->out);
    atoll_json_out_init(&out, &t->out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "type", "exit");
    atoll_json_i64(&out, "code", code);
    atoll_json_close(&out, '}');
    atoll_ws_link_send(&t->w, &out);
    atoll_ws_close(t->w.ws, ATOLL_WS_NORMAL, NULL);
}

static void ended(struct atoll_terminal *t, const struct atoll_exec_result *result)
{
    send_exit(t, atoll_exit_code(result));
}

static void failed(struct atoll_terminal *t, const char *why)
{
    atoll_ws_close(t->w.ws, ATOLL_WS_INTERNAL, why);
}

/* Start. */

static void fail_start(struct atoll_terminal *t, const struct atoll_error *error)
{
    char text[ATOLL_ERROR_TEXT_MAX + 2];
    int n = snprintf(text, sizeof(text), "%s\r\n", error->text);

    (void)!atoll_ws_send(t->w.ws, true, text, ATOLL_MIN((size_t)n, sizeof(text) - 1));
    send_exit(t, NOT_STARTED);
}

static void show(struct atoll_terminal *t, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_error failure;

    atoll_ws_resume(t->w.ws);
    if (!t->w.ws)
        return; /* the client had closed it: see hang_up() */
    if (error)
        fail_start(t, error);
    else if (atoll_terminal_read(t, exec, 0, &failure) < 0)
        fail_start(t, &failure);
    else
        atoll_exec_pump_run(&t->pump);
}

static void exec_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_terminal *t = arg;

    if (!error)
        atoll_terminal_set(t, exec);
    if (t->w.ws)
        show(t, exec, error);
    else if (!error)
        hang_up(t, exec);
    atoll_terminal_release(t);
}

struct message {
    const char *type, *command, *cwd;
    const char *const *args, *const *env;
    uint32_t cols, rows;
};

#define AT(member) offsetof(struct message, member)
static const struct atoll_field fields[] = {
    {"type", ATOLL_FIELD_STRING, AT(type), 1, 16, NULL, 0},
    {"command", ATOLL_FIELD_STRING, AT(command), 1, (double)MESSAGE_MAX, NULL, 0},
    {"args", ATOLL_FIELD_STRINGS, AT(args), 0, ARGS_MAX, NULL, 0},
    {"env", ATOLL_FIELD_STRINGS, AT(env), 0, ENV_MAX, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, ATOLL_VERCEL_PATH_MAX, NULL, 0},
    {"cols", ATOLL_FIELD_U32, AT(cols), 0, SIZE_MAX_CELLS, NULL, 0},
    {"rows", ATOLL_FIELD_U32, AT(rows), 0, SIZE_MAX_CELLS, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static bool are_variables(const char *const *env)
{
    for (size_t i = 0; env && env[i]; i++)
        if (*env[i] == '=' || !strchr(env[i], '='))
            return false;
    return true;
}

static void start(struct link *l, const struct message *m)
{
    const char *argv[1 + ARGS_MAX + 1] = {m->command};
    const struct atoll_exec_start what = {
        .argv = argv,
        .env = m->env,
        .cwd = m->cwd && *m->cwd == '/' ? m->cwd : NULL,
        .stdin_open = true,
        .pty = true,
        .cols = m->cols ? m->cols : 80,
        .rows = m->rows ? m->rows : 24,
    };

    if (l->started || !m->command || !are_variables(m->env)) {
        atoll_ws_close(l->t.w.ws, ATOLL_WS_POLICY,
                       l->started ? "the command was started before"
                                  : "command and env must be given as texts");
        return;
    }
    for (size_t i = 0; m->args && m->args[i]; i++)
        argv[1 + i] = m->args[i];
    l->started = true;
    atoll_terminal_hold(&l->t);
    atoll_ws_pause(l->t.w.ws);
    atoll_engine_exec(l->t.w.engine, l->t.w.sandbox_id, &what, exec_started, &l->t);
}

static void take_text(struct atoll_terminal *t, const uint8_t *bytes, size_t n)
{
    struct link *l = ATOLL_CONTAINER_OF(t, struct link, t);
    struct atoll_exec *exec = atoll_terminal_exec(t);
    struct message m = {0};
    struct atoll_body body;
    struct atoll_error error;

    if (atoll_body_decode(&body, bytes, n, fields, &m, &error) < 0) {
        atoll_ws_close(t->w.ws, ATOLL_WS_POLICY, error.text);
    } else if (m.type && strcmp(m.type, "start") == 0) {
        start(l, &m);
    } else if (m.type && strcmp(m.type, "resize") == 0 && exec && m.cols && m.rows) {
        atoll_terminal_hold(t);
        atoll_exec_resize(exec, m.cols, m.rows, atoll_terminal_settled, t);
    }
    atoll_body_done(&body);
}

static const struct atoll_terminal_ops ops = {
    .max_message = MESSAGE_MAX,
    .text = take_text,
    .ended = ended,
    .failed = failed,
    .left = hang_up,
};

void atoll_vercel_interactive_connect(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                      size_t n ATOLL_UNUSED)
{
    struct link *l;

    if (!atoll_ws_wanted(call->req)) {
        atoll_vercel_refuse(call, 400, NULL,
                            "this is a WebSocket; the request must ask for an upgrade");
        return;
    }
    l = atoll_api_alloc(sizeof(*l));
    (void)atoll_terminal_open(&l->t, call, &ops);
}
