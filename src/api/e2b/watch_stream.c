/*
 * WatchDir: changes in a directory as a stream of events.
 */
#include <errno.h>
#include <string.h>
#include "api/e2b/filesystem.h"

#define FRAME_MAX ((size_t)128 * 1024)

/* Requests and events, also of watchers. */

int atoll_watch_request_take(struct atoll_api_call *call, const json_t *message, char *user,
                             struct atoll_watch_request *ret, struct atoll_error *err)
{
    int r = atoll_envd_file_user(call, user, err);

    *ret = (struct atoll_watch_request){.user = user, .attributes = ATOLL_ENVD_ATTRIBUTES};
    if (r == 0)
        r = atoll_connect_text(message, "path", &ret->path, err);
    if (r == 0)
        r = atoll_connect_flag(message, "recursive", &ret->recursive, err);
    if (r == 0)
        r = atoll_connect_flag(message, "includeEntry", &ret->include_entry, err);
    if (r < 0)
        return r;
    if (!ret->path || !*ret->path)
        ret->path = ".";
    if (strlen(ret->path) >= ATOLL_WATCH_PATH_CAP)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    return 0;
}

void atoll_watch_event_write(struct atoll_json_out *out, enum atoll_watch_kind kind,
                             const char *name, const struct atoll_am_entry *entry)
{
    static const char *const types[] = {
        [ATOLL_WATCH_CREATE] = "EVENT_TYPE_CREATE", [ATOLL_WATCH_WRITE] = "EVENT_TYPE_WRITE",
        [ATOLL_WATCH_REMOVE] = "EVENT_TYPE_REMOVE", [ATOLL_WATCH_RENAME] = "EVENT_TYPE_RENAME",
        [ATOLL_WATCH_CHMOD] = "EVENT_TYPE_CHMOD",
    };

    atoll_json_text(out, "name", name);
    atoll_json_text(out, "type", types[kind]);
    if (entry)
        atoll_entry_write(out, "entry", entry);
}

/* The stream. */

struct stream {
    struct atoll_api_call *call;
    json_t *message;                   /* owned; NULL after the watch has started */
    struct atoll_watch_source *source; /* owned */
    struct atoll_timer beat, deadline;
    struct atoll_buf frame;
    int64_t beat_ms, sent_ms;
    uint32_t timeout_ms;
    char user[ATOLL_ENVD_USER_MAX];
    const char *path;
};

static void stream_free(struct stream *s)
{
    s->source = atoll_watch_source_close(s->source);
    atoll_timer_cancel(&s->beat);
    atoll_timer_cancel(&s->deadline);
    atoll_buf_done(&s->frame);
    json_decref(s->message);
    free(s);
}

static void client_gone(struct atoll_api_call *call)
{
    stream_free(call->state);
    atoll_api_drop(call);
}

static void frame_send(struct stream *s, struct atoll_json_out *out)
{
    struct atoll_api_call *call = s->call;
    int r;

    atoll_json_close(out, '}');
    atoll_json_close(out, '}');
    s->sent_ms = atoll_loop_now_ms(atoll_http_loop(call->req));
    r = atoll_connect_frame_send(call, out);
    if (r == 0 || r == -EPIPE)
        return; /* on_gone follows */
    /* Cut the stream of a client that does not read, rather than drop events silently. */
    stream_free(s);
    atoll_api_abort(call, strerror(-r));
}

static struct atoll_json_out frame_begin(struct stream *s, const char *name)
{
    struct atoll_json_out out = atoll_connect_frame_begin(&s->frame);

    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, name, '{');
    return out;
}

static void send_empty(struct stream *s, const char *name)
{
    struct atoll_json_out out = frame_begin(s, name);
    frame_send(s, &out);
}

static void beat(void *arg)
{
    struct stream *s = arg;
    struct atoll_loop *loop = atoll_http_loop(s->call->req);
    int64_t silent_ms = atoll_loop_now_ms(loop) - s->sent_ms;

    if (silent_ms >= s->beat_ms)
        silent_ms = 0;
    atoll_timer_set(&s->beat, loop, ATOLL_MAX(s->beat_ms - silent_ms, (int64_t)1000), beat, s);
    if (silent_ms == 0)
        send_empty(s, "keepalive");
}

static void time_is_up(void *arg)
{
    struct stream *s = arg;
    struct atoll_api_call *call = s->call;
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "context deadline exceeded");
    stream_free(s);
    atoll_connect_end(call, &error);
}

static void fail(struct stream *s, const struct atoll_error *error)
{
    struct atoll_api_call *call = s->call;
    struct atoll_error shown;

    atoll_fs_explain(error, s->user, &shown);
    if (error->errnum == ENOTDIR)
        (void)atoll_fail(&shown, ATOLL_ERR_INVALID_ARGUMENT, ENOTDIR,
                         "path is not a directory: %.300s", s->path);
    stream_free(s);
    atoll_api_fail(call, &shown);
}

static void started(void *arg, struct atoll_watch_source *source, const struct atoll_error *error)
{
    struct stream *s = arg;
    struct atoll_api_call *call = s->call;
    struct atoll_loop *loop;

    s->source = source;
    if (error) {
        fail(s, error);
    } else if (!call->req) {
        stream_free(s);
        atoll_api_drop(call);
    } else {
        loop = atoll_http_loop(call->req);
        s->beat_ms = atoll_connect_keepalive_ms(call);
        call->state = s;
        call->on_gone = client_gone;
        atoll_connect_begin(call);
        atoll_timer_set(&s->beat, loop, s->beat_ms, beat, s);
        if (s->timeout_ms > 0)
            atoll_timer_set(&s->deadline, loop, s->timeout_ms, time_is_up, s);
        send_empty(s, "start");
    }
}

static void changed(void *arg, enum atoll_watch_kind kind, const char *name,
                    const struct atoll_am_entry *entry)
{
    struct atoll_json_out out = frame_begin(arg, "filesystem");

    atoll_watch_event_write(&out, kind, name, entry);
    frame_send(arg, &out);
}

static void ended(void *arg)
{
    struct stream *s = arg;
    struct atoll_api_call *call = s->call;

    stream_free(s);
    atoll_api_abort(call, "the sandbox is gone");
}

static const struct atoll_watch_source_events source_events = {started, changed, ended};

void atoll_envd_watch_dir(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_watch_request request;
    struct atoll_error error;
    json_t *message;
    struct stream *s;
    int r;

    if (!atoll_connect_stream(call, body, n, &message))
        return;
    s = atoll_api_alloc(sizeof(*s));
    s->call = call;
    s->message = message;
    atoll_buf_init(&s->frame, FRAME_MAX);
    r = atoll_watch_request_take(call, message, s->user, &request, &error);
    if (r == 0)
        r = atoll_connect_timeout(call, &s->timeout_ms, &error);
    s->path = request.path;
    if (r < 0) {
        stream_free(s);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_watch_source_open(call->engine, call->params.id, &request, &source_events, s);
}
