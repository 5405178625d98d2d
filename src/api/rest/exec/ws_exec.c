#include "api/rest/exec/ws_exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/errors.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/log.h"

#define FIRST_MESSAGE_MS (30 * 1000)
#define TEXT_MAX ((size_t)64 * 1024)
#define CHANNEL_STDIN 0
#define AGAIN_MS 500

void atoll_ws_exec_hold(struct atoll_ws_exec *x)
{
    x->pending++;
}

void atoll_ws_exec_release(struct atoll_ws_exec *x)
{
    if (--x->pending > 0 || x->ws)
        return;
    atoll_api_session_remove(&x->session);
    atoll_buf_done(&x->out);
    x->ops->free(x);
}

/* A failed send means that the client has disconnected; on_close follows. */
static void send_text(struct atoll_ws_exec *x, const struct atoll_buf *text)
{
    if (x->ws)
        (void)!atoll_ws_send(x->ws, false, atoll_buf_head(text), atoll_buf_size(text));
}

static void stop_reading(struct atoll_ws_exec *x)
{
    atoll_exec_pump_close(&x->pump);
    atoll_timer_cancel(&x->timer);
}

void atoll_ws_exec_fail(struct atoll_ws_exec *x, const struct atoll_error *error)
{
    bool is_internal = atoll_api_status_of(error) == 500;
    struct atoll_json_out out;
    struct atoll_buf text;

    if (is_internal)
        atoll_log(ATOLL_LOG_ERROR, "request failed", "sandbox", x->sandbox_id, "error", error->text,
                  "request_id", x->request_id, NULL);
    stop_reading(x);
    if (!x->ws)
        return;
    atoll_buf_init(&text, TEXT_MAX);
    atoll_json_out_init(&out, &text);
    atoll_json_open(&out, NULL, '{');
    atoll_api_error_write(&out, error, x->request_id, x->operators_file);
    atoll_json_close(&out, '}');
    send_text(x, &text);
    atoll_buf_done(&text);
    atoll_ws_close(x->ws, is_internal ? ATOLL_WS_INTERNAL : ATOLL_WS_POLICY, NULL);
}

void atoll_ws_exec_progress(struct atoll_ws_exec *x, const char *text)
{
    struct atoll_json_out out;

    atoll_buf_clear(&x->out);
    atoll_json_out_init(&out, &x->out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_bytes(&out, "progress", (const uint8_t *)text, strlen(text));
    atoll_json_close(&out, '}');
    /* Progress is dropped for a client that does not read. */
    if (x->ws && out.error == 0 && atoll_ws_pending(x->ws) < TEXT_MAX)
        send_text(x, &x->out);
}

void atoll_ws_exec_finish(struct atoll_ws_exec *x, const struct atoll_buf *text)
{
    stop_reading(x);
    send_text(x, text);
    if (x->ws)
        atoll_ws_close(x->ws, ATOLL_WS_NORMAL, NULL);
}

/* From the command to the client. */

static int send_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct atoll_ws_exec *x = arg;
    uint8_t channel = (uint8_t)stream;
    int r;

    if (x->ops->raw)
        return atoll_ws_send(x->ws, true, bytes, n);
    atoll_buf_clear(&x->out);
    r = atoll_buf_append(&x->out, &channel, 1);
    if (r == 0)
        r = atoll_buf_append(&x->out, bytes, n);
    return r < 0 ? r : atoll_ws_send(x->ws, true, atoll_buf_head(&x->out), atoll_buf_size(&x->out));
}

static int send_gap(void *arg, const struct atoll_reader_item *gap)
{
    struct atoll_ws_exec *x = arg;
    struct atoll_json_out out;

    atoll_buf_clear(&x->out);
    atoll_json_out_init(&out, &x->out);
    atoll_json_open(&out, NULL, '{');
    atoll_view_gap(&out, gap);
    atoll_json_close(&out, '}');
    return out.error < 0
               ? out.error
               : atoll_ws_send(x->ws, false, atoll_buf_head(&x->out), atoll_buf_size(&x->out));
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct atoll_ws_exec *x = arg;

    x->ops->ended(x, result);
}

static void failed(void *arg, int r)
{
    struct atoll_error error;

    (void)atoll_fail_errno(&error, -r, "sending the output of a command");
    atoll_ws_exec_fail(arg, &error);
}

static const struct atoll_exec_pump_ops pump_ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = send_data,
    .gap = send_gap,
    .end = ended,
    .failed = failed,
};

/* From the client to the command. */

