#include "client/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "client/compose.h"
#include "client/follow.h"
#include "client/result.h"

#define INPUT_CHUNK ((size_t)64 * 1024)
#define INPUT_PENDING_MAX ((size_t)256 * 1024)
#define OUTPUT_MAX_DEFAULT ((size_t)64 * 1024 * 1024)

struct atoll_client_process {
    struct atoll_client *client; /* borrowed */
    struct atoll_wsc *ws;        /* owned; NULL once hung up */
    char sandbox_id[ATOLL_LINK_ID_MAX], exec_id[ATOLL_LINK_ID_MAX];
    bool pty, started;
    uint64_t
        seen[ATOLL_CLIENT_STREAMS]; /* bytes received: where to resume after a lost connection */
    json_t *record;                 /* owned; NULL until the command has ended */
    struct atoll_client_result *result; /* owned; made from the record */
    struct atoll_client_event event;    /* the last one returned */
    void (*progress)(void *arg, const char *text);
    void *progress_arg;
    uint8_t chunk[1 + INPUT_CHUNK]; /* first byte: channel 0, standard input */
};

static int gone(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "the connection to the command is closed");
}

static int send_text(struct atoll_client_process *p, json_t *message, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

    if (!text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "an argument or variable is not valid UTF-8");
    return p->ws ? atoll_wsc_send(p->ws, false, text, strlen(text), err) : gone(err);
}

int atoll_attach_open(struct atoll_client *client, const char *target, const char *sandbox_id,
                      json_t *request, struct atoll_client_process **ret_process,
                      struct atoll_error *err)
{
    struct atoll_client_process *p = calloc(1, sizeof(*p));
    int r;

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "process");
    p->client = client;
    p->pty = json_is_object(json_object_get(request, "pty"));
    (void)snprintf(p->sandbox_id, sizeof(p->sandbox_id), "%s", sandbox_id ? sandbox_id : "");
    r = atoll_link_websocket(client, target, &p->ws, err);
    if (r == 0)
        r = send_text(p, request, err);
    if (r < 0)
        atoll_client_process_free(p);
    else
        *ret_process = p;
    return r;
}

void atoll_attach_on_progress(struct atoll_client_process *p,
                              void (*fn)(void *arg, const char *text), void *arg)
{
    p->progress = fn;
    p->progress_arg = arg;
}

void atoll_attach_hang_up(struct atoll_client_process *p)
{
    p->ws = atoll_wsc_free(p->ws);
}

void atoll_client_process_free(struct atoll_client_process *p)
{
    if (!p)
        return;
    atoll_attach_hang_up(p);
    json_decref(p->record);
    atoll_client_result_free(p->result);
    free(p);
}

/* Receiving. */

static int copy_id(char *out, size_t cap, const json_t *message, const char *key,
                   struct atoll_error *err)
{
    const char *id = atoll_link_text(message, key, NULL);

