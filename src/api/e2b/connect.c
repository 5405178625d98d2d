#include "api/e2b/connect.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include "api/fields.h"
#include "api/metrics.h"
#include "base/text.h"

#define UNARY_TYPE "application/json"
#define STREAM_TYPE "application/connect+json"
#define MESSAGE_MAX ATOLL_BODY_FILES
#define KEEPALIVE_DEFAULT_S 90
#define KEEPALIVE_MAX_S 3600

/* Envelopes. */

ssize_t atoll_connect_take(const uint8_t *bytes, size_t n, size_t max,
                           struct atoll_connect_frame *ret)
{
    size_t len;

    if (n < 1)
        return 0;
    /* Bit 0 means compression, which was not negotiated. */
    if (bytes[0] & ~ATOLL_CONNECT_END)
        return -EBADMSG;
    if (n < ATOLL_CONNECT_HEAD)
        return 0;
    len = (size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4];
    if (len > max)
        return -EMSGSIZE;
    if (n - ATOLL_CONNECT_HEAD < len)
        return 0;
    *ret = (struct atoll_connect_frame){bytes[0], bytes + ATOLL_CONNECT_HEAD, len};
    return (ssize_t)(ATOLL_CONNECT_HEAD + len);
}

int atoll_connect_parse(const uint8_t *bytes, size_t n, json_t **ret, struct atoll_error *err)
{
    bool no_memory;
    json_error_t at;
    json_t *message = atoll_fields_load(bytes, n, &at, &no_memory);

    if (message && json_is_object(message)) {
        *ret = message;
        return 0;
    }
    if (no_memory)
        return atoll_fields_no_memory(err);
    json_decref(message);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "the message is not a JSON object%s%s", message ? "" : ": ",
                      message ? "" : at.text);
}

static bool has_type(const struct atoll_api_call *call, const char *type)
{
    const char *given = call->req ? atoll_http_header(call->req, "content-type") : NULL;
    size_t n = strlen(type);

    return given && strncasecmp(given, type, n) == 0 && strchr("; \t", given[n]) != NULL;
}

bool atoll_connect_is_stream(const struct atoll_api_call *call)
{
    return has_type(call, STREAM_TYPE);
}

/* The protocol requires this status, the accepted type in a header, and no body. */
static void refuse_type(struct atoll_api_call *call, const char *accepted)
{
    (void)atoll_http_set_header(call->req, "Accept-Post", accepted);
    atoll_api_reply_empty(call, 415);
}

bool atoll_connect_unary(struct atoll_api_call *call, const uint8_t *body, size_t n, json_t **ret)
{
    struct atoll_error error;

    if (!has_type(call, UNARY_TYPE)) {
        refuse_type(call, UNARY_TYPE);
        return false;
    }
    if (atoll_connect_parse(body, n, ret, &error) == 0)
        return true;
    atoll_connect_fail(call, &error);
    return false;
}

static int parse_single(const uint8_t *body, size_t n, json_t **ret, struct atoll_error *err)
{
    struct atoll_connect_frame frame;
    ssize_t used = atoll_connect_take(body, n, MESSAGE_MAX, &frame);

    if (used <= 0 || (size_t)used != n || frame.flags != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EBADMSG,
                          "the request must be exactly one message in an envelope");
    return atoll_connect_parse(frame.message, frame.len, ret, err);
}

bool atoll_connect_stream(struct atoll_api_call *call, const uint8_t *body, size_t n, json_t **ret)
{
    struct atoll_error error;

    if (!has_type(call, STREAM_TYPE)) {
        refuse_type(call, STREAM_TYPE);
        return false;
    }
    if (parse_single(body, n, ret, &error) == 0)
        return true;
    atoll_connect_fail(call, &error);
    return false;
}

/* Fields. */

const json_t *atoll_connect_get(const json_t *message, const char *name)
{
    const json_t *value = json_object_get(message, name);
    char snake[64];
    size_t n = 0;

    if (!value) {
        for (const char *p = name; *p && n + 2 < sizeof(snake); p++) {
            bool upper = *p >= 'A' && *p <= 'Z';
            if (upper)
                snake[n++] = '_';
            snake[n++] = (char)(upper ? *p - 'A' + 'a' : *p);
        }
        snake[n] = '\0';
        value = json_object_get(message, snake);
    }
    return json_is_null(value) ? NULL : value;
}

static int refuse(struct atoll_error *err, const char *name, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be %s", name, what);
}

int atoll_connect_text(const json_t *message, const char *name, const char **ret,
                       struct atoll_error *err)
{
    const json_t *value = atoll_connect_get(message, name);

    if (!value)
        return 0;
    if (!json_is_string(value))
        return refuse(err, name, "a string");
    *ret = json_string_value(value);
    return 0;
}

int atoll_connect_flag(const json_t *message, const char *name, bool *ret, struct atoll_error *err)
{
    const json_t *value = atoll_connect_get(message, name);

    if (value && !json_is_boolean(value))
        return refuse(err, name, "true or false");
    if (value)
        *ret = json_is_true(value);
    return 0;
}

int atoll_connect_u32(const json_t *message, const char *name, uint32_t *ret,
                      struct atoll_error *err)
{
    const json_t *value = atoll_connect_get(message, name);
    uint64_t number = *ret;
    bool fine = true;

