/*
 * Logs of a command of a session: all of it at once, or followed until the command ends, over a
 * WebSocket or as a response in pieces.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define MESSAGE_MAX 4096 /* clients send nothing but closes */
#define SLICE ((size_t)16 * 1024)
#define TEXT_TYPE "text/plain; charset=utf-8"
#define BYTES_TYPE "application/octet-stream"

/* At once. */

enum format { PLAIN, MARKED, JSON };

/* By the version of the SDK: 0.27 brought marks, 0.167 JSON. Clients that are no SDK get JSON. */
static enum format format_of(const struct atoll_http_request *req)
{
    const char *text = atoll_http_header(req, "x-daytona-sdk-version");
    unsigned major = 0, minor = 0;

    if (!text || sscanf(text, "%u.%u", &major, &minor) != 2 || major > 0 || minor >= 167)
        return JSON;
    return minor >= 27 ? MARKED : PLAIN;
}

struct reading {
    struct atoll_api_call *call;
    struct atoll_toolbox_output output;
};

static void reply_json(struct reading *g)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_toolbox_output_lines(&g->output, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(g->call, 200, &out);
}

static void reply_text(struct reading *g, enum format format)
{
    struct atoll_buf text;

    atoll_buf_init(&text, ATOLL_TOOLBOX_MUX_MAX(ATOLL_TOOLBOX_OUTPUT_MAX));
    if (format == PLAIN)
        atoll_api_reply_text(g->call, 200, TEXT_TYPE, atoll_buf_head(&g->output.bytes),
                             atoll_buf_size(&g->output.bytes));
    else if (atoll_toolbox_output_marked(&g->output, &text) < 0)
        atoll_daytona_refuse(g->call, 503, NULL, "out of memory");
    else
        atoll_api_reply_text(g->call, 200, TEXT_TYPE, atoll_buf_head(&text), atoll_buf_size(&text));
    atoll_buf_done(&text);
}

static void read_all(void *arg, const struct atoll_exec_result *result ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    struct reading *g = arg;
    enum format format = g->call->req ? format_of(g->call->req) : JSON;

    g->call->on_gone = NULL;
    if (error)
        atoll_api_fail(g->call, error);
    else if (format == JSON)
        reply_json(g);
    else
        reply_text(g, format);
    atoll_toolbox_output_done(&g->output);
    free(g);
}

static void reading_gone(struct atoll_api_call *call)
{
    struct reading *g = call->state;

    atoll_toolbox_output_done(&g->output);
    free(g);
    atoll_api_drop(call);
}

static void reply_logs(struct atoll_api_call *call, struct atoll_exec *relay)
{
    struct reading *g = atoll_api_alloc(sizeof(*g));

    g->call = call;
    call->state = g;
    call->on_gone = reading_gone;
    atoll_toolbox_output_start(&g->output, atoll_http_loop(call->req), relay, false, read_all, g);
}

/* Followed. */

struct following {
    struct atoll_ws_link w;      /* for a WebSocket, or: */
    struct atoll_api_call *call; /* for a response */
    struct atoll_exec_pump pump;
    struct atoll_toolbox_guard guard;
    struct atoll_toolbox_mux mux;
    struct atoll_buf out;
};

static void following_free(struct following *f)
{
    atoll_exec_pump_close(&f->pump);
    atoll_toolbox_guard_close(&f->guard);
    atoll_ws_link_close(&f->w);
    atoll_toolbox_mux_done(&f->mux);
    atoll_buf_done(&f->out);
    free(f);
}

static int send_out(struct following *f)
{
    const uint8_t *bytes = atoll_buf_head(&f->out);
    size_t n = atoll_buf_size(&f->out);

    if (n == 0)
        return 0;
    return f->call ? atoll_http_write(f->call->req, bytes, n)
                   : atoll_ws_send(f->w.ws, true, bytes, n);
}

static int send_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct following *f = arg;
    int r;

    atoll_buf_clear(&f->out);
    r = atoll_toolbox_mux_add(&f->mux, &f->out, stream, bytes, n);
    return r < 0 ? r : send_out(f);
}

/* Says where output is missing, as a line of the error stream. */
static int send_gap(void *arg, const struct atoll_reader_item *gap)
{
    char text[100];
    int n = snprintf(text, sizeof(text), "[%llu bytes of output were not kept]\n",
                     (unsigned long long)gap->length);

    return send_data(arg, ATOLL_STREAM_STDERR, 0, (const uint8_t *)text, (size_t)n);
}

static void cut(struct following *f, const char *why)
{
    struct atoll_api_call *call = f->call;

    if (call) {
        following_free(f);
        atoll_api_abort(call, why);
    } else {
        atoll_exec_pump_close(&f->pump);
        atoll_ws_close(f->w.ws, ATOLL_WS_INTERNAL, why);
    }
}

