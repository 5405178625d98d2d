/*
 * The WebSocket of a terminal. Any number of clients can be connected; the terminal continues without
 * them. Texts of the daemon are control messages, those of clients are input.
 */
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/kit/terminal.h"

#define MESSAGE_MAX ((size_t)1024 * 1024)

static void send_status(struct atoll_terminal *t, const char *status, const char *error)
{
    struct atoll_json_out out = atoll_toolbox_ws_begin(&t->out, "control");

    atoll_json_text(&out, "status", status);
    if (error)
        atoll_json_text(&out, "error", error);
    atoll_toolbox_ws_send(&t->w, &out);
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

static void send_end(struct atoll_terminal *t, const struct atoll_exec_result *result)
{
    bool is_good = result->kind == ATOLL_END_EXITED && result->code == 0;
    struct atoll_json_out out = atoll_toolbox_ws_begin(&t->out, "control");

    atoll_json_text(&out, "status", "exited");
    write_end(&out, result);
    atoll_toolbox_ws_send(&t->w, &out);
    atoll_buf_clear(&t->out);
    atoll_json_out_init(&out, &t->out);
    atoll_json_open(&out, NULL, '{');
    write_end(&out, result);
    atoll_json_close(&out, '}');
    atoll_ws_close(t->w.ws, is_good ? ATOLL_WS_NORMAL : ATOLL_WS_INTERNAL, atoll_buf_str(&t->out));
}

static void send_failure(struct atoll_terminal *t, const char *why)
{
    send_status(t, "error", why);
    atoll_ws_close(t->w.ws, ATOLL_WS_INTERNAL, why);
}

static const struct atoll_terminal_ops ops = {
    .max_message = MESSAGE_MAX,
    .ended = send_end,
    .failed = send_failure,
};

void atoll_toolbox_pty_attach(struct atoll_api_call *call, struct atoll_exec *exec, uint64_t from)
{
    struct atoll_terminal *t = atoll_api_alloc(sizeof(*t));
    struct atoll_error error;

    atoll_toolbox_ws_choose(call->req);
    if (!atoll_terminal_open(t, call, &ops))
        return;
    atoll_terminal_set(t, exec);
    if (atoll_terminal_read(t, exec, from, &error) < 0) {
        send_failure(t, error.text);
        return;
    }
    send_status(t, "connected", NULL);
    atoll_exec_pump_run(&t->pump);
}
