/*
 * Start and Connect: streams the events of a process. If the client disconnects, the process
 * continues.
 *
 * If the sandbox is destroyed, the connection is cut: clients distinguish that from an end of the
 * process.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/process.h"
#include "api/kit/exec_pump.h"

#define SLICE ((size_t)32 * 1024)
/* A slice in base64, and the JSON around it. */
#define FRAME_MAX (SLICE * 4 / 3 + 1024)

struct stream {
    struct atoll_api_call *call;
    struct atoll_exec_pump pump;
    struct atoll_timer deadline;
    struct atoll_buf frame;
    bool pty, is_start;
};

static void stream_free(struct stream *s)
{
    atoll_exec_pump_close(&s->pump);
    atoll_timer_cancel(&s->deadline);
    atoll_buf_done(&s->frame);
    free(s);
}

static void client_gone(struct atoll_api_call *call)
{
    stream_free(call->state);
    atoll_api_drop(call);
}

/* Opens {"event":{NAME:{; event_send() closes all three. */
static struct atoll_json_out event_begin(struct stream *s, const char *name)
{
    struct atoll_json_out out = atoll_connect_frame_begin(&s->frame);

    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "event", '{');
    atoll_json_open(&out, name, '{');
    return out;
}

static int event_send(struct stream *s, struct atoll_json_out *out)
{
    for (int i = 0; i < 3; i++)
        atoll_json_close(out, '}');
    return atoll_connect_frame_send(s->call, out);
}

static int send_start(struct stream *s, uint32_t pid)
{
    struct atoll_json_out out = event_begin(s, "start");

    atoll_json_u64(&out, "pid", pid);
    return event_send(s, &out);
}

static int send_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct stream *s = arg;
    struct atoll_json_out out = event_begin(s, "data");

    atoll_json_base64(&out,
                      s->pty                          ? "pty"
                      : stream == ATOLL_STREAM_STDERR ? "stderr"
                                                      : "stdout",
                      bytes, n);
    return event_send(s, &out);
}

static int keep_alive(void *arg)
{
    struct atoll_json_out out = event_begin(arg, "keepalive");

    return event_send(arg, &out);
}

void atoll_process_write_end(struct atoll_json_out *out, const struct atoll_exec_result *result)
{
    bool exited = result->kind == ATOLL_END_EXITED;
    const char *name = exited ? NULL : sigdescr_np(result->signal);
    char status[80];

    if (exited)
        (void)snprintf(status, sizeof(status), "exit status %d", result->code);
    else if (name)
        (void)snprintf(status, sizeof(status), "signal: %c%s", tolower((unsigned char)name[0]),
                       name + 1);
    else
        (void)snprintf(status, sizeof(status), "signal: signal %d", result->signal);
    atoll_json_i64(out, "exitCode", exited ? result->code : -1);
    atoll_json_bool(out, "exited", exited);
    atoll_json_text(out, "status", status);
    if (!exited || result->code != 0)
        atoll_json_text(out, "error", status);
}

/* Ends the stream and the call. */
static void conclude(struct stream *s, const struct atoll_error *error)
{
    struct atoll_api_call *call = s->call;

    stream_free(s);
    atoll_connect_end(call, error);
}

/* The client must not take what it got for all of the output. */
static void cut(struct stream *s, const char *why)
{
    struct atoll_api_call *call = s->call;

    stream_free(s);
    atoll_api_abort(call, why);
}

static void time_is_up(void *arg)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "context deadline exceeded");
    conclude(arg, &error);
}

static void failed(void *arg, int r)
{
    cut(arg, strerror(-r));
}

static void process_ended(void *arg, const struct atoll_exec_result *result)
{
    struct stream *s = arg;
    struct atoll_json_out out;
    struct atoll_error error;
    int r;

    if (!atoll_envd_is_running(s->call)) {
        cut(s, "the sandbox is gone");
        return;
    }
    if (result->kind == ATOLL_END_TIMED_OUT && s->is_start) {
        time_is_up(s);
        return;
    }
    if (result->kind == ATOLL_END_LOST) {
        (void)atoll_fail(&error, ATOLL_ERR_DATA_LOSS, EIO,
                         "the result of the process is unknown: %s", result->reason);
        conclude(s, &error);
        return;
    }
    out = event_begin(s, "end");
    atoll_process_write_end(&out, result);
    r = event_send(s, &out);
    if (r == -EPIPE)
        return; /* on_gone follows */
    if (r < 0)
        failed(s, r);
    else
        conclude(s, NULL);
}

/* The protocol has no event for a gap, and an end event would claim that the output is complete. */
static int output_missing(void *arg, const struct atoll_reader_item *gap)
{
    struct atoll_error error;

    (void)atoll_fail(
        &error, ATOLL_ERR_DATA_LOSS, EIO, "%llu bytes of %s from offset %llu on were not kept",
        (unsigned long long)gap->length, gap->stream == ATOLL_STREAM_STDERR ? "stderr" : "stdout",
        (unsigned long long)gap->offset);
    conclude(arg, &error);
    return 1;
}

static const struct atoll_exec_pump_ops ops = {
    .slice = SLICE,
    .data = send_data,
    .gap = output_missing,
    .keep_alive = keep_alive,
    .end = process_ended,
    .failed = failed,
};

void atoll_process_stream(struct atoll_api_call *call, struct atoll_exec *exec, bool is_start,
                          uint32_t timeout_ms)
{
    uint64_t from = is_start ? 0 : ATOLL_READ_FROM_END;
    struct stream *s = atoll_api_alloc(sizeof(*s));
    struct atoll_loop *loop = atoll_http_loop(call->req);
    const struct atoll_exec_pump_config config = {
        .ops = &ops,
        .arg = s,
        .loop = loop,
        .req = call->req,
        .from = {from, from},
        .follow = true,
        .keep_alive_ms = atoll_connect_keepalive_ms(call),
    };
    struct atoll_exec_view view;
    struct atoll_error error;

    atoll_exec_get(exec, &view);
    if (atoll_exec_pump_open(&s->pump, exec, &config, &error) < 0) {
        free(s);
        atoll_api_fail(call, &error);
        return;
    }
    s->call = call;
    s->pty = view.pty;
    s->is_start = is_start;
    atoll_buf_init(&s->frame, FRAME_MAX);
    call->state = s;
    call->on_gone = client_gone;
    atoll_connect_begin(call);
    if (timeout_ms > 0 && !is_start) /* the agent enforces the timeout of a started process */
        atoll_timer_set(&s->deadline, loop, timeout_ms, time_is_up, s);
    if (send_start(s, view.pid) == 0)
        atoll_exec_pump_run(&s->pump);
}
