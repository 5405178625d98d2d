/*
 * Input of processes: a single message, a stream of messages, and closing stdin.
 */
#include <errno.h>
#include <string.h>
#include "api/e2b/process.h"
#include "base/base64.h"

#define STREAM_MESSAGE_MAX ((size_t)4 * 1024 * 1024)

/* Decodes {"input":{"stdin" or "pty": base64}}. */
static int take_input(const json_t *message, struct atoll_buf *ret, struct atoll_error *err)
{
    const json_t *input = atoll_connect_get(message, "input");
    const char *text = "";
    int r = atoll_connect_text(input, "stdin", &text, err);

    if (r == 0)
        r = atoll_connect_text(input, "pty", &text, err);
    if (r < 0)
        return r;
    r = atoll_base64_decode(ret, text, strlen(text));
    return r < 0 ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "the input is not valid base64")
                 : 0;
}

static void fail_write(struct atoll_api_call *call, const struct atoll_error *error)
{
    struct atoll_error shown;

    if (error->kind == ATOLL_ERR_INTERNAL) {
        atoll_api_fail(call, error);
        return;
    }
    (void)atoll_fail(&shown, ATOLL_ERR_INTERNAL, error->errnum, "error writing to stdin: %.300s",
                     error->text);
    atoll_connect_fail(call, &shown);
}

static void on_written(void *arg, const struct atoll_error *error)
{
    if (error)
        fail_write(arg, error);
    else
        atoll_connect_reply_empty(arg);
}

void atoll_envd_process_send_input(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_exec *exec;
    struct atoll_error error;
    struct atoll_buf input;
    json_t *message;

    if (!atoll_connect_unary(call, body, n, &message))
        return;
    atoll_buf_init(&input, ATOLL_BODY_FILES);
    exec = atoll_process_find(call, message, false, &error);
    if (exec && take_input(message, &input, &error) == 0)
        atoll_exec_write(exec, atoll_buf_head(&input), atoll_buf_size(&input), false, on_written,
                         call);
    else
        atoll_api_fail(call, &error);
    atoll_buf_done(&input);
    json_decref(message);
}

/* CloseStdin. Closing it twice is not an error. */

static void on_closed(void *arg, const struct atoll_error *error)
{
    if (error && error->kind != ATOLL_ERR_FAILED_PRECONDITION)
        fail_write(arg, error);
    else
        atoll_connect_reply_empty(arg);
}

void atoll_envd_process_close_stdin(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_exec *exec;
    struct atoll_exec_view view = {0};
    struct atoll_error error;
    json_t *message;

    if (!atoll_connect_unary(call, body, n, &message))
        return;
    exec = atoll_process_find(call, message, false, &error);
    json_decref(message);
    if (exec)
        atoll_exec_get(exec, &view);
    if (exec && view.pty) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "cannot close stdin for PTY process");
        exec = NULL;
    }
    if (exec)
        atoll_exec_write(exec, NULL, 0, true, on_closed, call);
    else
        atoll_api_fail(call, &error);
}

/* StreamInput: {"start":{"process"}}, then {"data":{"input"}}. One write is in progress at a
 * time, and the client's socket is not read meanwhile. */

struct feed {
    struct atoll_api_call *call;
    struct atoll_buf in; /* envelopes that are incomplete or not processed yet */
    char exec_id[17];    /* "" before the start message */
    bool writing, ended;
};

static void feed_free(struct feed *f)
{
    atoll_buf_done(&f->in);
    free(f);
}

static void feed_fail(struct feed *f, const struct atoll_error *error)
{
    struct atoll_api_call *call = f->call;

    call->on_gone = NULL;
    feed_free(f);
    atoll_api_fail(call, error);
}

static void feed_gone(struct atoll_api_call *call)
{
    struct feed *f = call->state;

    if (f->writing)
        return; /* fed() frees it */
    feed_free(f);
    atoll_api_drop(call);
}

static void feed_run(struct feed *f);

static void fed(void *arg, const struct atoll_error *error)
{
    struct feed *f = arg;
    struct atoll_api_call *call = f->call;

    f->writing = false;
    if (!call->req) {
        feed_gone(call);
    } else if (error) {
        call->on_gone = NULL;
        feed_free(f);
        fail_write(call, error);
    } else {
        atoll_http_body_resume(call->req);
        feed_run(f);
    }
}

