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
#include "api/kit/exec_pump.h"
#include "api/kit/exit_code.h"
#include "api/kit/origin.h"
#include "api/kit/token.h"
#include "api/vercel/session_internal.h"
#include "api/vercel/vercel_internal.h"
#include "net/websocket.h"

#define PURPOSE "atoll vercel interactive 1"
#define MESSAGE_MAX ((size_t)1024 * 1024)
#define TEXT_MAX ((size_t)4096)
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
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "Session %.64s not found",
                          call->params.name);
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
    struct atoll_api_session session;
    struct atoll_ws *ws; /* owned; NULL after the client disconnected */
    struct atoll_engine *engine;
    struct atoll_loop *loop;
    struct atoll_exec_pump pump;
    struct atoll_buf out;
    unsigned pending; /* callbacks of the engine */
    bool started;
    char sandbox_id[33], exec_id[33]; /* exec_id "": there is no command yet */
};

static void link_release(struct link *l)
{
    if (l->pending > 0 || l->ws)
        return;
    atoll_buf_done(&l->out);
    free(l);
}

static struct atoll_exec *exec_of(const struct link *l)
{
    struct atoll_sandbox *sandbox =
        l->exec_id[0] ? atoll_engine_find(l->engine, l->sandbox_id) : NULL;

    return sandbox ? atoll_sandbox_find_exec(sandbox, l->exec_id) : NULL;
}

static void settled(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct link *l = arg;

    l->pending--;
    link_release(l);
}

static void link_close(struct link *l)
{
    struct atoll_exec *exec = exec_of(l);

    atoll_exec_pump_close(&l->pump);
    if (l->ws) {
        atoll_api_session_remove(&l->session);
        l->ws = atoll_ws_free(l->ws);
    }
    if (!exec) {
        link_release(l);
        return;
    }
    l->pending++;
    atoll_exec_signal(exec, SIGHUP, true, ATOLL_VERCEL_WHO, settled, l);
}

static int send_data(void *arg, int stream ATOLL_UNUSED, uint64_t offset ATOLL_UNUSED,
                     const uint8_t *bytes, size_t n)
{
    struct link *l = arg;

    return atoll_ws_send(l->ws, true, bytes, n);
}

static int send_gap(void *arg, const struct atoll_reader_item *gap ATOLL_UNUSED)
{
    static const char text[] = "\r\n[some output was not kept]\r\n";

    return send_data(arg, 0, 0, (const uint8_t *)text, sizeof(text) - 1);
}

/* Ends the connection with the exit status. */
static void send_exit(struct link *l, int code)
{
    struct atoll_json_out out;

    l->exec_id[0] = '\0';
    atoll_exec_pump_close(&l->pump);
    atoll_buf_clear(&l->out);
    atoll_json_out_init(&out, &l->out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "type", "exit");
    atoll_json_i64(&out, "code", code);
    atoll_json_close(&out, '}');
    if (out.error == 0)
        (void)!atoll_ws_send(l->ws, false, atoll_buf_head(&l->out), atoll_buf_size(&l->out));
    atoll_ws_close(l->ws, ATOLL_WS_NORMAL, NULL);
}

static void pump_ended(void *arg, const struct atoll_exec_result *result)
{
    send_exit(arg, atoll_exit_code(result));
}

static void pump_failed(void *arg, int r)
{
    struct link *l = arg;

    atoll_exec_pump_close(&l->pump);
    atoll_ws_close(l->ws, ATOLL_WS_INTERNAL, strerror(-r));
}

static const struct atoll_exec_pump_ops pump_ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = send_data,
    .gap = send_gap,
    .end = pump_ended,
    .failed = pump_failed,
};

/* Start. */

static void fail_start(struct link *l, const struct atoll_error *error)
{
    char text[ATOLL_ERROR_TEXT_MAX + 2];
    int n = snprintf(text, sizeof(text), "%s\r\n", error->text);

    (void)!atoll_ws_send(l->ws, true, text, ATOLL_MIN((size_t)n, sizeof(text) - 1));
    send_exit(l, NOT_STARTED);
}

