#include "api/kit/terminal.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX ((size_t)4096)

/* Lifetime. */

void atoll_terminal_hold(struct atoll_terminal *t)
{
    t->pending++;
}

static void free_unused(struct atoll_terminal *t)
{
    if (t->pending > 0 || t->w.ws)
        return;
    atoll_buf_done(&t->out);
    free(t);
}

void atoll_terminal_release(struct atoll_terminal *t)
{
    t->pending--;
    free_unused(t);
}

void atoll_terminal_settled(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    atoll_terminal_release(arg);
}

void atoll_terminal_set(struct atoll_terminal *t, const struct atoll_exec *exec)
{
    struct atoll_exec_view view;

    atoll_exec_get(exec, &view);
    (void)snprintf(t->exec_id, sizeof(t->exec_id), "%s", view.id);
}

struct atoll_exec *atoll_terminal_exec(const struct atoll_terminal *t)
{
    struct atoll_sandbox *sandbox =
        t->exec_id[0] ? atoll_engine_find(t->w.engine, t->w.sandbox_id) : NULL;

    return sandbox ? atoll_sandbox_find_exec(sandbox, t->exec_id) : NULL;
}

void atoll_terminal_close(struct atoll_terminal *t)
{
    struct atoll_exec *exec = atoll_terminal_exec(t);

    atoll_terminal_hold(t);
    atoll_exec_pump_close(&t->pump);
    atoll_ws_link_close(&t->w);
    if (exec && t->ops->left)
        t->ops->left(t, exec);
    atoll_terminal_release(t);
}

/* Output. */

static int send_data(void *arg, int stream ATOLL_UNUSED, uint64_t offset ATOLL_UNUSED,
                     const uint8_t *bytes, size_t n)
{
    struct atoll_terminal *t = arg;

    return atoll_ws_send(t->w.ws, true, bytes, n);
}

/* The screen has lost some output: a client that shows it can have it drawn again. */
static int send_gap(void *arg, const struct atoll_reader_item *gap ATOLL_UNUSED)
{
    static const char text[] = "\r\n[some output was not kept]\r\n";

    return send_data(arg, 0, 0, (const uint8_t *)text, sizeof(text) - 1);
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct atoll_terminal *t = arg;

    atoll_exec_pump_close(&t->pump);
    t->ops->ended(t, result);
}

static void failed(void *arg, int r)
{
    struct atoll_terminal *t = arg;

    atoll_exec_pump_close(&t->pump);
    t->ops->failed(t, strerror(-r));
}

static const struct atoll_exec_pump_ops pump_ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = send_data,
    .gap = send_gap,
    .end = ended,
    .failed = failed,
};

int atoll_terminal_read(struct atoll_terminal *t, struct atoll_exec *exec, uint64_t from,
                        struct atoll_error *err)
{
    const struct atoll_exec_pump_config config = {
        .ops = &pump_ops,
        .arg = t,
        .loop = t->w.loop,
        .ws = t->w.ws,
        .from = {from, from},
        .follow = true,
    };
    int r = atoll_exec_pump_open(&t->pump, exec, &config, err);

    if (r < 0)
        atoll_exec_pump_close(&t->pump);
    return r;
}

/* Input. */

/* One message is written at a time; the next is not read meanwhile. */
static void input_taken(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    struct atoll_terminal *t = arg;

    if (t->w.ws)
        atoll_ws_resume(t->w.ws);
    atoll_terminal_release(t);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    struct atoll_terminal *t = arg;
    struct atoll_exec *exec;

    if (!binary && t->ops->text) {
        t->ops->text(t, bytes, n);
        return;
    }
    exec = atoll_terminal_exec(t);
    if (!exec || n == 0)
        return;
    atoll_terminal_hold(t);
    atoll_ws_pause(ws);
    atoll_exec_write(exec, bytes, n, false, input_taken, t);
}

static void on_drain(void *arg, struct atoll_ws *ws ATOLL_UNUSED)
{
    struct atoll_terminal *t = arg;

    atoll_exec_pump_run(&t->pump);
}

static void on_close(void *arg, struct atoll_ws *ws ATOLL_UNUSED, uint16_t code ATOLL_UNUSED)
{
    atoll_terminal_close(arg);
}

static const struct atoll_ws_callbacks ws_callbacks = {on_message, on_drain, on_close};

static void drop(struct atoll_api_session *session)
{
    atoll_terminal_close(ATOLL_CONTAINER_OF(session, struct atoll_terminal, w.session));
}

bool atoll_terminal_open(struct atoll_terminal *t, struct atoll_api_call *call,
                         const struct atoll_terminal_ops *ops)
{
    t->ops = ops;
    atoll_buf_init(&t->out, TEXT_MAX);
    if (atoll_ws_link_accept(&t->w, call, &ws_callbacks, t, ops->max_message, drop))
        return true;
    free_unused(t);
    return false;
}
