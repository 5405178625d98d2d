/*
 * The stream of a process: decodes envelopes of JSON into events.
 */
#include <errno.h>
#include <string.h>
#include "base/base64.h"
#include "provider/e2b/messages.h"

#define HEAD 5
#define FLAG_END 2u
#define DECODED_MAX (ATOLL_E2B_MESSAGE_MAX / 4 * 3)

void atoll_e2b_events_init(struct atoll_e2b_events *e)
{
    atoll_buf_init(&e->pending, HEAD + ATOLL_E2B_MESSAGE_MAX);
    atoll_buf_init(&e->decoded, DECODED_MAX);
    e->ended = false;
}

void atoll_e2b_events_done(struct atoll_e2b_events *e)
{
    atoll_buf_done(&e->pending);
    atoll_buf_done(&e->decoded);
}

/* Connect's error codes have the names of our kinds. */
static enum atoll_error_kind kind_of(const char *code)
{
    enum atoll_error_kind kind = code ? atoll_error_kind_by_name(code) : ATOLL_ERR_NONE;

    return kind == ATOLL_ERR_NONE ? ATOLL_ERR_UNKNOWN : kind;
}

static int tell_data(struct atoll_e2b_events *e, const json_t *data, atoll_e2b_event_fn *fn,
                     void *arg)
{
    const json_t *out = json_object_get(data, "stdout");
    const json_t *text = out ? out : json_object_get(data, "stderr");
    struct atoll_e2b_event event = {.type = out ? ATOLL_E2B_EVENT_STDOUT : ATOLL_E2B_EVENT_STDERR};
    int r;

    if (!json_is_string(text))
        return -EBADMSG;
    atoll_buf_clear(&e->decoded);
    r = atoll_base64_decode(&e->decoded, json_string_value(text), json_string_length(text));
    if (r < 0)
        return r == -EINVAL ? -EBADMSG : r;
    event.bytes = atoll_buf_head(&e->decoded);
    event.len = atoll_buf_size(&e->decoded);
    return event.len > 0 ? fn(arg, &event) : 0;
}

static int tell_start(const json_t *start, atoll_e2b_event_fn *fn, void *arg)
{
    json_int_t pid = json_integer_value(json_object_get(start, "pid"));

    if (pid <= 0 || pid > INT32_MAX)
        return -EBADMSG;
    return fn(arg, &(struct atoll_e2b_event){.type = ATOLL_E2B_EVENT_START, .pid = (uint32_t)pid});
}

/* Fields with value 0 may be missing. */
static int tell_exit(const json_t *end, atoll_e2b_event_fn *fn, void *arg)
{
    const char *text = json_string_value(json_object_get(end, "status"));
    json_int_t code = json_integer_value(json_object_get(end, "exitCode"));

    if (code < INT32_MIN || code > INT32_MAX)
        return -EBADMSG;
    return fn(arg, &(struct atoll_e2b_event){
                       .type = ATOLL_E2B_EVENT_EXIT, .code = (int)code, .text = text ? text : ""});
}

static int tell_message(struct atoll_e2b_events *e, const json_t *message, atoll_e2b_event_fn *fn,
                        void *arg)
{
    const json_t *event = json_object_get(message, "event"), *part;

    if ((part = json_object_get(event, "data")))
        return tell_data(e, part, fn, arg);
    if ((part = json_object_get(event, "start")))
        return tell_start(part, fn, arg);
    if ((part = json_object_get(event, "end")))
        return tell_exit(part, fn, arg);
    /* Keepalives, and events that later versions may add. */
    return fn(arg, &(struct atoll_e2b_event){.type = ATOLL_E2B_EVENT_ALIVE});
}

static int tell_end(struct atoll_e2b_events *e, const json_t *message, atoll_e2b_event_fn *fn,
                    void *arg)
{
    const json_t *error = json_object_get(message, "error");
    const char *text = json_string_value(json_object_get(error, "message"));
    struct atoll_e2b_event event = {.type = ATOLL_E2B_EVENT_END, .text = text ? text : ""};

    e->ended = true;
    if (error)
        event.kind = kind_of(json_string_value(json_object_get(error, "code")));
    return fn(arg, &event);
}

static int tell(struct atoll_e2b_events *e, unsigned flags, const uint8_t *text, size_t n,
                atoll_e2b_event_fn *fn, void *arg)
{
    json_t *message = json_loadb((const char *)text, n, 0, NULL);
    int r;

    if (!json_is_object(message)) {
        json_decref(message);
        return -EBADMSG;
    }
    r = flags & FLAG_END ? tell_end(e, message, fn, arg) : tell_message(e, message, fn, arg);
    json_decref(message);
    return r;
}

/* Takes the first envelope of what is pending; 0 if it is not complete. */
static int take(struct atoll_e2b_events *e, atoll_e2b_event_fn *fn, void *arg)
{
    const uint8_t *p = atoll_buf_head(&e->pending);
    size_t have = atoll_buf_size(&e->pending), len;
    int r;

    if (have > 0 && (p[0] & ~FLAG_END))
        return -EBADMSG; /* compressed, although we never offer that, or not an envelope */
    if (have < HEAD)
        return 0;
    len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (len > ATOLL_E2B_MESSAGE_MAX)
        return -EMSGSIZE;
    if (have < HEAD + len)
        return 0;
    r = tell(e, p[0], p + HEAD, len, fn, arg);
    atoll_buf_consume(&e->pending, HEAD + len);
    return r < 0 ? r : 1;
}

int atoll_e2b_events_feed(struct atoll_e2b_events *e, const void *bytes, size_t n,
                          atoll_e2b_event_fn *fn, void *arg)
{
    const uint8_t *p = bytes;
    int r = 1;

    /* In slices: an envelope may end anywhere in a piece that is larger than the free space. */
    while (n > 0 || r > 0) {
        size_t slice = ATOLL_MIN(n, e->pending.max - atoll_buf_size(&e->pending));
        if (e->ended)
            return n > 0 || atoll_buf_size(&e->pending) > 0 ? -EBADMSG : 0;
        r = atoll_buf_append(&e->pending, p, slice);
        if (r < 0)
            return r;
        p += slice;
        n -= slice;
        r = take(e, fn, arg);
        if (r < 0)
            return r;
    }
    return 0;
}
