#include <string.h>
#include "api/daytona/toolbox_internal.h"

static const int streams[] = {ATOLL_STREAM_STDOUT, ATOLL_STREAM_STDERR};
static const char *const marks[] = {
    [ATOLL_STREAM_STDOUT] = "\1\1\1",
    [ATOLL_STREAM_STDERR] = "\2\2\2",
};

void atoll_toolbox_mux_init(struct atoll_toolbox_mux *mux)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(streams); i++)
        atoll_buf_init(&mux->held[streams[i]], ATOLL_TOOLBOX_LINE_MAX);
}

void atoll_toolbox_mux_done(struct atoll_toolbox_mux *mux)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(streams); i++)
        atoll_buf_done(&mux->held[streams[i]]);
}

/* Writes the held part of a line and the bytes. */
static int put_line(struct atoll_toolbox_mux *mux, struct atoll_buf *out, int stream,
                    const uint8_t *bytes, size_t n)
{
    struct atoll_buf *held = &mux->held[stream];
    int r = atoll_buf_append(out, marks[stream], 3);

    if (r == 0 && atoll_buf_size(held) > 0)
        r = atoll_buf_append(out, atoll_buf_head(held), atoll_buf_size(held));
    atoll_buf_clear(held);
    return r < 0 ? r : atoll_buf_append(out, bytes, n);
}

/* Holds the beginning of a line. A very long line is passed in parts. */
static int hold(struct atoll_toolbox_mux *mux, struct atoll_buf *out, int stream,
                const uint8_t *bytes, size_t n)
{
    if (atoll_buf_append(&mux->held[stream], bytes, n) == 0)
        return 0;
    return put_line(mux, out, stream, bytes, n);
}

int atoll_toolbox_mux_add(struct atoll_toolbox_mux *mux, struct atoll_buf *out, int stream,
                          const uint8_t *bytes, size_t n)
{
    int r = 0;

    while (n > 0 && r == 0) {
        const uint8_t *newline = memchr(bytes, '\n', n);
        size_t len = newline ? (size_t)(newline - bytes) + 1 : n;
        r = (newline ? put_line : hold)(mux, out, stream, bytes, len);
        bytes += len;
        n -= len;
    }
    return r;
}

int atoll_toolbox_mux_end(struct atoll_toolbox_mux *mux, struct atoll_buf *out)
{
    int r = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(streams) && r == 0; i++)
        if (atoll_buf_size(&mux->held[streams[i]]) > 0)
            r = put_line(mux, out, streams[i], (const uint8_t *)"\n", 1);
    return r;
}