    if (!id)
        return 0;
    if (strlen(id) >= cap || atoll_link_check_id("daemon's", id, err) < 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon sent a malformed id");
    memcpy(out, id, strlen(id) + 1);
    return 0;
}

static int on_start(struct atoll_client_process *p, const json_t *message, struct atoll_error *err)
{
    int r = copy_id(p->exec_id, sizeof(p->exec_id), message, "exec_id", err);

    if (r == 0)
        r = copy_id(p->sandbox_id, sizeof(p->sandbox_id), message, "sandbox_id", err);
    if (r < 0)
        return r;
    p->started = true;
    p->event.kind = ATOLL_CLIENT_EVENT_STARTED;
    return 1;
}

static int set_record(struct atoll_client_process *p, json_t *record, struct atoll_error *err)
{
    p->record = json_incref(record);
    return atoll_result_new(record, p->sandbox_id, p->exec_id, NULL, NULL, &p->result, err);
}

/* 1: p->event is an event for the caller, 0: there is none. */
static int on_text(struct atoll_client_process *p, const uint8_t *bytes, size_t n,
                   struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *message = atoll_link_parse_json(bytes, n);
    json_t *record = json_object_get(message, "result");
    struct atoll_client_event *e = &p->event;
    int r;

    if (json_object_get(message, "error"))
        return atoll_link_daemon_error(p->client, message, 0, err);
    if (json_is_object(record) && !p->record) {
        r = set_record(p, record, err);
        e->kind = ATOLL_CLIENT_EVENT_END;
        return r < 0 ? r : 1;
    }
    if (atoll_follow_gap(json_object_get(message, "truncated"), &e->stream, &e->from, &e->to)) {
        p->seen[e->stream] = e->to;
        e->kind = ATOLL_CLIENT_EVENT_DROPPED;
        return 1;
    }
    if (!p->started && json_object_get(message, "exec_id"))
        return on_start(p, message, err);
    if (p->progress && atoll_link_text(message, "progress", NULL))
        p->progress(p->progress_arg, atoll_link_text(message, "progress", ""));
    return 0;
}

static int on_message(struct atoll_client_process *p, bool binary, const uint8_t *bytes, size_t n,
                      struct atoll_error *err)
{
    p->event = (struct atoll_client_event){.kind = ATOLL_CLIENT_EVENT_OUTPUT};
    if (!binary)
        return on_text(p, bytes, n, err);
    if (n < 2 || (bytes[0] != ATOLL_CLIENT_STDOUT && bytes[0] != ATOLL_CLIENT_STDERR))
        return 0;
    p->event.stream = bytes[0];
    p->event.bytes = bytes + 1;
    p->event.size = n - 1;
    p->seen[bytes[0]] += n - 1;
    return 1;
}

int atoll_attach_next(struct atoll_client_process *p, int timeout_ms,
                      const struct atoll_client_event **ret_event, struct atoll_error *err)
{
    const uint8_t *bytes;
    bool binary;
    size_t n;
    int r;

    if (!p->ws || p->record)
        return gone(err);
    do {
        r = atoll_wsc_recv(p->ws, timeout_ms, &binary, &bytes, &n, err);
        if (r <= 0)
            return r;
        r = on_message(p, binary, bytes, n, err);
    } while (r == 0);
    if (r > 0)
        *ret_event = &p->event;
    return r;
}

/* Sending. */

bool atoll_attach_takes_input(const struct atoll_client_process *p)
{
    return p->ws && atoll_wsc_pending(p->ws) < INPUT_PENDING_MAX;
}

ssize_t atoll_attach_write(struct atoll_client_process *p, const void *bytes, size_t n,
                           struct atoll_error *err)
{
    size_t taken = 0;

    if (!p->ws)
        return gone(err);
    while (taken < n && atoll_attach_takes_input(p)) {
        size_t part = ATOLL_MIN(n - taken, INPUT_CHUNK);
        int r;
        memcpy(p->chunk + 1, (const uint8_t *)bytes + taken, part);
        r = atoll_wsc_send(p->ws, true, p->chunk, 1 + part, err);
        if (r < 0)
            return r;
        taken += part;
    }
    return (ssize_t)taken;
}

int atoll_attach_close_input(struct atoll_client_process *p, struct atoll_error *err)
{
    static const uint8_t channel;
    return p->ws ? atoll_wsc_send(p->ws, true, &channel, 1, err) : gone(err);
}

int atoll_attach_keep_alive(struct atoll_client_process *p, struct atoll_error *err)
{
    return p->ws ? atoll_wsc_send(p->ws, false, "{}", 2, err) : gone(err);
}

int atoll_attach_flush(struct atoll_client_process *p, struct atoll_error *err)
{
    return p->ws ? atoll_wsc_flush(p->ws, 0, err) : gone(err);
}

int atoll_attach_resize(struct atoll_client_process *p, unsigned cols, unsigned rows,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *message =
        json_pack("{s:{s:i, s:i}}", "resize", "cols", (int)cols, "rows", (int)rows);
    return send_text(p, message, err);
}

int atoll_attach_signal(struct atoll_client_process *p, int signo, bool tree,
                        struct atoll_error *err)
{
    struct atoll_link_target target;
    char name[ATOLL_LINK_SIGNAL_MAX];
    ATOLL_AUTOJSON json_t *body = json_pack(
        "{s:s, s:b}", "signal", atoll_link_signal_name(signo, name), "tree", tree ? 1 : 0);
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/%s/signal", p->sandbox_id,
                              p->exec_id);
    return r < 0 ? r : atoll_link_call(p->client, "POST", target.text, body, NULL, err);
}