    if (json_is_string(value))
        fine = atoll_text_u64(json_string_value(value), 0, UINT32_MAX, &number) == 0;
    else if (json_is_integer(value) && json_integer_value(value) >= 0)
        number = (uint64_t)json_integer_value(value);
    else
        fine = !value;
    if (!fine || number > UINT32_MAX)
        return refuse(err, name, "a whole number of 32 bits");
    *ret = (uint32_t)number;
    return 0;
}

/* Timeouts. */

int atoll_connect_timeout(const struct atoll_api_call *call, uint32_t *ret_ms,
                          struct atoll_error *err)
{
    const char *text = atoll_http_header(call->req, "connect-timeout-ms");
    uint64_t ms = 0;

    if (text && (strlen(text) > 10 || atoll_text_u64(text, 0, UINT64_MAX, &ms) < 0))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "Connect-Timeout-Ms must have at most ten digits");
    *ret_ms = (uint32_t)ATOLL_MIN(ms, (uint64_t)UINT32_MAX);
    return 0;
}

int64_t atoll_connect_keepalive_ms(const struct atoll_api_call *call)
{
    const char *text = atoll_http_header(call->req, "keepalive-ping-interval");
    uint64_t seconds = KEEPALIVE_DEFAULT_S;

    if (text && atoll_text_u64(text, 1, KEEPALIVE_MAX_S, &seconds) < 0)
        seconds = KEEPALIVE_DEFAULT_S;
    return (int64_t)seconds * 1000;
}

/* Responses. */

void atoll_connect_reply_empty(struct atoll_api_call *call)
{
    atoll_api_reply_text(call, 200, UNARY_TYPE, "{}", 2);
}

/* HTTP statuses of unary errors, as the protocol defines them. */
static int status_of(enum atoll_error_kind kind)
{
    static const int statuses[] = {
        [ATOLL_ERR_CANCELED] = 499,
        [ATOLL_ERR_UNKNOWN] = 500,
        [ATOLL_ERR_INVALID_ARGUMENT] = 400,
        [ATOLL_ERR_DEADLINE_EXCEEDED] = 504,
        [ATOLL_ERR_NOT_FOUND] = 404,
        [ATOLL_ERR_ALREADY_EXISTS] = 409,
        [ATOLL_ERR_PERMISSION_DENIED] = 403,
        [ATOLL_ERR_RESOURCE_EXHAUSTED] = 429,
        [ATOLL_ERR_FAILED_PRECONDITION] = 400,
        [ATOLL_ERR_ABORTED] = 409,
        [ATOLL_ERR_OUT_OF_RANGE] = 400,
        [ATOLL_ERR_UNIMPLEMENTED] = 501,
        [ATOLL_ERR_INTERNAL] = 500,
        [ATOLL_ERR_UNAVAILABLE] = 503,
        [ATOLL_ERR_DATA_LOSS] = 500,
        [ATOLL_ERR_UNAUTHENTICATED] = 401,
    };
    return kind > ATOLL_ERR_NONE && (size_t)kind < ATOLL_ARRAY_LEN(statuses) ? statuses[kind] : 500;
}

static void write_error(struct atoll_json_out *out, const struct atoll_error *error)
{
    atoll_json_text(out, "code", atoll_error_kind_name(error->kind));
    atoll_json_text(out, "message", error->text);
}

void atoll_connect_fail(struct atoll_api_call *call, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_connect_is_stream(call)) {
        if (!atoll_http_begun(call->req))
            atoll_connect_begin(call);
        atoll_connect_end(call, error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    write_error(&out, error);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status_of(error->kind), &out);
}

void atoll_connect_begin(struct atoll_api_call *call)
{
    atoll_api_begin(call, 200, STREAM_TYPE, -1);
}

struct atoll_json_out atoll_connect_frame_begin(struct atoll_buf *buf)
{
    static const uint8_t head[ATOLL_CONNECT_HEAD] = {0};
    struct atoll_json_out out;

    atoll_buf_clear(buf);
    atoll_json_out_init(&out, buf);
    out.error = atoll_buf_append(buf, head, sizeof(head));
    return out;
}

static int frame_send(struct atoll_api_call *call, struct atoll_json_out *out, uint8_t flags)
{
    size_t n = atoll_buf_size(out->buf), len;
    uint8_t *head;

    if (out->error < 0)
        return out->error;
    len = n - ATOLL_CONNECT_HEAD;
    head = out->buf->data + out->buf->off;
    head[0] = flags;
    for (int i = 0; i < 4; i++)
        head[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("api", "out"), (double)n);
    return atoll_http_write(call->req, head, n);
}

int atoll_connect_frame_send(struct atoll_api_call *call, struct atoll_json_out *out)
{
    return frame_send(call, out, 0);
}

void atoll_connect_end(struct atoll_api_call *call, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r;

    if (!call->req) {
        atoll_api_drop(call);
        return;
    }
    atoll_buf_init(&buf, ATOLL_ERROR_TEXT_MAX * 6 + 256);
    out = atoll_connect_frame_begin(&buf);
    atoll_json_open(&out, NULL, '{');
    if (error) {
        atoll_json_open(&out, "error", '{');
        write_error(&out, error);
        atoll_json_close(&out, '}');
    }
    atoll_json_close(&out, '}');
    r = frame_send(call, &out, ATOLL_CONNECT_END);
    atoll_buf_done(&buf);
    if (r < 0 && r != -EPIPE)
        atoll_api_abort(call, strerror(-r));
    else
        atoll_api_end(call);
}
