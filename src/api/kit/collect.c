#include "api/kit/collect.h"

#include <errno.h>
#include <string.h>

/* Do not cut in the middle of a character. */
static void cut_off(struct atoll_collect *c, int stream)
{
    struct atoll_buf *buf = &c->streams[stream];

    c->truncated[stream] = true;
    buf->len -= atoll_json_utf8_open_tail(atoll_buf_head(buf), atoll_buf_size(buf));
}

static int take_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct atoll_collect *c = arg;
    struct atoll_buf *buf = &c->streams[stream];
    size_t room = ATOLL_COLLECT_MAX - atoll_buf_size(buf);

    if (!c->truncated[stream] && (atoll_buf_append(buf, bytes, ATOLL_MIN(n, room)) < 0 || n > room))
        cut_off(c, stream);
    return 0;
}

/* Output after a gap is dropped: the result could not show where bytes are missing. */
static int take_gap(void *arg, const struct atoll_reader_item *gap)
{
    struct atoll_collect *c = arg;

    if (!c->truncated[gap->stream])
        cut_off(c, gap->stream);
    return 0;
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct atoll_collect *c = arg;

    c->ended(c->arg, result, NULL);
}

static void failed(void *arg, int r)
{
    struct atoll_collect *c = arg;
    struct atoll_error error;

    (void)atoll_fail_errno(&error, -r, "reading the output of a command");
    c->ended(c->arg, NULL, &error);
}

static const struct atoll_exec_pump_ops ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = take_data,
    .gap = take_gap,
    .end = ended,
    .failed = failed,
};

static void start(struct atoll_collect *c, struct atoll_loop *loop, struct atoll_exec *exec,
                  bool follow,
                  void (*done)(void *arg, const struct atoll_exec_result *result,
                               const struct atoll_error *error),
                  void *arg)
{
    const struct atoll_exec_pump_config config = {
        .ops = &ops, .arg = c, .loop = loop, .follow = follow};
    struct atoll_error error;

    *c = (struct atoll_collect){.ended = done, .arg = arg};
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_init(&c->streams[i], ATOLL_COLLECT_MAX);
    if (atoll_exec_pump_open(&c->pump, exec, &config, &error) < 0)
        done(arg, NULL, &error);
    else
        atoll_exec_pump_run(&c->pump);
}

void atoll_collect_start(struct atoll_collect *c, struct atoll_loop *loop, struct atoll_exec *exec,
                         void (*done)(void *arg, const struct atoll_exec_result *result,
                                      const struct atoll_error *error),
                         void *arg)
{
    start(c, loop, exec, true, done, arg);
}

void atoll_collect_so_far(struct atoll_collect *c, struct atoll_loop *loop, struct atoll_exec *exec,
                          void (*done)(void *arg, const struct atoll_exec_result *result,
                                       const struct atoll_error *error),
                          void *arg)
{
    start(c, loop, exec, false, done, arg);
}

void atoll_collect_done(struct atoll_collect *c)
{
    atoll_exec_pump_close(&c->pump);
    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++)
        atoll_buf_done(&c->streams[i]);
}

void atoll_collect_write(const struct atoll_collect *c, struct atoll_json_out *out)
{
    static const struct {
        const char *key, *truncated;
    } names[] = {
        [ATOLL_STREAM_STDOUT] = {"stdout", "stdout_truncated"},
        [ATOLL_STREAM_STDERR] = {"stderr", "stderr_truncated"},
    };

    for (int i = ATOLL_STREAM_STDOUT; i <= ATOLL_STREAM_STDERR; i++) {
        const struct atoll_buf *buf = &c->streams[i];
        atoll_json_bytes(out, names[i].key, atoll_buf_head(buf), atoll_buf_size(buf));
        if (c->truncated[i])
            atoll_json_bool(out, names[i].truncated, true);
    }
}