const char *atoll_attach_sandbox_id(const struct atoll_client_process *p)
{
    return p->sandbox_id;
}

bool atoll_attach_has_started(const struct atoll_client_process *p)
{
    return p->started;
}

json_t *atoll_attach_record(const struct atoll_client_process *p)
{
    return p->record;
}

/* Waiting for the end. */

/* The caller's callback for output. */
struct taker {
    int (*output)(void *arg, int stream, const void *bytes, size_t n);
    void *arg;
    struct atoll_buf captured[ATOLL_CLIENT_STREAMS];
    bool truncated[ATOLL_CLIENT_STREAMS];
};

static int give(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err)
{
    struct taker *taker = arg;
    int r = taker->output ? taker->output(taker->arg, stream, bytes, n) : 0;

    return r < 0 ? atoll_fail(err, ATOLL_ERR_CANCELED, -r, "the callback canceled the call") : 0;
}

static void note_gap(void *arg, int stream, uint64_t from ATOLL_UNUSED, uint64_t to ATOLL_UNUSED)
{
    struct taker *taker = arg;
    taker->truncated[stream] = true;
}

static int take_event(struct taker *taker, const struct atoll_client_event *e,
                      struct atoll_error *err)
{
    if (e->kind == ATOLL_CLIENT_EVENT_DROPPED)
        taker->truncated[e->stream] = true;
    return e->kind == ATOLL_CLIENT_EVENT_OUTPUT ? give(taker, e->stream, e->bytes, e->size, err)
                                                : 0;
}

/* Follows the command's journal after the connection was lost. Not for a PTY. */
static int resume_output(struct atoll_client_process *p, struct taker *taker,
                         struct atoll_error *err)
{
    struct atoll_follow journal = {
        .sandbox_id = p->sandbox_id,
        .exec_id = p->exec_id,
        .follow = true,
        .output = give,
        .dropped = note_gap,
        .arg = taker,
    };
    int r;

    atoll_attach_hang_up(p);
    memcpy(journal.seen, p->seen, sizeof(journal.seen));
    r = atoll_follow_read(p->client, &journal, err);
    memcpy(p->seen, journal.seen, sizeof(journal.seen));
    if (r == 0)
        r = set_record(p, journal.result, err);
    json_decref(journal.result);
    return r;
}

struct feed {
    const uint8_t *bytes; /* NULL: no more input */
    size_t n;
};

/* Sends some input. Errors are ignored: the command has closed its input or ended, and the next event
 * reports that. */
static void feed_some(struct atoll_client_process *p, struct feed *feed)
{
    struct atoll_error ignored;
    ssize_t n = atoll_attach_write(p, feed->bytes, feed->n, &ignored);

    if (n >= 0) {
        feed->bytes += n;
        feed->n -= (size_t)n;
    }
    if (n >= 0 && feed->n > 0)
        return;
    feed->bytes = NULL;
    if (n >= 0)
        (void)!atoll_attach_close_input(p, &ignored);
}

/* Waits for an event, or for room for more input. */
static int next_or_room(struct atoll_client_process *p, bool feeding,
                        const struct atoll_client_event **ret_event, struct atoll_error *err)
{
    struct pollfd ready = {.fd = atoll_wsc_fd(p->ws)};
    int r = atoll_attach_next(p, feeding ? 0 : -1, ret_event, err);

    if (r != 0 || !feeding || atoll_attach_takes_input(p))
        return r;
    ready.events = atoll_wsc_events(p->ws);
    return poll(&ready, 1, -1) < 0 && errno != EINTR ? atoll_fail_errno(err, errno, "poll") : 0;
}

