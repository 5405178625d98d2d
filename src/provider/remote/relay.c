#include "provider/remote/relay.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"

#define WORD "atoll-relay "
#define ID_LEN 32
#define ALIVE_S 15 /* the relay sends something at least so often */
#define SILENCE_MS (4 * ALIVE_S * 1000)
#define FRAME_HEAD 5

enum { FRAME_OPENED = 1, FRAME_OUTPUT, FRAME_ALIVE, FRAME_END };

bool atoll_remote_relay_read(const char *printed, struct atoll_remote_relay *ret)
{
    const char *line = strstr(printed, WORD);
    struct atoll_remote_relay r = {0};
    unsigned port = 0;

    if (!line || sscanf(line, WORD "%5u %32[0-9a-z]", &port, r.token) != 2 || port == 0 ||
        port > UINT16_MAX || strlen(r.token) != sizeof(r.token) - 1)
        return false;
    r.port = (uint16_t)port;
    *ret = r;
    return true;
}

int atoll_remote_relay_start(const struct atoll_sync_call *call,
                             const struct atoll_remote_installer *i, struct atoll_remote_relay *ret,
                             struct atoll_error *err)
{
    char port[8];
    const char *const argv[] = {"/bin/sh", "-c", "exec " ATOLL_REMOTE_RELAY_COMMAND "\"$1\"",
                                "sh",      port, NULL};
    struct atoll_remote_exit exit = {0};
    int r;

    (void)snprintf(port, sizeof(port), "%u", i->port);
    r = i->run(i->arg, call, argv, &exit, err);

    if (r == 0 && (exit.code != 0 || !atoll_remote_relay_read(exit.text, ret)))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                       "the relay of the agent does not start in the sandbox (status %d)",
                       exit.code);
    return r;
}

/* Streams. */

struct stream {
    uint8_t head[FRAME_HEAD];
    size_t have; /* bytes of the head */
    size_t left; /* bytes of the payload that are still to come */
    bool opened;
    uint64_t sent; /* bytes of input */
};

/* A whole head, or the end of a payload. */
static void take_frame(struct stream *s, struct atoll_remote_stream *to)
{
    if (s->head[0] == FRAME_OPENED) {
        s->opened = true;
        atoll_remote_stream_opened(to);
    } else if (s->head[0] == FRAME_END && s->opened) {
        atoll_remote_stream_exited(to, 0);
    } else if (s->head[0] == FRAME_END) {
        atoll_remote_stream_exited(to, 1);
        atoll_remote_stream_failed(to, ATOLL_ERR_UNAVAILABLE, "the agent does not listen");
    }
}

static int take_head(struct stream *s, struct atoll_remote_stream *to)
{
    uint32_t length;

    memcpy(&length, s->head + 1, sizeof(length));
    s->left = be32toh(length);
    if (s->head[0] < FRAME_OPENED || s->head[0] > FRAME_END ||
        (s->left > 0 && s->head[0] != FRAME_OUTPUT))
        return -EBADMSG;
    take_frame(s, to);
    if (s->left == 0)
        s->have = 0;
    return 0;
}

static int decode(void *state, struct atoll_remote_stream *to, const void *bytes, size_t n)
{
    struct stream *s = state;
    const uint8_t *p = bytes;
    int r = 0;

    while (r == 0 && n > 0) {
        size_t some = ATOLL_MIN(n, s->have < FRAME_HEAD ? FRAME_HEAD - s->have : s->left);

        if (s->have < FRAME_HEAD) {
            memcpy(s->head + s->have, p, some);
            s->have += some;
            if (s->have == FRAME_HEAD)
                r = take_head(s, to);
        } else {
            r = atoll_remote_stream_output(to, p, some);
            s->left -= some;
            if (s->left == 0)
                s->have = 0;
        }
        p += some;
        n -= some;
    }
    return r;
}

static int put_offset(const struct stream *s, struct atoll_buf *body)
{
    uint64_t offset = htobe64(s->sent);
    return atoll_buf_append(body, &offset, sizeof(offset));
}

static int input(void *state, struct atoll_buf *body, const void *bytes, size_t n)
{
    struct stream *s = state;
    int r = put_offset(s, body);

    s->sent += n;
    return r < 0 ? r : atoll_buf_append(body, bytes, n);
}

static int end_input(void *state, struct atoll_buf *body)
{
    return put_offset(state, body);
}

static int close_stream(void *state ATOLL_UNUSED, struct atoll_buf *body)
{
    return atoll_buf_appends(body, "close");
}

static const struct atoll_remote_stream_ops stream_ops = {
    .decode = decode,
    .input = input,
    .end_input = end_input,
    .kill = close_stream,
    .free = free,
};

/* Dialing. */

static int make_urls(const struct atoll_remote_relay_way *way, char *urls[ATOLL_REMOTE_REQUESTS])
{
    static const char *const verbs[ATOLL_REMOTE_REQUESTS] = {
        [ATOLL_REMOTE_START] = "open",
        [ATOLL_REMOTE_INPUT] = "input",
        [ATOLL_REMOTE_END] = "end",
        [ATOLL_REMOTE_KILL] = "close",
    };
    char id[ID_LEN + 1];

    atoll_rand_id(id, ID_LEN);
    for (size_t i = 0; i < ATOLL_REMOTE_REQUESTS; i++)
        if (asprintf(&urls[i], "%s/%s/%s", way->url, verbs[i], id) < 0) {
            urls[i] = NULL;
            return -ENOMEM;
        }
    return 0;
}

int atoll_remote_relay_dial(struct atoll_remote_pump *pump, const struct atoll_sync_call *call,
                            const struct atoll_remote_relay_way *way,
                            const struct atoll_remote_relay *relay, int *ret_fd,
                            struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    struct stream *s = calloc(1, sizeof(*s));
    char *urls[ATOLL_REMOTE_REQUESTS] = {NULL};
    struct atoll_remote_open open = {
        .handle = way->handle, .silence_ms = SILENCE_MS, .ops = &stream_ops, .state = s};
    int r = s && make_urls(way, urls) == 0 ? 0 : atoll_fail_errno(err, ENOMEM, "stream");

    if (r == 0)
        r = atoll_remote_headers(&headers, way->headers, err);
    if (r == 0)
        r = atoll_remote_header(&headers, err, "Stream-Token: %s", relay->token);
    if (r == 0)
        r = atoll_remote_header(&headers, err, "Content-Type: application/octet-stream");
    if (r == 0) {
        for (size_t i = 0; i < ATOLL_REMOTE_REQUESTS; i++)
            open.to[i].url = urls[i];
        open.to[ATOLL_REMOTE_START].method = "GET"; /* proxies may want a length of a POST */
        open.start_headers = headers;
        open.headers = headers;
        r = atoll_remote_pump_open(pump, call, &open, ret_fd, err);
    } else {
        free(s);
    }
    for (size_t i = 0; i < ATOLL_REMOTE_REQUESTS; i++)
        free(urls[i]);
    return r;
}