static void send_end(void *arg, const struct atoll_exec_result *result)
{
    struct following *f = arg;
    struct atoll_api_call *call = f->call;

    atoll_buf_clear(&f->out);
    if (result->kind == ATOLL_END_LOST) {
        cut(f, "the end of the command is unknown");
        return;
    }
    if (atoll_toolbox_mux_end(&f->mux, &f->out) == 0)
        (void)!send_out(f);
    if (call) {
        following_free(f);
        atoll_api_end(call);
    } else {
        atoll_exec_pump_close(&f->pump);
        atoll_ws_close(f->w.ws, ATOLL_WS_NORMAL, NULL);
    }
}

static void failed(void *arg, int r)
{
    cut(arg, strerror(-r));
}

static const struct atoll_exec_pump_ops pump_ops = {
    .slice = SLICE,
    .data = send_data,
    .gap = send_gap,
    .end = send_end,
    .failed = failed,
};

static void on_message(void *arg ATOLL_UNUSED, struct atoll_ws *ws ATOLL_UNUSED,
                       bool binary ATOLL_UNUSED, const uint8_t *bytes ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
}

static void on_drain(void *arg, struct atoll_ws *ws ATOLL_UNUSED)
{
    struct following *f = arg;

    atoll_exec_pump_run(&f->pump);
}

static void on_close(void *arg, struct atoll_ws *ws ATOLL_UNUSED, uint16_t code ATOLL_UNUSED)
{
    following_free(arg);
}

static const struct atoll_ws_callbacks ws_callbacks = {on_message, on_drain, on_close};

static void drop(struct atoll_api_session *session)
{
    following_free(ATOLL_CONTAINER_OF(session, struct following, w.session));
}

static void call_gone(struct atoll_api_call *call)
{
    following_free(call->state);
    atoll_api_drop(call);
}

/* Opens the connection; NULL: the call has been answered. */
static struct following *following_new(struct atoll_api_call *call)
{
    struct following *f = atoll_api_alloc(sizeof(*f));

    atoll_buf_init(&f->out, ATOLL_TOOLBOX_MUX_MAX(SLICE));
    atoll_toolbox_mux_init(&f->mux);
    if (!atoll_ws_wanted(call->req)) {
        f->call = call;
        f->w.loop = atoll_http_loop(call->req);
        call->state = f;
        call->on_gone = call_gone;
        atoll_api_begin(call, 200, BYTES_TYPE, -1);
    } else if (!atoll_toolbox_ws_accept(&f->w, call, &ws_callbacks, f, MESSAGE_MAX, drop)) {
        following_free(f);
        return NULL;
    }
    return f;
}

static void follow_logs(struct atoll_api_call *call, struct atoll_exec *shell,
                        struct atoll_exec *relay)
{
    struct atoll_engine *engine = call->engine;
    struct following *f = following_new(call);
    struct atoll_exec_view view;
    struct atoll_error error;

    if (!f)
        return;
    const struct atoll_exec_pump_config config = {.ops = &pump_ops,
                                                  .arg = f,
                                                  .loop = f->w.loop,
                                                  .req = f->call ? f->call->req : NULL,
                                                  .ws = f->w.ws,
                                                  .follow = true};
    atoll_exec_get(relay, &view);
    atoll_toolbox_guard_open(&f->guard, engine, shell, view.id);
    if (atoll_exec_pump_open(&f->pump, relay, &config, &error) < 0)
        cut(f, error.text);
    else
        atoll_exec_pump_run(&f->pump);
}

void atoll_daytona_command_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_toolbox_session session;
    struct atoll_exec *relay;
    struct atoll_error error;
    bool follow = false;

    if (!atoll_toolbox_session_find(call, &session))
        return;
    relay = atoll_toolbox_command_find(call, &session);
    if (!relay)
        return;
    if (atoll_api_query_flag(call, "follow", &follow, &error) < 0)
        atoll_api_fail(call, &error);
    else if (follow || atoll_ws_wanted(call->req))
        follow_logs(call, session.shell, relay);
    else
        reply_logs(call, relay);
}

/* The first process of a sandbox writes no log: a client that follows it gets nothing until it
 * disconnects. */
void atoll_daytona_entrypoint_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                   size_t n ATOLL_UNUSED)
{
    static const char text[] = "{\"output\":\"\",\"stdout\":\"\",\"stderr\":\"\"}";
    struct atoll_error error;
    bool follow = false;

    if (atoll_api_query_flag(call, "follow", &follow, &error) < 0)
        atoll_api_fail(call, &error);
    else if (follow || atoll_ws_wanted(call->req))
        (void)following_new(call);
    else if (format_of(call->req) == JSON)
        atoll_api_reply_text(call, 200, "application/json", text, sizeof(text) - 1);
    else
        atoll_api_reply_text(call, 200, TEXT_TYPE, "", 0);
}