static struct atoll_exec *running_exec(const struct atoll_ws_exec *x)
{
    struct atoll_exec *exec = atoll_rest_find_exec(x->engine, x->sandbox_id, x->exec_id, NULL);
    struct atoll_exec_view view;

    if (!exec)
        return NULL;
    atoll_exec_get(exec, &view);
    return view.result ? NULL : exec;
}

static void kill_command(void *arg);

static void on_kill_tried(void *arg, const struct atoll_error *error)
{
    struct atoll_ws_exec *x = arg;

    if (error && !atoll_rest_input_unwanted(error))
        atoll_timer_set(&x->kill_retry, x->loop, AGAIN_MS, kill_command, x);
    else
        atoll_ws_exec_release(x);
}

/* Kills the command, unless it has ended. The result of the command shows the reason. */
static void kill_command(void *arg)
{
    struct atoll_ws_exec *x = arg;
    struct atoll_exec *exec = running_exec(x);

    if (exec)
        atoll_exec_signal(exec, 9, true, ATOLL_REST_WHO_INPUT, on_kill_tried, x);
    else
        atoll_ws_exec_release(x);
}

static void input_taken(void *arg, const struct atoll_error *error)
{
    struct atoll_ws_exec *x = arg;

    if (x->ws)
        atoll_ws_resume(x->ws);
    /* It is not a failure if the command has ended or closed its stdin. After any other failure
     * the command has lost input and is killed: it must not mistake later input for all of it. */
    if (error && !atoll_rest_input_unwanted(error) && running_exec(x)) {
        x->input_closed = true;
        kill_command(x);
        return;
    }
    atoll_ws_exec_release(x);
}

static void refuse(struct atoll_ws_exec *x, const char *text)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
    atoll_ws_exec_fail(x, &error);
}

static void on_input(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n)
{
    size_t skip = x->ops->raw ? 0 : 1; /* the channel byte */
    struct atoll_exec *exec;

    if (!x->ops->raw && (n == 0 || bytes[0] != CHANNEL_STDIN)) {
        refuse(x, "a binary message must begin with the byte 0, for standard input");
        return;
    }
    if (!x->takes_input) {
        refuse(x, "standard input is not open; send \"stdin\":true in the first message");
        return;
    }
    exec = atoll_rest_find_exec(x->engine, x->sandbox_id, x->exec_id, NULL);
    if (!exec || x->input_closed)
        return;
    x->input_closed = !x->ops->raw && n == skip;
    atoll_ws_pause(x->ws);
    atoll_ws_exec_hold(x);
    atoll_exec_write(exec, bytes + skip, n - skip, x->input_closed, input_taken, x);
}

struct control {
    struct atoll_rest_size resize;
    bool has_resize;
    struct atoll_rest_signal signal;
};

static const struct atoll_field control_fields[] = {
    {"resize", ATOLL_FIELD_OBJECT, offsetof(struct control, resize), 0, 0, atoll_rest_size_fields,
     offsetof(struct control, has_resize)},
    {"signal", ATOLL_FIELD_JSON, offsetof(struct control, signal.signal), 0, 0, NULL, 0},
    {"tree", ATOLL_FIELD_BOOL, offsetof(struct control, signal.tree), 0, 0, NULL, 0},
    {0},
};

static int act(struct atoll_ws_exec *x, const struct control *c, struct atoll_error *err)
{
    struct atoll_exec *exec = atoll_rest_find_exec(x->engine, x->sandbox_id, x->exec_id, NULL);
    int r = 0, signo;

    if (c->has_resize)
        r = atoll_rest_size_check(&c->resize, err);
    if (r == 0 && c->has_resize && exec)
        atoll_exec_resize(exec, c->resize.cols, c->resize.rows, atoll_rest_ignore, NULL);
    if (r < 0 || !c->signal.signal)
        return r;
    r = atoll_rest_signal_check(&c->signal, &signo, err);
    if (r == 0 && exec)
        atoll_exec_signal(exec, signo, c->signal.tree, ATOLL_REST_WHO, atoll_rest_ignore, NULL);
    return r;
}

static void on_control(struct atoll_ws_exec *x, const uint8_t *bytes, size_t n)
{
    struct control control = {0};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, control_fields, &control, &error);

    if (r == 0)
        r = act(x, &control, &error);
    if (r < 0)
        atoll_ws_exec_fail(x, &error);
    atoll_body_done(&body);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    struct atoll_ws_exec *x = arg;

    if (x->started && binary) {
        on_input(x, bytes, n);
    } else if (x->started) {
        on_control(x, bytes, n);
    } else if (binary) {
        refuse(x, "the first message must be a text: the command to run, in JSON");
    } else {
        x->started = true;
        atoll_timer_cancel(&x->timer);
        atoll_ws_pause(ws);
        x->ops->start(x, bytes, n);
    }
}