static void exec_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct link *l = arg;
    struct atoll_exec_view view;
    struct atoll_error failure;

    l->pending--;
    if (!error) {
        atoll_exec_get(exec, &view);
        (void)snprintf(l->exec_id, sizeof(l->exec_id), "%s", view.id);
    }
    if (!l->ws) {
        link_close(l);
        return;
    }
    atoll_ws_resume(l->ws);
    const struct atoll_exec_pump_config config = {
        .ops = &pump_ops,
        .arg = l,
        .loop = l->loop,
        .ws = l->ws,
        .follow = true,
    };
    if (error)
        fail_start(l, error);
    else if (atoll_exec_pump_open(&l->pump, exec, &config, &failure) < 0)
        fail_start(l, &failure);
    else
        atoll_exec_pump_run(&l->pump);
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
        atoll_ws_close(l->ws, ATOLL_WS_POLICY,
                       l->started ? "the command was started before"
                                  : "command and env must be given as texts");
        return;
    }
    for (size_t i = 0; m->args && m->args[i]; i++)
        argv[1 + i] = m->args[i];
    l->started = true;
    l->pending++;
    atoll_ws_pause(l->ws);
    atoll_engine_exec(l->engine, l->sandbox_id, &what, exec_started, l);
}

static void take_text(struct link *l, const uint8_t *bytes, size_t n)
{
    struct atoll_exec *exec = exec_of(l);
    struct message m = {0};
    struct atoll_body body;
    struct atoll_error error;

    if (atoll_body_decode(&body, bytes, n, fields, &m, &error) < 0) {
        atoll_ws_close(l->ws, ATOLL_WS_POLICY, error.text);
    } else if (m.type && strcmp(m.type, "start") == 0) {
        start(l, &m);
    } else if (m.type && strcmp(m.type, "resize") == 0 && exec && m.cols && m.rows) {
        l->pending++;
        atoll_exec_resize(exec, m.cols, m.rows, settled, l);
    }
    atoll_body_done(&body);
}

/* One message is written at a time; the next is not read meanwhile. */
static void input_taken(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct link *l = arg;

    l->pending--;
    if (l->ws)
        atoll_ws_resume(l->ws);
    else
        link_release(l);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    struct link *l = arg;
    struct atoll_exec *exec;

    if (!binary) {
        take_text(l, bytes, n);
        return;
    }
    exec = exec_of(l);
    if (!exec || n == 0)
        return;
    l->pending++;
    atoll_ws_pause(ws);
    atoll_exec_write(exec, bytes, n, false, input_taken, l);
}

static void on_drain(void *arg, struct atoll_ws *ws ATOLL_UNUSED)
{
    struct link *l = arg;

    atoll_exec_pump_run(&l->pump);
}

static void on_close(void *arg, struct atoll_ws *ws ATOLL_UNUSED, uint16_t code ATOLL_UNUSED)
{
    link_close(arg);
}

static const struct atoll_ws_callbacks ws_callbacks = {on_message, on_drain, on_close};

static void drop(struct atoll_api_session *session)
{
    link_close(ATOLL_CONTAINER_OF(session, struct link, session));
}

void atoll_vercel_interactive_connect(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                      size_t n ATOLL_UNUSED)
{
    struct link *l;
    struct atoll_error error;

    if (!atoll_ws_wanted(call->req)) {
        atoll_vercel_refuse(call, 400, NULL,
                            "this is a WebSocket; the request must ask for an upgrade");
        return;
    }
    l = atoll_api_alloc(sizeof(*l));
    l->engine = call->engine;
    l->loop = atoll_http_loop(call->req);
    l->session.drop = drop;
    (void)snprintf(l->sandbox_id, sizeof(l->sandbox_id), "%.32s", call->params.id);
    if (atoll_ws_accept(call->req, &ws_callbacks, l, MESSAGE_MAX, &l->ws, &error) < 0) {
        free(l);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_buf_init(&l->out, TEXT_MAX);
    atoll_api_session_add(call->api, &l->session);
    call->req = NULL;
    call->upgraded = true;
    atoll_api_drop(call);
}