static int feed_start(struct feed *f, const json_t *start, struct atoll_error *err)
{
    struct atoll_exec *exec = atoll_process_find(f->call, start, false, err);
    struct atoll_exec_view view;

    if (!exec)
        return -ESRCH;
    atoll_exec_get(exec, &view);
    memcpy(f->exec_id, view.id, sizeof(f->exec_id));
    return 0;
}

static int feed_data(struct feed *f, const json_t *data, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(f->call->engine, f->call->params.id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, f->exec_id) : NULL;
    struct atoll_buf input;
    int r;

    if (!exec)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ESRCH, "the process has ended");
    atoll_buf_init(&input, STREAM_MESSAGE_MAX);
    r = take_input(data, &input, err);
    if (r == 0 && atoll_buf_size(&input) > 0) {
        atoll_http_body_pause(f->call->req);
        f->writing = true;
        atoll_exec_write(exec, atoll_buf_head(&input), atoll_buf_size(&input), false, fed, f);
        r = 1;
    }
    atoll_buf_done(&input);
    return r;
}

/* Handles one message. Returns 1 if a write was started; its callback continues, and f may be
 * freed. */
static int feed_message(struct feed *f, const struct atoll_connect_frame *frame,
                        struct atoll_error *err)
{
    const json_t *start, *data;
    json_t *message;
    int r = atoll_connect_parse(frame->message, frame->len, &message, err);

    if (r < 0)
        return r;
    start = atoll_connect_get(message, "start");
    data = atoll_connect_get(message, "data");
    if (start)
        r = feed_start(f, start, err);
    else if (data && !f->exec_id[0])
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "data came before start");
    else if (data)
        r = feed_data(f, data, err);
    json_decref(message);
    return r;
}

static void feed_end(struct feed *f)
{
    struct atoll_api_call *call = f->call;
    struct atoll_json_out out;
    struct atoll_buf buf;

    call->on_gone = NULL;
    feed_free(f);
    atoll_buf_init(&buf, 64);
    atoll_connect_begin(call);
    out = atoll_connect_frame_begin(&buf);
    atoll_json_raw(&out, NULL, "{}");
    (void)!atoll_connect_frame_send(call, &out);
    atoll_buf_done(&buf);
    atoll_connect_end(call, NULL);
}

static void feed_run(struct feed *f)
{
    struct atoll_connect_frame frame;
    struct atoll_error error;
    ssize_t used;
    int r = 0;

    if (f->writing)
        return;
    while ((used = atoll_connect_take(atoll_buf_head(&f->in), atoll_buf_size(&f->in),
                                      STREAM_MESSAGE_MAX, &frame)) > 0) {
        uint8_t *copy = malloc(frame.len + 1);
        if (!copy)
            abort();
        /* A copy, since the buffer is consumed before the message is handled. */
        memcpy(copy, frame.message, frame.len);
        frame.message = copy;
        atoll_buf_consume(&f->in, (size_t)used);
        r = feed_message(f, &frame, &error);
        free(copy);
        if (r > 0)
            return;
        if (r < 0)
            break;
    }
    if (used < 0 && r == 0)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, (int)-used, "a malformed envelope");
    if (r < 0)
        feed_fail(f, &error);
    else if (f->ended)
        feed_end(f);
}

static void feed_bytes(void *arg, struct atoll_http_request *req ATOLL_UNUSED, const uint8_t *bytes,
                       size_t n)
{
    struct feed *f = arg;
    struct atoll_error error;

    if (atoll_buf_append(&f->in, bytes, n) == 0) {
        feed_run(f);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS, "a message is too long");
    feed_fail(f, &error);
}

static void feed_over(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    struct feed *f = arg;

    f->ended = true;
    feed_run(f);
}

void atoll_envd_process_stream_input(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                     size_t n ATOLL_UNUSED)
{
    struct feed *f;

    if (!atoll_connect_is_stream(call)) {
        (void)atoll_http_set_header(call->req, "Accept-Post", "application/connect+json");
        atoll_api_reply_empty(call, 415);
        return;
    }
    f = atoll_api_alloc(sizeof(*f));
    f->call = call;
    atoll_buf_init(&f->in, 2 * STREAM_MESSAGE_MAX);
    call->state = f;
    call->on_gone = feed_gone;
    atoll_http_body_stream(call->req, feed_bytes, feed_over, f);
}