static void on_drain(void *arg, struct atoll_ws *ws ATOLL_UNUSED)
{
    struct atoll_ws_exec *x = arg;

    atoll_exec_pump_run(&x->pump);
}

static void on_close(void *arg, struct atoll_ws *ws, uint16_t code)
{
    struct atoll_ws_exec *x = arg;

    (void)code;
    atoll_ws_exec_hold(x);
    stop_reading(x);
    x->ws = atoll_ws_free(ws);
    x->ops->gone(x);
    atoll_ws_exec_release(x);
}

static const struct atoll_ws_callbacks callbacks = {
    .on_message = on_message,
    .on_drain = on_drain,
    .on_close = on_close,
};

/* The daemon is shutting down. Pending callbacks of the engine keep x until they have run. */
static void drop(struct atoll_api_session *session)
{
    struct atoll_ws_exec *x = ATOLL_CONTAINER_OF(session, struct atoll_ws_exec, session);

    atoll_ws_exec_hold(x);
    stop_reading(x);
    x->ws = atoll_ws_free(x->ws);
    atoll_ws_exec_release(x);
}

static void first_message_late(void *arg)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "the first message did not arrive within %d s", FIRST_MESSAGE_MS / 1000);
    atoll_ws_exec_fail(arg, &error);
}

void atoll_ws_exec_accept(struct atoll_ws_exec *x, const struct atoll_ws_exec_ops *ops,
                          struct atoll_api_call *call)
{
    struct atoll_error error;

    x->ops = ops;
    x->engine = call->engine;
    x->loop = atoll_http_loop(call->req);
    atoll_buf_init(&x->out, ATOLL_EXEC_PUMP_SLICE_MAX + TEXT_MAX);
    x->operators_file = atoll_api_operators_file(call);
    memcpy(x->tenant, call->caller.tenant, sizeof(x->tenant));
    memcpy(x->sandbox_id, call->params.id, sizeof(x->sandbox_id));
    memcpy(x->request_id, call->request_id, sizeof(x->request_id));
    if (atoll_ws_accept(call->req, &callbacks, x, ops->max_message, &x->ws, &error) < 0) {
        atoll_api_fail(call, &error);
        ops->free(x);
        return;
    }
    atoll_api_session_add(call->api, &x->session);
    x->session.drop = drop;
    call->req = NULL;
    call->upgraded = true;
    atoll_api_drop(call);
    if (ops->raw) {
        x->started = true;
        atoll_ws_pause(x->ws);
        ops->start(x, NULL, 0);
    } else {
        atoll_timer_set(&x->timer, x->loop, FIRST_MESSAGE_MS, first_message_late, x);
    }
}

static void greet(struct atoll_ws_exec *x)
{
    struct atoll_json_out out;

    atoll_buf_clear(&x->out);
    atoll_json_out_init(&out, &x->out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "sandbox_id", x->sandbox_id);
    atoll_json_text(&out, "exec_id", x->exec_id);
    atoll_json_close(&out, '}');
    send_text(x, &x->out);
}

void atoll_ws_exec_bind(struct atoll_ws_exec *x, struct atoll_exec *exec, bool takes_input)
{
    const struct atoll_exec_pump_config config = {
        .ops = &pump_ops,
        .arg = x,
        .loop = x->loop,
        .ws = x->ws,
        .from = {x->from_end ? ATOLL_READ_FROM_END : x->from,
                 x->from_end ? ATOLL_READ_FROM_END : 0},
        .follow = true};
    struct atoll_exec_view view;
    struct atoll_error error;

    atoll_exec_get(exec, &view);
    (void)snprintf(x->exec_id, sizeof(x->exec_id), "%s", view.id);
    x->takes_input = takes_input;
    greet(x);
    if (atoll_exec_pump_open(&x->pump, exec, &config, &error) < 0) {
        atoll_ws_exec_fail(x, &error);
        return;
    }
    atoll_ws_resume(x->ws);
    atoll_exec_pump_run(&x->pump);
}

void atoll_ws_exec_report(struct atoll_ws_exec *x, const struct atoll_exec_result *result)
{
    struct atoll_json_out out;

    atoll_buf_clear(&x->out);
    atoll_json_out_init(&out, &x->out);
    atoll_json_open(&out, NULL, '{');
    atoll_view_result(&out, "result", result);
    atoll_json_close(&out, '}');
    atoll_ws_exec_finish(x, &x->out);
}

void atoll_ws_exec_let_go(struct atoll_ws_exec *x)
{
    (void)x;
}