static int wait_to_end(struct atoll_client_process *p, struct taker *taker, struct feed feed,
                       struct atoll_error *err)
{
    const struct atoll_client_event *event;
    int r = p->ws ? 0 : gone(err);

    while (r >= 0 && !p->record) {
        if (feed.bytes && p->started)
            feed_some(p, &feed);
        r = next_or_room(p, feed.bytes && p->started, &event, err);
        if (r > 0)
            r = take_event(taker, event, err);
    }
    if (r < 0 && err->kind == ATOLL_ERR_UNAVAILABLE && p->started && !p->pty)
        r = resume_output(p, taker, err);
    return ATOLL_MIN(r, 0);
}

static int capture(void *arg, int stream, const void *bytes, size_t n)
{
    struct taker *taker = arg;
    struct atoll_buf *buf = &taker->captured[stream];
    size_t kept = ATOLL_MIN(n, buf->max - atoll_buf_size(buf));

    if (atoll_buf_append(buf, bytes, kept) < 0 || kept < n)
        taker->truncated[stream] = true;
    return 0;
}

int atoll_attach_finish(struct atoll_client_process *p, const void *input, size_t input_size,
                        size_t output_max, struct atoll_client_result **ret_result,
                        struct atoll_error *err)
{
    struct taker taker = {.output = capture};
    int r;

    taker.arg = &taker;
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++)
        atoll_buf_init(&taker.captured[i], output_max ? output_max : OUTPUT_MAX_DEFAULT);
    r = wait_to_end(p, &taker, (struct feed){input, input_size}, err);
    if (r == 0)
        r = atoll_result_new(p->record, p->sandbox_id, p->exec_id, taker.captured, taker.truncated,
                             ret_result, err);
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++)
        atoll_buf_done(&taker.captured[i]);
    return r;
}

/* Public. */

const char *atoll_client_process_exec_id(const struct atoll_client_process *p)
{
    return p->exec_id;
}

const struct atoll_client_result *atoll_client_process_result(const struct atoll_client_process *p)
{
    return p->result;
}

int atoll_client_process_next(struct atoll_client_process *p, int timeout_ms,
                              const struct atoll_client_event **ret_event,
                              struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = atoll_attach_next(p, timeout_ms, ret_event, &err);
    return atoll_link_conclude(p->client, r, &err, error);
}

int atoll_client_process_wait(struct atoll_client_process *p,
                              int (*output)(void *arg, int stream, const void *bytes, size_t size),
                              void *arg, struct atoll_client_error *error)
{
    struct taker taker = {.output = output, .arg = arg};
    struct atoll_error err;
    int r = p->record ? 0 : wait_to_end(p, &taker, (struct feed){NULL, 0}, &err);
    return atoll_link_conclude(p->client, r, &err, error);
}

ssize_t atoll_client_process_write(struct atoll_client_process *p, const void *bytes, size_t size,
                                   struct atoll_client_error *error)
{
    struct atoll_error err;
    ssize_t n = atoll_attach_write(p, bytes, size, &err);
    return n < 0 ? atoll_link_conclude(p->client, (int)n, &err, error) : n;
}

int atoll_client_process_close_input(struct atoll_client_process *p,
                                     struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = atoll_attach_close_input(p, &err);
    return atoll_link_conclude(p->client, r, &err, error);
}

int atoll_client_process_signal(struct atoll_client_process *p, int signo, bool tree,
                                struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = atoll_attach_signal(p, signo, tree, &err);
    return atoll_link_conclude(p->client, r, &err, error);
}

int atoll_client_process_resize(struct atoll_client_process *p, unsigned cols, unsigned rows,
                                struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = atoll_attach_resize(p, cols, rows, &err);
    return atoll_link_conclude(p->client, r, &err, error);
}

int atoll_client_process_fd(const struct atoll_client_process *p)
{
    return p->ws ? atoll_wsc_fd(p->ws) : -1;
}

short atoll_client_process_events(const struct atoll_client_process *p)
{
    return p->ws ? atoll_wsc_events(p->ws) : 0;
}
