/*
 * The WebSocket of a terminal. Any number of clients can be connected; the terminal continues without
 * them. Binary messages are raw input and output, texts of the daemon are control messages.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define MESSAGE_MAX ((size_t)1024 * 1024)
#define TEXT_MAX ((size_t)4096)

struct link {
    struct atoll_toolbox_ws w;
    struct atoll_exec_pump pump;
    struct atoll_buf out;
    unsigned pending; /* callbacks of the engine */
    char exec_id[17];
};

static void link_release(struct link *l)
{
    if (l->pending > 0 || l->w.ws)
        return;
    atoll_buf_done(&l->out);
    free(l);
}

static void link_close(struct link *l)
{
    atoll_exec_pump_close(&l->pump);
    atoll_toolbox_ws_close(&l->w);
    link_release(l);
}

static int send_data(void *arg, int stream ATOLL_UNUSED, uint64_t offset ATOLL_UNUSED,
                     const uint8_t *bytes, size_t n)
{
    struct link *l = arg;

    return atoll_ws_send(l->w.ws, true, bytes, n);
}

/* The screen has lost some output: a client that shows it can have it drawn again. */
static int send_gap(void *arg, const struct atoll_reader_item *gap ATOLL_UNUSED)
{
    static const char text[] = "\r\n[some output was not kept]\r\n";

    return send_data(arg, 0, 0, (const uint8_t *)text, sizeof(text) - 1);
}

static void send_status(struct link *l, const char *status, const char *error)
{
    struct atoll_json_out out = atoll_toolbox_ws_begin(&l->out, "control");

    atoll_json_text(&out, "status", status);
    if (error)
        atoll_json_text(&out, "error", error);
    atoll_toolbox_ws_send(&l->w, &out);
}

static void write_end(struct atoll_json_out *out, const struct atoll_exec_result *result)
{
    const char *signal = result->kind == ATOLL_END_EXITED || result->signal == 0
                             ? NULL
                             : sigabbrev_np(result->signal);
    char reason[24];

    atoll_json_i64(out, "exitCode", atoll_exit_code(result));
    if (!signal)
        return;
    (void)snprintf(reason, sizeof(reason), "SIG%s", signal);
    atoll_json_text(out, "exitReason", reason);
}

static void send_end(void *arg, const struct atoll_exec_result *result)
{
    struct link *l = arg;
    bool is_good = result->kind == ATOLL_END_EXITED && result->code == 0;
    struct atoll_json_out out = atoll_toolbox_ws_begin(&l->out, "control");

    atoll_exec_pump_close(&l->pump);
    atoll_json_text(&out, "status", "exited");
    write_end(&out, result);
    atoll_toolbox_ws_send(&l->w, &out);
    atoll_buf_clear(&l->out);
    atoll_json_out_init(&out, &l->out);
    atoll_json_open(&out, NULL, '{');
    write_end(&out, result);
    atoll_json_close(&out, '}');
    atoll_ws_close(l->w.ws, is_good ? ATOLL_WS_NORMAL : ATOLL_WS_INTERNAL, atoll_buf_str(&l->out));
}

static void link_fail(struct link *l, const char *text)
{
    atoll_exec_pump_close(&l->pump);
    send_status(l, "error", text);
    atoll_ws_close(l->w.ws, ATOLL_WS_INTERNAL, text);
}

static void failed(void *arg, int r)
{
    link_fail(arg, strerror(-r));
}

static const struct atoll_exec_pump_ops pump_ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = send_data,
    .gap = send_gap,
    .end = send_end,
    .failed = failed,
};

/* One message is written at a time; the next is not read meanwhile. */
static void input_taken(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct link *l = arg;

    l->pending--;
    if (l->w.ws)
        atoll_ws_resume(l->w.ws);
    else
        link_release(l);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary ATOLL_UNUSED,
                       const uint8_t *bytes, size_t n)
{
    struct link *l = arg;
    struct atoll_sandbox *sandbox = atoll_engine_find(l->w.engine, l->w.sandbox_id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, l->exec_id) : NULL;

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
    link_close(ATOLL_CONTAINER_OF(session, struct link, w.session));
}

void atoll_toolbox_pty_attach(struct atoll_api_call *call, struct atoll_exec *exec, uint64_t from)
{
    struct link *l = atoll_api_alloc(sizeof(*l));
    struct atoll_exec_view view;
    struct atoll_error error;

    atoll_exec_get(exec, &view);
    (void)snprintf(l->exec_id, sizeof(l->exec_id), "%s", view.id);
    atoll_buf_init(&l->out, TEXT_MAX);
    if (!atoll_toolbox_ws_accept(&l->w, call, &ws_callbacks, l, MESSAGE_MAX, drop)) {
        link_release(l);
        return;
    }
    const struct atoll_exec_pump_config config = {
        .ops = &pump_ops,
        .arg = l,
        .loop = l->w.loop,
        .ws = l->w.ws,
        .from = {from, from},
        .follow = true,
    };
    if (atoll_exec_pump_open(&l->pump, exec, &config, &error) < 0) {
        link_fail(l, error.text);
        return;
    }
    send_status(l, "connected", NULL);
    atoll_exec_pump_run(&l->pump);
}
